import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import type { AdmissionRequest } from '../../lib/access/admission.ts'
import type { RateLimit } from '../../lib/access/rate-limit.ts'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { createStoreOn } from '../../lib/postgres/store.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { newKey } from '../contract/tenant.ts'

// A flood of requests over a limit. Waiting requests are checked together, but each by what applies when it arrives.

const FLOOD = 200

describe('Requests of a key over its limit', () => {
  let database: TestDatabase
  let sql: Sql
  let store: PostgresStore
  let otherProcess: PostgresStore
  let statements = 0
  let request: AdmissionRequest & { readonly organizationHint: string }
  let keyId = ''
  let keys = 0

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql({ max: 1 })
    const server = createDatabase(database.url)
    const bytesFor: typeof server.bytesFor = (...call) => {
      statements++
      return server.bytesFor(...call)
    }
    const rowsFor: typeof server.rowsFor = (...call) => {
      statements++
      return server.rowsFor(...call)
    }
    store = createStoreOn({ ...server, bytesFor, rowsFor })
    otherProcess = createPostgresStore(database.url)
  })
  after(async () => {
    await Promise.all([store.close(), otherProcess.close()])
    await database.drop()
  })
  beforeEach(async () => {
    const key = newKey()
    keyId = key.id
    const organizationHint = `org_${++keys}`
    await store.apiKeys.insert({ organizationId: organizationHint, limit: 10, key, entry: newEntry() })
    const limit: RateLimit = { perSecond: 0.001, burst: 5 }
    const rateLimits = { key: limit, organization: { perSecond: 1000, burst: 1000 } }
    request = { keyDigest: key.digest, scope: 'clients:read', rateLimits, organizationHint }
    await admitAtOnce(10)
  })

  /** Sends requests at once. Returns how often each outcome occurred. */
  async function admitAtOnce(count: number): Promise<Record<string, number>> {
    const outcomes: Record<string, number> = {}
    await Promise.all(
      Array.from({ length: count }, async () => {
        const { outcome } = await store.apiKeys.admit(request)
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      }),
    )
    return outcomes
  }

  /** Keeps flooding the key while running work. */
  async function beside(work: () => Promise<void>): Promise<void> {
    let isOver = false
    const flood = Promise.all(
      Array.from({ length: 20 }, async () => {
        while (!isOver) await store.apiKeys.admit(request)
      }),
    )
    try {
      await work()
    } finally {
      isOver = true
      await flood
    }
  }

  test('share a few statements and are told when to retry', async () => {
    statements = 0
    assert.deepEqual(await admitAtOnce(FLOOD), { limited: FLOOD })
    assert.ok(statements <= 5, `${statements} statements`)
    const refusals = await Promise.all([store.apiKeys.admit(request), store.apiKeys.admit(request)])
    for (const refusal of refusals) {
      assert.ok(refusal.outcome === 'limited' && refusal.rateLimit)
      const { retryAfterMs, key, organization } = refusal.rateLimit
      assert.ok(retryAfterMs > 990_000 && retryAfterMs <= 1_000_000, `${retryAfterMs}`)
      assert.deepEqual([key.remaining, organization.remaining > 900], [0, true])
    }
  })

  test('are unauthenticated as soon as the key is revoked', async () => {
    await beside(async () => {
      await sleep(50)
      await otherProcess.apiKeys.revoke({
        organizationId: request.organizationHint,
        keyId,
        entry: newEntry(),
      })
      assert.deepEqual(await admitAtOnce(FLOOD), { unauthenticated: FLOOD })
    })
  })

  test('are admitted immediately if the limit is raised, as many as it allows', async () => {
    assert.deepEqual(await admitAtOnce(FLOOD), { limited: FLOOD })
    await sql`update business_api.api_keys set per_second = 0.001, burst = 15 where id = ${keyId}`
    assert.deepEqual(await admitAtOnce(FLOOD), { admitted: 10, limited: FLOOD - 10 })
  })

  test('get every token that comes back, and no more', async () => {
    await sql`update business_api.api_keys set per_second = 20, burst = 5 where id = ${keyId}`
    const begunAt = performance.now()
    let admitted = 0
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        while (performance.now() - begunAt < 3000) {
          if ((await store.apiKeys.admit(request)).outcome === 'admitted') admitted++
        }
      }),
    )
    const seconds = (performance.now() - begunAt) / 1000
    assert.ok(admitted <= 5 + 20 * seconds + 1, `${admitted} in ${seconds} s`)
    assert.ok(admitted >= 20 * seconds * 0.8, `${admitted} in ${seconds} s`)
  })
})

test("A check planned while there were no buckets doesn't scan the buckets of other organizations later", async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  const store = createPostgresStore(database.url)
  t.after(() => store.close())
  const key = newKey()
  await store.apiKeys.insert({ organizationId: 'org_1', limit: 10, key, entry: newEntry() })
  // The planner knows that the tables are empty, like after a restore, and keeps the plan.
  await sql`vacuum analyze`
  const judge = async (): Promise<number> => {
    const [row] = await sql.unsafe(
      `explain (analyze, buffers, format json)
       select * from business_api.judge(array[$1::text], '{1}', '{100}', '{100}', '{100}', '{100}', '{""}', true)`,
      [key.digest],
    )
    return row?.['QUERY PLAN'][0].Plan['Shared Hit Blocks']
  }
  // From the sixth time on, the session keeps one plan.
  for (let time = 0; time < 8; time++) await judge()
  await sql`
    insert into business_api.rate_buckets (organization_id, bucket, full_at)
    select 'org_' || n, bucket, 0 from generate_series(2, 5000) as n, unnest(array['organization', 'key_1']) as bucket`
  await sql`insert into business_api.organization_limits select 'org_' || n, 1, 1 from generate_series(2, 5000) as n`
  const blocks = await judge()
  assert.ok(blocks < 60, `${blocks} blocks`)
})
