import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { countWaiting, untilWaiting } from '../_waiting.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'

// The statements of one organization that wait for a lock must leave connections for other organizations.

const CONNECTIONS = 10

let database: TestDatabase
let sql: Sql
/** The requests of a key are judged together: only those of several keys take several connections. */
let busyKeys: string[]
let otherKey: string

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 2 })
  busyKeys = []
  while (busyKeys.length < CONNECTIONS) busyKeys.push((await makeApiKey(database.url, 'org_busy')).key)
  otherKey = (await makeApiKey(database.url, 'org_other')).key
})
after(() => database.drop())

function openStore(
  t: { after(work: () => Promise<void>): void },
  maxConnections = CONNECTIONS,
): PostgresStore {
  const store = createPostgresStore(database.url, { maxConnections })
  t.after(() => store.close())
  return store
}

function openApi(store: PostgresStore, key: string) {
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const url = 'http://localhost/api/v1/clients'
  return {
    list: () => api(new Request(url, { headers })),
    create: () => api(new Request(url, { method: 'POST', headers, body: '{"name":"Atlas Ceramics"}' })),
  }
}

/** Runs `work` while a number of the store's statements wait for the rows of `lock`. */
async function whileWaiting(
  lock: (tx: TransactionSql) => Promise<unknown>,
  { count, begin }: { readonly count: number; begin(): readonly Promise<unknown>[] },
  work: () => Promise<void>,
): Promise<PromiseSettledResult<unknown>[]> {
  let begun: readonly Promise<unknown>[] = []
  await sql.begin(async (tx) => {
    await lock(tx)
    begun = begin()
    void Promise.allSettled(begun)
    await untilWaiting(sql, count)
    await work()
  })
  return Promise.allSettled(begun)
}

/** Passes only if the statements that wait for the lock still wait afterwards. */
async function assertAtOnce(work: () => Promise<Response>, count: number): Promise<void> {
  assert.equal((await work()).status, 200)
  assert.equal(await countWaiting(sql), count)
}

test('ten payments waiting for one invoice leave another organization the list', async (t) => {
  const store = openStore(t)
  const { invoices } = createPlatform(store)
  const invoice = await invoices.create('org_busy', {
    currency: 'EUR',
    total: '100',
    issueDate: '2026-01-01T00:00:00.000Z',
    dueDate: '2026-02-01T00:00:00.000Z',
  })
  await invoices.issue('org_busy', { invoiceId: invoice.id })
  const pay = () => invoices.recordPayment('org_busy', { invoiceId: invoice.id, amount: '10' })
  const { list } = openApi(store, otherKey)

  const payments = await whileWaiting(
    (tx) => tx`select from business_api.invoices where id = ${invoice.id} for update`,
    { count: CONNECTIONS / 2, begin: () => Array.from({ length: 10 }, pay) },
    async () => {
      assert.equal(await countWaiting(sql), CONNECTIONS / 2)
      for (let request = 0; request < 5; request++) await assertAtOnce(list, CONNECTIONS / 2)
    },
  )
  assert.ok(payments.every(({ status }) => status === 'fulfilled'))
})

test('requests of the API waiting for a lock leave another organization the list', async (t) => {
  const store = openStore(t)
  const busy = busyKeys.map((key) => openApi(store, key))
  assert.equal((await busy[0]?.create())?.status, 200)
  const { list } = openApi(store, otherKey)

  const requests = await whileWaiting(
    (tx) => tx`select from business_api.rate_buckets where organization_id = 'org_busy' for update`,
    {
      count: CONNECTIONS / 2,
      begin: () => busy.flatMap(({ create, list }) => [create(), list()]),
    },
    async () => {
      for (let request = 0; request < 5; request++) await assertAtOnce(list, CONNECTIONS / 2)
    },
  )
  for (const request of requests) {
    assert.equal(request.status === 'fulfilled' && (request.value as Response).status, 200)
  }
})

test('statements waiting for a lock leave the delivery loop the connections of the loop', async (t) => {
  const store = openStore(t, 4)
  const busy = busyKeys.map((key) => openApi(store, key))
  assert.equal((await busy[0]?.list())?.status, 200)

  await whileWaiting(
    (tx) => tx`select from business_api.rate_buckets where organization_id = 'org_busy' for update`,
    { count: 2, begin: () => busy.flatMap(({ list }) => [list(), list()]) },
    async () => {
      for (let call = 0; call < 5; call++) await store.deliveries.countQueue(null)
      assert.equal(await countWaiting(sql), 2)
    },
  )
})
