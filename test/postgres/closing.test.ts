import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from '../faults/_fixture.ts'

const database = await createTestDatabase()
after(() => database.drop())
const sql = database.sql({ max: 2 })
const { key } = await makeApiKey(database.url, 'org_closing')

const REQUESTS = 30

test('close() waits for running requests with several statements each, and rejects new ones', async () => {
  const store = createPostgresStore(database.url, { maxConnections: 4 })
  const create = openCreate(store)
  const requests = Array.from({ length: REQUESTS }, (_, index) => create(`Under way ${index}`, 50))
  // Most keys haven't been checked yet, and no body has been read.
  const closed = store.close()
  const late = await create('Too late', 0)
  assert.equal(late, 503)

  assert.deepEqual(new Set(await Promise.all(requests)), new Set([200]))
  await closed
  const [made] = await sql`
    select count(*)::int as count from business_api.businesses where name like 'Under way %'`
  assert.equal(made?.count, REQUESTS)
  assert.equal(await create('Afterwards', 0), 503)
})

test('close() waits for a call with several consecutive statements', async () => {
  const store = createPostgresStore(database.url)
  async function work(): Promise<string> {
    for (let statement = 0; statement < 5; statement++) await store.apiKeys.list('org_closing')
    return 'done'
  }
  const working = work()
  await store.close()
  assert.equal(await Promise.race([working, 'not done']), 'done')
  await assert.rejects(store.apiKeys.list('org_closing'), { code: 'store_unavailable' })
})

test('close() cuts off unfinished requests after its timeout, and a second call waits for the first', async () => {
  const store = createPostgresStore(database.url, { statementTimeoutMs: 120_000 })
  await store.apiKeys.list('org_closing')
  const held = await holdLock()
  const statement = store.apiKeys.list('org_closing')
  const cut = assert.rejects(statement, { code: 'store_unavailable' })
  // Make sure that it was sent and not just started.
  await untilWaiting(sql)

  const startedAt = performance.now()
  await Promise.all([store.close({ timeoutMs: 300 }), store.close()])
  const tookMs = performance.now() - startedAt
  assert.ok(tookMs >= 290 && tookMs < 60_000, `closed after ${Math.round(tookMs)} ms`)
  await cut
  await held.release()
})

test('close() of an idle or unused store resolves immediately, and so does leaving the scope', async () => {
  for (const isUsed of [true, false]) {
    const store = createPostgresStore(database.url)
    if (isUsed) await store.apiKeys.list('org_closing')
    await store[Symbol.asyncDispose]()
    await assert.rejects(store.apiKeys.list('org_closing'), { code: 'store_unavailable' })
  }
})

test('close() leaves no connections on the server', async () => {
  const url = new URL(database.url)
  url.searchParams.set('application_name', 'closing test')
  const store = createPostgresStore(url.href)
  await Promise.all(Array.from({ length: 20 }, () => store.apiKeys.list('org_closing')))
  const count = async (): Promise<number> => {
    const [row] = await sql`
      select count(*)::int as count from pg_stat_activity where application_name = 'closing test'`
    return row?.count
  }
  assert.ok((await count()) > 1)
  await store.close()
  await until('the server has ended them', async () => (await count()) === 0, 30_000)
})

test("close() rejects a value that isn't a time", async () => {
  const store = createPostgresStore(database.url)
  assert.throws(() => store.close({ timeoutMs: -1 }), RangeError)
  await store.close({ timeoutMs: 0 })
})

/** Creates clients with bodies that arrive late. Returns the status. */
function openCreate(store: PostgresStore): (name: string, bodyAfterMs: number) => Promise<number> {
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  return async (name, bodyAfterMs) => {
    const body = new ReadableStream({
      async start(controller) {
        await sleep(bodyAfterMs)
        controller.enqueue(new TextEncoder().encode(JSON.stringify({ name })))
        controller.close()
      },
    })
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const call = { method: 'POST', headers, body, duplex: 'half' } as RequestInit
    return (await api(new Request('http://localhost/api/v1/clients', call))).status
  }
}

/** Locks the table of API keys until released. */
async function holdLock(): Promise<{ release(): Promise<void> }> {
  let unlock = (): void => {}
  const unlocked = new Promise<void>((resolve) => {
    unlock = resolve
  })
  let haveLocked = (): void => {}
  const locked = new Promise<void>((resolve) => {
    haveLocked = resolve
  })
  const transaction = sql.begin(async (tx) => {
    await tx`lock table business_api.api_keys in access exclusive mode`
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
