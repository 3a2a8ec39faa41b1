import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'

const database = await createTestDatabase()
after(() => database.drop())
const sql = database.sql({ max: 1 })
const { key } = await makeApiKey(database.url, 'org_queue')

const MAX_PENDING = 20
const REQUESTS = 50

test('more statements than may wait: 503 at once for the rest, and service for all afterwards', async (t) => {
  const store = createPostgresStore(database.url, { maxConnections: 2, maxPending: MAX_PENDING })
  t.after(() => store.close())
  const list = openList(store)
  assert.equal((await list()).status, 200)

  const answered: number[] = []
  const held = await withKeysLocked(sql, async () => {
    const answers = Array.from({ length: REQUESTS }, async () => {
      const { status, headers } = await list()
      answered.push(status)
      if (status === 503) assert.equal(headers.get('retry-after'), '1')
      return status
    })
    await until('the rest is refused', () => answered.length >= REQUESTS - MAX_PENDING, 2000)
    await sleep(100)
    assert.deepEqual(answered, Array(REQUESTS - MAX_PENDING).fill(503))
    return answers
  })
  assert.equal((await Promise.all(held)).filter((status) => status === 200).length, MAX_PENDING)

  for (let round = 0; round < 3; round++) {
    const again = await Promise.all(Array.from({ length: MAX_PENDING }, list))
    assert.deepEqual(new Set(again.map(({ status }) => status)), new Set([200]))
  }
})

test('statements that failed, or had no response in time, leave the queue', async (t) => {
  const store = createPostgresStore(database.url, {
    maxConnections: 2,
    maxPending: MAX_PENDING,
    statementTimeoutMs: 300,
  })
  t.after(() => store.close())
  const list = openList(store)

  for (let round = 0; round < 3; round++) {
    await withKeysLocked(sql, async () => {
      const answers = await Promise.all(Array.from({ length: MAX_PENDING }, list))
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([503]))
    })
  }

  // Abandoned statements may still have to run first.
  await until(
    'all are served',
    async () => {
      const answers = await Promise.all(Array.from({ length: MAX_PENDING }, list))
      return answers.every(({ status }) => status === 200)
    },
    2000,
  )
})

test('a closed store: 503 for every request, early or late', async () => {
  const store = createPostgresStore(database.url)
  const list = openList(store)
  assert.equal((await list()).status, 200)

  const underWay = Array.from({ length: 30 }, list)
  await store.close()
  for (const { status } of await Promise.all(underWay)) assert.ok(status === 200 || status === 503)
  for (const { status, headers } of await Promise.all([list(), list()])) {
    assert.equal(status, 503)
    assert.equal(headers.get('retry-after'), '1')
  }
  await store.close()
})

test('a store closed before its first use: 503', async () => {
  const store = createPostgresStore(database.url)
  await store.close()
  assert.equal((await openList(store)()).status, 503)
})

function openList(store: ReturnType<typeof createPostgresStore>): () => Promise<Response> {
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  return () =>
    api(new Request('http://localhost/api/v1/clients', { headers: { authorization: `Bearer ${key}` } }))
}

/** While this works no request can be judged. */
async function withKeysLocked<T>(connection: Sql, work: () => Promise<T>): Promise<T> {
  let result: T | undefined
  await connection.begin(async (tx) => {
    await tx`lock table business_api.api_keys`
    result = await work()
  })
  return result as T
}
