import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'
import { startProxy } from './_proxy.ts'

// A failing statement must not harm the callers of other statements.

const CONNECTIONS = 10
const SHORT_MS = 1000

test('many requests with one held idempotency key leave connections for all other callers', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  const { key } = await makeApiKey(database.url, 'org_busy')
  const store = createPostgresStore(database.url, { maxConnections: CONNECTIONS })
  t.after(() => store.close())
  const api = createBusinessApi(store, {
    rateLimit: UNREACHED_RATE_LIMIT,
    logger: false,
    deadlineMs: 30_000,
  })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const list = (): Promise<Response> => api(new Request('http://localhost/api/v1/clients', { headers }))
  const create = (): Promise<Response> => {
    const keyed = { ...headers, 'idempotency-key': 'held' }
    const call = { method: 'POST', headers: keyed, body: '{"name":"Atlas Ceramics"}' }
    return api(new Request('http://localhost/api/v1/clients', call))
  }

  await sql.begin(async (tx) => {
    // As another process with an unfinished create.
    await tx`
      insert into business_api.idempotency_keys (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
      values ('org_busy', 'POST /api/v1/clients', 'held', '', '', '', now() + interval '1 day')`
    let ended = 0
    const creates = Array.from({ length: 3 * CONNECTIONS }, async () => {
      const answer = await create()
      ended++
      return answer
    })
    await sleep(300)
    const lists = await Promise.all(Array.from({ length: 3 * CONNECTIONS }, list))
    assert.deepEqual(new Set(lists.map(({ status }) => status)), new Set([200]))
    assert.equal(ended, 0, 'the lists came before the end of any create')
    for (const { status } of await Promise.all(creates)) assert.equal(status, 409)
  })
})

test('idle connections that have fallen silent delay a single request together, not a request each', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const keys: string[] = []
  // A single organization has half of the connections.
  while (keys.length < CONNECTIONS) keys.push((await makeApiKey(database.url, `org_idle_${keys.length}`)).key)
  const proxy = await startProxy(database.url)
  t.after(() => proxy.close())
  const store = createPostgresStore(proxy.url, {
    maxConnections: CONNECTIONS,
    statementTimeoutMs: SHORT_MS,
  })
  t.after(() => store.close())
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const ask = async (key = '', call: RequestInit = {}): Promise<number> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    return (await api(new Request('http://localhost/api/v1/clients', { headers, ...call }))).status
  }
  const list = (): Promise<number> => ask(keys[0])
  // Lists share connections; each create has its own.
  const areAllOpen = async (): Promise<boolean> => {
    await Promise.all(keys.map((key) => ask(key, { method: 'POST', body: '{"name":"Atlas Ceramics"}' })))
    return proxy.size === CONNECTIONS
  }
  await until('all connections are open', areAllOpen, 30_000)
  await sleep(100)

  proxy.fallSilent()
  proxy.speakOnNewConnections()
  const statuses: number[] = []
  for (let request = 0; request < 5; request++) statuses.push(await list())

  assert.deepEqual(statuses, [503, 200, 200, 200, 200])
})
