import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import type { RequestRecord } from '../../lib/access/request-log.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result } from './_cli.ts'

// The request log on the command line, and what must not be in any table, call or output.

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

test('requests list and show print the log, and no table, call or output contains a secret', async () => {
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

test('requests tail prints each new request once if it matches the flags, until it receives a signal', async () => {
  const org = 'org_tail'
  const { key, ...apiKey } = await createDeveloperSettings(store).apiKeys.create(org, {
    name: 'CRM',
    scopes: ['clients:read'],
  })
  const newId = createIds()
  const write = async (count: number, changes: Partial<RequestRecord>): Promise<string[]> => {
    const records = Array.from({ length: count }, () => ({
      ...{
        id: newId('req'),
        at: new Date().toISOString(),
        keyDigest: digestApiKey(key),
        organizationId: org,
      },
      ...{ method: 'GET', route: '/api/v1/clients', path: '/api/v1/clients', status: 429, durationMs: 1 },
      ...{ error: 'Too many', isReplay: false, ...changes },
    }))
    await store.requests.write(records)
    return records.map(({ id }) => id)
  }
  const signals = new EventEmitter()
  let output = ''
  const until = async (shown: string): Promise<void> => {
    while (!output.includes(shown)) await sleep(10)
  }
  const [old] = await write(1, { at: new Date(Date.now() - 60_000).toISOString() })
  const flags = ['--organization', org, '--status', '4xx', '--key', apiKey.id]
  const tailed = cli(['requests', 'tail', ...flags], {
    env: { DATABASE_URL: database.url },
    signals,
    onOutput: (text) => {
      output = text
    },
  })
  await until('Waiting for requests')
  // More than a page, then some that were written late, and one that doesn't match the flags.
  const burst = await write(450, {})
  await until(burst.at(-1) ?? '')
  const late = await write(3, { at: new Date(Date.now() - 900).toISOString() })
  const [other] = await write(1, { status: 200, error: null })
  const [last] = await write(1, {})
  await until(last ?? '')
  signals.emit('SIGINT')
  const { exitCode, stdout, stderr } = await tailed
  assert.deepEqual([exitCode, stderr], [0, 'Waiting for requests. Ctrl-C or SIGTERM stops\n'])
  const printed = stdout
    .trimEnd()
    .split('\n')
    .map((line) => /req_\w+/.exec(line)?.[0])
  assert.deepEqual(printed.toSorted(), [...burst, ...late, last].toSorted())
  assert.deepEqual([printed.includes(old), printed.includes(other)], [false, false])
  assert.deepEqual(printed.slice(0, 450), burst, 'in the order of the log')
  assert.match(stdout, /^\S+ \S+ {2}429 {2}GET \/api\/v1\/clients {2}1 ms {2}CRM {2}req_\w+ {2}Too many$/m)
})
