import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createBusinessApi } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'

const CONNECTIONS = 10
/** An organization has half of the connections. */
const OF_OTHERS = 5
/** A statement waits for a lock for four fifths of the deadline and has the rest for running. */
const SHORT_MS = 2000

test('statements with a late turn and a timeout close no idle connection of other organizations', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 2 })
  const keys: string[] = []
  while (keys.length < CONNECTIONS) keys.push((await makeApiKey(database.url, `org_late_${keys.length}`)).key)
  const store = createPostgresStore(`${database.url}?application_name=late`, {
    maxConnections: CONNECTIONS,
    statementTimeoutMs: SHORT_MS,
  })
  t.after(() => store.close())
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const call = async (method: string, key = ''): Promise<number> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const body = method === 'POST' ? '{"name":"Atlas Ceramics"}' : null
    return (await api(new Request('http://localhost/api/v1/clients', { method, headers, body }))).status
  }
  const readPids = async (): Promise<number[]> => {
    const rows = await sql`select pid from pg_stat_activity where application_name = 'late'`
    return rows.map(({ pid }) => pid)
  }
  const areAllOpen = async (): Promise<boolean> => (await readPids()).length === CONNECTIONS
  // A connection is opened while no other is free, so one creation of each organization waits for a lock.
  const first: Promise<number>[] = []
  await sql.begin(async (tx) => {
    await tx`lock table business_api.businesses in exclusive mode`
    for (const key of keys) first.push(call('POST', key))
    await until('all connections are open', areAllOpen, 30_000)
  })
  await Promise.all(first)
  const before = await readPids()

  await sql.begin(async (tx) => {
    await tx`lock table business_api.businesses in exclusive mode`
    const creates = Array.from({ length: CONNECTIONS }, () => call('POST', keys[0]))
    assert.deepEqual(new Set(await Promise.all(creates)), new Set([503]))
  })
  // A session with a closed connection ends with the statement.
  await sleep(300)
  const now = await readPids()
  const kept = before.filter((pid) => now.includes(pid))
  assert.equal(kept.length, OF_OTHERS, `${kept.length} of ${before.length} connections are still open`)
})
