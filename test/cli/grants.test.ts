import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { PARTS } from '../../lib/postgres/schema/privileges.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { OPERATIONS, recordOf, request } from '../api/_api.ts'
import { createTestSender } from '../delivery/_loop.ts'
import { assertFailed, cli, cliOn, jsonOf, SECRET_KEY, textOf } from './_cli.ts'

// The command, and an application whose parts connect with roles that have the printed grants.

let database: TestDatabase
let sql: Sql
const names: string[] = []

/** A role of this test. Its name needs quotes. */
function role(part: string): string {
  return `kit "${part}" ${PREFIX}`
}

const PREFIX = randomUUID().slice(0, 8)
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The connection string of a role. */
function urlOf(part: string): string {
  const url = new URL(database.url)
  url.searchParams.set('role', role(part))
  return url.href
}

before(async () => {
  database = await createEmptyDatabase()
  sql = database.sql()
  for (const part of [...PARTS, 'migrator']) {
    names.push(role(part))
    await sql.unsafe(`create role ${quote(role(part))}`)
  }
  await sql.unsafe(`create schema business_api authorization ${quote(role('migrator'))}`)
  await migrate(urlOf('migrator'))
  const args = PARTS.flatMap((part) => [`--${part}`, role(part)])
  const owner = database.sql({ max: 1, connection: { role: role('migrator') } })
  await owner.unsafe(textOf(await cli(['grants', ...args])))
})

after(async () => {
  for (const name of names) await sql.unsafe(`drop owned by ${quote(name)} cascade; drop role ${quote(name)}`)
  await database.drop()
})

describe('grants', () => {
  test('prints a transaction, or the statements as JSON, with quoted names', async () => {
    const script = textOf(await cli(['grants', '--api', 'a"b; drop schema business_api']))
    assert.match(script, /^begin;\nrevoke execute on all functions in schema business_api from public;\n/)
    assert.match(script, /\ngrant usage on schema business_api to "a""b; drop schema business_api";\n/)
    assert.match(script, /\ncommit;\n$/)
    const { statements } = jsonOf(await cli(['grants', '--worker', 'w', '--worker', 'v', '--json']))
    assert.ok(statements.includes('grant usage on schema business_api to "v"'))
    assert.doesNotMatch(statements.join(), /update \([^)]*sealed_secret/)
  })

  test('rejects a command line without a role, and a name that PostgreSQL would truncate', async () => {
    assertFailed(await cli(['grants']), 2, /Pass at least one of --api, --platform, /)
    assertFailed(await cli(['grants', '--api', 'a'.repeat(64)]), 2, /its name must have 1 to 63 bytes/)
  })

  test('prints nothing that would change if run twice', async () => {
    const readAcls = () => sql`
      select relname, relacl::text, (select array_agg(attacl::text order by attnum) from pg_attribute where attrelid = c.oid)
      from pg_class c where relnamespace = 'business_api'::regnamespace order by relname`
    const before = [...(await readAcls())]
    const owner = database.sql({ max: 1, connection: { role: role('migrator') } })
    await owner.unsafe(textOf(await cli(['grants', '--api', role('api')])))
    assert.deepEqual([...(await readAcls())], before)
  })
})

test('an application can serve and deliver with a role for each part', async () => {
  const stores = new Map(PARTS.map((part) => [part, createPostgresStore(urlOf(part))]))
  const storeOf = (part: (typeof PARTS)[number]) => {
    const store = stores.get(part)
    assert.ok(store)
    return store
  }
  try {
    const settings = createDeveloperSettings(storeOf('settings'), {
      secretKeys: [SECRET_KEY],
      allowPrivateNetworks: true,
    })
    await settings.endpoints.register('org_1', {
      url: 'https://127.0.0.1/in',
      headers: { Authorization: 'Bearer x' },
    })
    const { key } = await settings.apiKeys.create('org_1', {
      name: 'All',
      scopes: [...new Set(OPERATIONS.map(({ scope }) => scope))],
    })

    const errors: unknown[] = []
    const onError = (error: unknown): number => errors.push(error)
    const api = createBusinessApi(storeOf('api'), { logger: false, onError })
    const client = await createPlatform(storeOf('platform')).clients.create('org_1', { name: 'Atlas' })
    for (const { method, path, body } of OPERATIONS) {
      const json = { businessId: client.business.id, ...body }
      const headers = { 'Idempotency-Key': 'once' }
      const options = method === 'POST' ? { key, json, headers } : { key }
      const answer = await request(api.fetch, path, options)
      assert.equal(answer.status, 200, `${method} ${path}: ${answer.text} ${errors}`)
      if (method === 'GET') continue
      const replay = await request(api.fetch, path, options)
      assert.deepEqual(recordOf(replay), recordOf(answer))
    }

    const sender = createTestSender()
    const loop = createDeliveryLoop(storeOf('worker'), sender, {
      secretKeys: [SECRET_KEY],
      logger: false,
      onError,
      markOverdue: true,
    })
    assert.equal((await loop.runOnce()).delivered, sender.requests.length)
    const sent = new Set(sender.requests.map(({ body }) => JSON.parse(body).type))
    const created = OPERATIONS.filter(({ method }) => method === 'POST').map(
      ({ item }) => `${item.toLowerCase()}.created`,
    )
    assert.deepEqual(sent, new Set(['business.created', ...created]))
    assert.equal((await loop.stats()).due, 0)
    assert.deepEqual(errors, [])
  } finally {
    await Promise.all([...stores.values()].map((store) => store.close()))
  }
})

test('an administrator can run the commands', async () => {
  const run = cliOn(urlOf('administrator'))
  const made = jsonOf(
    await run('keys', 'create', '--organization', 'org_2', '--scopes', 'clients:read', '--json'),
  )
  jsonOf(await run('keys', 'revoke', made.id, '--organization', 'org_2', '--yes', '--json'))
  jsonOf(await run('limits', 'set', '--organization', 'org_2', '--per-second', '5', '--burst', '5', '--json'))
  jsonOf(await run('endpoints', 'list', '--organization', 'org_2', '--json'))
  jsonOf(await run('deliveries', 'list', '--organization', 'org_2', '--json'))
  jsonOf(await run('audit', 'list', '--organization', 'org_2', '--json'))
  jsonOf(await run('purge', '--older-than', '30d', '--yes', '--json'))
  jsonOf(await run('migrate', '--dry-run', '--json'))
  assert.notEqual(jsonOf(await run('status', '--json')).backlog, null)
  const { checks } = JSON.parse((await run('doctor', '--json')).stdout)
  assert.deepEqual(
    checks.filter(({ level }: { level: string }) => level === 'fail'),
    [],
  )
})
