import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, jsonOf, type Result } from './_cli.ts'

// The log of requests at the command line, and what no table, call and output holds.

const ORG = 'org_1'
let database: TestDatabase
let sql: Sql
let store: PostgresStore
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  store = createPostgresStore(database.url)
  run = cliOn(database.url)
})

after(async () => {
  await store.close()
  await database.drop()
})

const SECRET_KEYS = [randomBytes(32).toString('base64')]
const lookup = async () => [{ address: '1.2.3.4', family: 4 }]

test('requests list and show print the log, and no table, call or output holds a secret', async () => {
  const settings = createDeveloperSettings(store, { secretKeys: SECRET_KEYS, lookup })
  const { apiKeys, endpoints, requests, deliveries, events, activity } = settings
  const { key, ...apiKey } = await apiKeys.create(ORG, {
    name: 'CRM',
    scopes: ['clients:write', 'clients:read'],
  })
  const { secret } = await endpoints.register(ORG, {
    url: 'https://hooks.example/',
    headers: { 'X-Token': 'header-value-of-an-endpoint' },
  })
  const api = createBusinessApi(store, { requestLog: 'all', logger: false })
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    'X-Own': 'header-of-a-caller',
  }
  const call = (query: string, body: string) =>
    api.fetch(new Request(`http://x/api/v1/clients${query}`, { method: 'POST', body, headers }))
  assert.equal((await call('?token=value-of-a-query', '{"name":"Atlas"}')).status, 200)
  const refused = await call('', '{"name":"","note":"value-of-a-body"}')
  assert.equal(refused.status, 422)
  await api.requestLog.flush()

  const signatures: string[] = []
  const sender = {
    async send(request: { headers: Readonly<Record<string, string>> }) {
      signatures.push(request.headers['X-SERVICE-Signature'] ?? '')
      const kept = { server: 'nginx', 'x-request-id': 'r-1' }
      const response = {
        ...kept,
        'set-cookie': 'cookie-of-a-response',
        'www-authenticate': 'challenge-of-a-response',
      }
      return { status: 401, error: null, bodyExcerpt: '', durationMs: 1, headers: response }
    },
    async close() {},
  }
  await createDeliveryLoop(store, sender, {
    secretKeys: SECRET_KEYS,
    retryDelaysMs: [],
    logger: false,
  }).runOnce()

  const requestId = refused.headers.get('X-Request-Id') ?? ''
  const listed = await run('requests', 'list', '--organization', ORG)
  const shown = await run('requests', 'show', requestId, '--organization', ORG)
  assert.match(listed.stdout, /AT +STATUS +REQUEST +TIME +KEY +ID +ERROR/)
  assert.match(listed.stdout, /422 +POST \/api\/v1\/clients .*CRM.*name must be/s)
  assert.match(shown.stdout, new RegExp(`${apiKey.id}`))
  const errors = jsonOf(
    await run(
      'requests',
      'list',
      '--organization',
      ORG,
      '--status',
      '4xx',
      '--key',
      apiKey.id,
      '--since',
      '1h',
      '--json',
    ),
  )
  assert.deepEqual(
    errors.data.map(({ id }: { id: string }) => id),
    [requestId],
  )
  assertFailed(await run('requests', 'show', 'req_unknown', '--organization', ORG), 1, /no such record/)

  const { data } = await deliveries.list(ORG)
  const details = await Promise.all(data.map(({ id }) => deliveries.get(ORG, id)))
  assert.deepEqual(details[0]?.attemptLog[0]?.headers?.response, { server: 'nginx', 'x-request-id': 'r-1' })
  assert.equal(details[0]?.attemptLog[0]?.headers?.request['X-Token'], '(hidden)')
  const outputs = [
    listed.stdout,
    shown.stdout,
    errors,
    details,
    await requests.list(ORG),
    await activity(ORG),
  ]
  outputs.push(
    await events.list(ORG, { withBody: true }),
    (await run('activity', '--organization', ORG)).stdout,
  )
  for (const { id } of data)
    outputs.push((await run('deliveries', 'show', id, '--organization', ORG, '--json')).stdout)
  outputs.push((await run('export', '--organization', ORG, '--all')).stdout)
  const tables: unknown[] = []
  const names = await sql<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p') and not relispartition`
  for (const { name } of names)
    tables.push(await sql`select t::text as row from ${sql(`business_api.${name}`)} t`)
  const ofCallers = ['value-of-a-query', 'value-of-a-body', 'header-of-a-caller']
  const ofResponses = ['cookie-of-a-response', 'challenge-of-a-response']
  const never = [
    key,
    key.slice(-30),
    secret,
    secret.slice(6),
    'header-value-of-an-endpoint',
    ...ofCallers,
    ...ofResponses,
  ]
  for (const one of never) assert.ok(!JSON.stringify([tables, outputs]).includes(one), one)
  assert.ok(signatures.length > 0)
  for (const one of signatures) {
    assert.ok(
      !JSON.stringify(outputs).includes(one.slice(one.indexOf('v1='))),
      'a signature within its tolerance',
    )
  }
})
