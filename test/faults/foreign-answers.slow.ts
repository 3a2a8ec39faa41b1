// Requests of many organizations share statements and connections, while sessions are killed, statements cancelled, and answers cut and
// fragmented: nobody gets the answer of another organization, and every other answer is 503.

import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { type Answer, type Caller, createCaller } from './_client.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'
import { startHost } from './_host.ts'
import { POOLERS, type Pooler } from './_poolers.ts'
import { type NetworkProxy, startProxy } from './_proxy.ts'

const ORGANIZATIONS = 24
const CLIENTS = 5
const STORM_MS = 20_000

/** Signals up to four sessions of the database. */
function signal(sql: Sql, name: 'pg_terminate_backend' | 'pg_cancel_backend'): Promise<unknown> {
  return sql`
    select ${sql(name)}(pid) from (
      select pid from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
      order by random() limit ${randomInt(1, 5)}
    ) as victim`
}

interface Way {
  readonly pooler?: Pooler
  readonly begin?: (proxy: NetworkProxy) => void
  /** Repeated during the storm. */
  readonly strike?: (sql: Sql) => Promise<unknown>
  readonly pauseMs?: number
}

const kill = (sql: Sql) => signal(sql, 'pg_terminate_backend')
const cancel = (sql: Sql) => signal(sql, 'pg_cancel_backend')

const WAYS: Record<string, Way> = {
  'killed sessions': { strike: kill, pauseMs: 40 },
  'cancelled statements': { strike: cancel, pauseMs: 5 },
  'cut answers': { begin: (proxy) => proxy.cut(0.003) },
  'fragmented answers': { begin: (proxy) => proxy.fragment() },
  'fragmented answers and killed sessions': { begin: (proxy) => proxy.fragment(), strike: kill, pauseMs: 40 },
}
for (const [name, pooler] of Object.entries(POOLERS)) {
  WAYS[`${name} and killed sessions`] = { pooler, strike: kill, pauseMs: 40 }
  WAYS[`${name} and cancelled statements`] = { pooler, strike: cancel, pauseMs: 5 }
}

for (const [what, { pooler, begin, strike, pauseMs }] of Object.entries(WAYS)) {
  test(`nobody gets the response of another organization: ${what}`, pooler?.needs ?? {}, async (t) => {
    const database = await createTestDatabase()
    t.after(() => database.drop())
    const sql = database.sql({ max: 1 })
    const keys = await makeOrganizations(database.url)
    const pooled = await pooler?.start([database], 6)
    t.after(() => pooled?.close())
    const proxy = await startProxy(pooled?.urls[0] ?? database.url)
    t.after(() => proxy.close())
    const api = { rateLimit: UNREACHED_RATE_LIMIT }
    const host = await startHost({ databaseUrl: proxy.url, pool: 'own', store: pooler?.options ?? {}, api })
    t.after(() => host.stop())
    const callers = keys.map((key) => createCaller(host.port, key))
    t.after(() => {
      for (const caller of callers) caller.close()
    })

    begin?.(proxy)
    const endsAt = performance.now() + STORM_MS
    const goesOn = (): boolean => performance.now() < endsAt
    const statuses = new Map<Answer['status'], number>()
    let strikes = 0
    async function striking(): Promise<void> {
      while (strike && goesOn()) {
        await strike(sql)
        strikes++
        await sleep(pauseMs)
      }
    }
    const calling = callers.map(async (caller, index) => {
      while (goesOn()) {
        const answers = await Promise.all([1, 2].map(() => ask(caller, `org_${index}`)))
        for (const status of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    })
    await Promise.all([striking(), ...calling])

    t.diagnostic(`${[...statuses].map((each) => each.join(': ')).join(', ')}; ${strikes} strikes`)
    host.assertUnharmed()
    assert.deepEqual(
      [...statuses.keys()].filter((status) => status !== 200 && status !== 503),
      [],
    )
    assert.ok((statuses.get(200) ?? 0) > 500, 'too few answers')
  })
}

/** Makes organizations whose clients have the organization's name. @returns a key of each */
async function makeOrganizations(databaseUrl: string): Promise<readonly string[]> {
  const store = createPostgresStore(databaseUrl)
  const { clients } = createPlatform(store)
  const names = Array.from({ length: ORGANIZATIONS }, (_, index) => `org_${index}`)
  for (const name of names) {
    for (let count = 0; count < CLIENTS; count++) await clients.create(name, { name })
  }
  await store.close()
  return Promise.all(names.map(async (name) => (await makeApiKey(databaseUrl, name)).key))
}

/** Lists or creates clients of an organization, and asserts that the answer is the organization's own. */
async function ask(caller: Caller, organization: string): Promise<Answer['status']> {
  if (randomInt(4) === 0) {
    const body = { name: organization, email: `${randomInt(1_000_000)}@example.com` }
    const call = { method: 'POST', path: '/api/v1/clients', idempotencyKey: randomUUID(), body } as const
    const answer = await caller.send(call)
    if (answer.status === 200) {
      const { business } = JSON.parse(answer.body).data
      assert.deepEqual([business.name, business.email], [organization, body.email])
    }
    return answer.status
  }
  const limit = randomInt(1, 6)
  const answer = await caller.send({ method: 'GET', path: `/api/v1/clients?limit=${limit}` })
  if (answer.status === 200) {
    const { data } = JSON.parse(answer.body)
    assert.deepEqual(
      data.map(({ business }: { business: { name: string } }) => business.name),
      Array(limit).fill(organization),
    )
  }
  return answer.status
}
