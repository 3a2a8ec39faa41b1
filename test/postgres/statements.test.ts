import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

const ids = createIds()
const rateLimits = { key: { perSecond: 10, burst: 10 }, organization: { perSecond: 10, burst: 10 } }

describe('createPostgresStore()', () => {
  test('refuses what is neither a pool nor a connection string, without repeating it', () => {
    for (const source of ['', 'not a url', 'mysql://user:secret@localhost/app', undefined, {}]) {
      assert.throws(
        () => createPostgresStore(source as string),
        (error) => error instanceof TypeError && !error.message.includes('secret'),
      )
    }
  })

  for (const option of ['maxConnections', 'statementTimeoutMs', 'maxPending']) {
    test(`refuses a ${option} of 0 and of 1.5`, () => {
      for (const value of [0, 1.5]) {
        assert.throws(() => createPostgresStore('postgres://localhost/app', { [option]: value }), RangeError)
      }
    })
  }
})

describe('the statements', () => {
  let database: TestDatabase
  let sql: Sql
  let keyDigest: string

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
    const key = generateApiKey('bapi')
    keyDigest = digestApiKey(key)
    const store = createPostgresStore(sql)
    await store.apiKeys.insert({
      organizationId: 'org_a',
      limit: 1000,
      key: {
        id: ids('key'),
        digest: keyDigest,
        name: 'Test',
        scopes: ['clients:read', 'clients:write'],
        prefix: 'bapi_live_',
        lastFour: key.slice(-4),
        rateLimit: null,
        createdAt: new Date().toISOString(),
        expiresAt: null,
      },
      entry: newEntry(),
    })
  })
  after(() => database.drop())

  const creation = (organizationId: string) => ({
    organizationId,
    idempotency: null,
    ...newClient({ name: 'Atlas' }, { ids, now: Date.now() }),
  })

  test('cannot be captured by a function of the same name in a schema of the search path', async () => {
    await sql.unsafe(`
      create function public.json_build_object(text, text, text, json, text, json, text, boolean) returns json
        language sql as $$ select '{"outcome":"admitted","caller":{"organizationId":"org_b","keyId":"k"}}'::json $$;
      create schema evil;
      create function evil.clock_timestamp() returns timestamptz language sql as $$ select timestamptz '2000-01-01' $$;`)
    const hostile = database.sql({ connection: { search_path: 'evil, public, pg_catalog' } })
    const admission = await createPostgresStore(hostile).apiKeys.admit({
      keyDigest,
      scope: 'clients:read',
      rateLimits,
    })
    assert.equal(admission.outcome, 'admitted')
    assert.equal(admission.caller.organizationId, 'org_a')
  })

  test('work with a pool that renames and transforms what it sends and gets', async () => {
    const upper = (text: string): string => text.toUpperCase()
    const odd = database.sql({
      transform: {
        column: { to: upper, from: upper },
        value: (value: unknown) => [value],
        row: (row: object) => row,
      },
    })
    const store = createPostgresStore(odd)
    await store.clients.create(creation('org_odd'))
    const { page } = await store.clients.admitAndList(
      { keyDigest, scope: 'clients:read', rateLimits: null },
      5,
    )
    assert.equal(String(page), '[]')
  })

  test('a create that waited for a locked table longer than its caller writes nothing afterwards', async () => {
    const store = createPostgresStore(database.sql({ fetch_types: false }), { statementTimeoutMs: 200 })
    const lock = await holdLock()
    await assert.rejects(store.clients.create(creation('org_late')), { code: 'store_unavailable' })
    // Past the time after which a create is not begun any more.
    await new Promise((resolve) => setTimeout(resolve, 4200))
    await lock.release()
    // Behind whatever still waits for the table.
    await (await holdLock()).release()
    await store.close()
    assert.equal((await sql`select 1 from business_api.clients where organization_id = 'org_late'`).length, 0)
    assert.equal((await sql`select 1 from business_api.events where organization_id = 'org_late'`).length, 0)
  })

  test('a statement that was never sent does not run when its caller has long had an answer', async () => {
    const store = createPostgresStore(database.url, { maxConnections: 1, statementTimeoutMs: 300 })
    const lock = await holdLock()
    const sent = store.clients.create(creation('org_sent')).catch(() => {})
    await assert.rejects(store.clients.create(creation('org_queued')), { code: 'store_unavailable' })
    await sent
    await lock.release()
    await store.apiKeys.list('org_queued')
    assert.equal(
      (await sql`select 1 from business_api.clients where organization_id = 'org_queued'`).length,
      0,
    )
    await store.close()
  })

  /** Locks the clients' table until told otherwise. */
  async function holdLock(): Promise<{ release(): Promise<void> }> {
    const { promise: unlocked, resolve: unlock } = deferred()
    const { promise: locked, resolve: haveLocked } = deferred()
    const transaction = sql.begin(async (tx) => {
      await tx`lock table business_api.clients in access exclusive mode`
      haveLocked()
      await unlocked
    })
    await locked
    return {
      async release() {
        unlock()
        await transaction
      },
    }
  }
})

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
