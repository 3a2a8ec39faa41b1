import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import {
  BusinessApiError,
  createBusinessApi,
  type ErrorCode,
  SCHEMA_MISSING,
  SCHEMA_OUTDATED,
  SCHEMA_TOO_NEW,
} from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import { createSchemaFaults } from '../../lib/postgres/schema/schema-fault.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { assertError, request } from '../api/_api.ts'
import { createTestSender, until } from '../delivery/_loop.ts'

// The errors for callers, operators and loops if the schema doesn't match this version.

let database: TestDatabase
let sql: Sql
let store: PostgresStore

beforeEach(async () => {
  database = await createEmptyDatabase()
  sql = database.sql()
  store = createPostgresStore(database.url)
})

afterEach(async () => {
  await store.close()
  await database.drop()
})

const ADVICE = "run 'business-api-kit migrate', or call migrate() of business-api-kit/postgres, and try again"
const NEVER_MIGRATED = `Cannot use this database because it was never migrated: ${ADVICE}`

/** Returns a check for one of our errors with PostgreSQL's error as the cause. */
function isFault(code: ErrorCode, message: string | RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof BusinessApiError, String(error))
    assert.equal(error.code, code)
    if (typeof message === 'string') assert.equal(error.message, message)
    else assert.match(error.message, message)
    assert.ok(error.cause instanceof postgres.PostgresError)
    // Schema, table, column or function, depending on the first name in the statement.
    assert.match(error.cause.code, /^(3F000|42P01|42703|42883)$/)
    return true
  }
}

describe('a database that was never migrated', () => {
  test('returns 500 to API callers and passes the reason to onError', async () => {
    const errors: unknown[] = []
    const api = createBusinessApi(store, { logger: false, onError: (error) => errors.push(error) })
    const key = generateApiKey('bapi', 0)
    assertError(await request(api.fetch, '/api/v1/clients', { key }), 500, 'Internal error')
    assertError(await request(api.fetch, '/api/v1/clients', { key, json: { name: 'Atlas' } }), 500)
    assert.equal(errors.length, 2)
    for (const error of errors) isFault(SCHEMA_MISSING, NEVER_MIGRATED)(error)
  })

  test('is reported by settings and platform calls, including in the host’s transaction', async () => {
    const fault = isFault(SCHEMA_MISSING, NEVER_MIGRATED)
    await assert.rejects(createDeveloperSettings(store).apiKeys.list('org_1'), fault)
    const { clients } = createPlatform(store)
    await assert.rejects(clients.create('org_1', { name: 'Atlas' }), isFault(SCHEMA_MISSING, NEVER_MIGRATED))
    await assert.rejects(
      sql.begin((tx) => createPlatform(store).using(tx).clients.create('org_1', { name: 'Atlas' })),
      isFault(SCHEMA_MISSING, NEVER_MIGRATED),
    )
  })

  test('is reported by a starting delivery loop, which delivers after the migration', async (t) => {
    const errors: unknown[] = []
    const sender = createTestSender()
    const loop = createDeliveryLoop(store, sender, {
      allowPlaintextSecrets: true,
      logger: false,
      onError: (error) => errors.push(error),
    })
    await assert.rejects(loop.runOnce(), isFault(SCHEMA_MISSING, NEVER_MIGRATED))
    loop.start()
    t.after(() => loop.stop())
    await until('the loop reports', () => errors.length > 0)
    isFault(SCHEMA_MISSING, NEVER_MIGRATED)(errors[0])
    await migrate(sql)
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
    })
    await settings.endpoints.register('org_1', { url: 'https://127.0.0.1/in' })
    await createPlatform(store).clients.create('org_1', { name: 'Atlas' })
    await until('an event is delivered', () => sender.requests.length > 0)
  })

  test("can be used by the same store once it's migrated", async () => {
    const { apiKeys } = createDeveloperSettings(store)
    await assert.rejects(apiKeys.list('org_1'), { code: SCHEMA_MISSING })
    await migrate(sql)
    assert.deepEqual(await apiKeys.list('org_1'), [])
  })
})

describe("a database whose migrations don't match", () => {
  test('is outdated if some are pending', async () => {
    await migrate(sql)
    const next = { ...readMigrationTexts(), '0002-next.sql': 'select 2', '0003-later.sql': 'select 3' }
    const explain = createSchemaFaults(async (build) => {
      const [row] = await build(sql, sql`'tag'`).values()
      return row as string[]
    }, next)
    const missing: unknown = await sql`select * from business_api.next`.catch((error) => error)
    const message = `Cannot use this database because the migration '0002-next.sql' and later ones are pending: ${ADVICE}`
    assert.ok(isFault(SCHEMA_OUTDATED, message)(await explain(missing)))
  })

  test('is too new if a breaking one was applied', async () => {
    await migrate(sql)
    await sql`insert into business_api.migrations (id, name, breaking) values (9999, '9999-to-come.sql', true)`
    await sql`alter table business_api.api_keys rename column name to label`
    await assert.rejects(
      createDeveloperSettings(store).apiKeys.list('org_1'),
      isFault(SCHEMA_TOO_NEW, /it holds the breaking migration '9999-to-come\.sql'/),
    )
  })

  test("that are all applied doesn't explain any error", async () => {
    await migrate(sql)
    await sql`alter table business_api.api_keys rename to other_keys`
    await assert.rejects(createDeveloperSettings(store).apiKeys.list('org_1'), { code: '42P01' })
  })
})

test('many errors at once read the migrations once', async () => {
  let statements = 0
  const explain = createSchemaFaults(async (build) => {
    statements++
    const [row] = await build(sql, sql`'tag'`).values()
    return row as string[]
  })
  const failure: unknown = await sql`select * from business_api.businesses`.catch((error) => error)
  const explained = await Promise.all(Array.from({ length: 50 }, () => explain(failure)))
  for (const error of explained) assert.equal((error as BusinessApiError).code, SCHEMA_MISSING)
  assert.equal(statements, 1)
})
