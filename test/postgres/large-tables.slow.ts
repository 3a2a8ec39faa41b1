import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Fragment, ISql, Sql } from 'postgres'
import type { Database } from '../../lib/postgres/connection/database.ts'
import { createDeliveryStore } from '../../lib/postgres/deliveries.ts'
import type { DeliveryFilter, DeliveryState, PurgeReport } from '../../lib/webhooks/deliveries.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { finishDeliveries, reopenDeliveries } from '../_deliveries.ts'
import { endpointOf, makeManyDeliveries, organizationOf, subjectOf } from '../_many-deliveries.ts'

// Statements read as much with 300,000 deliveries as with 30,000. We don't measure times but plans and pages.

const SIZES = [30_000, 300_000] as const
const ORGANIZATION = organizationOf(0)
const ENDPOINT = endpointOf(0, 1)
const DAY_MS = 86_400_000
const RETENTION_MS = 30 * DAY_MS

/** The rows and pages read by a statement. */
interface Reading {
  /** Pages of tables and indexes, whether cached or not. */
  readonly pages: number
  readonly sequentialScans: number
  /** Rows and index entries of deliveries and events. */
  readonly rows: number
}

type PlanMode = 'force_custom_plan' | 'force_generic_plan'
type Work = (database: Database) => Promise<unknown>

let databases: { readonly size: number; readonly database: TestDatabase; readonly sql: Sql }[]

before(async () => {
  databases = []
  for (const size of SIZES) {
    const database = await createTestDatabase()
    const sql = database.sql({ max: 1 })
    // Spread over 40 days, so a quarter is older than the retention.
    await makeManyDeliveries(sql, { events: size, days: 40, organizations: 1 })
    // One in forty hasn't been sent yet.
    await reopenDeliveries(sql, sql`created_at > now() - interval '1 day'`)
    await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
    databases.push({ size, database, sql })
  }
})
after(() => Promise.all(databases.map(({ database }) => database.drop())))

/** Runs work in a transaction that is rolled back. */
async function measure(sql: Sql, work: Work, mode: PlanMode = 'force_custom_plan'): Promise<Reading> {
  const rolledBack = new Error('rolled back')
  let reading: Reading | undefined
  const measured = sql.begin(async (tx) => {
    await tx`select set_config('plan_cache_mode', ${mode}, true)`
    let pages = 0
    const row: Database['row'] = async (build) => {
      // The lowest of three readings, because an SQL function plans a statement on the first call of a session and
      // again after an autovacuum.
      const readings: number[] = []
      for (let round = 0; round < 3; round++) {
        await tx.unsafe('savepoint before_explain')
        const [plan] = await tx`explain (analyze, buffers, format json) ${build(tx, tx`'x'::text`)}`
        await tx.unsafe('rollback to savepoint before_explain')
        const [{ Plan: top }] = plan?.['QUERY PLAN'] ?? []
        readings.push(top['Shared Hit Blocks'] + top['Shared Read Blocks'])
      }
      pages += Math.min(...readings)
      const before = await readCounters(tx)
      const [answer] = await tx`${build(tx, tx`'x'::text`)}`.values()
      const done = await readCounters(tx)
      reading = {
        pages,
        sequentialScans: done.sequentialScans - before.sequentialScans,
        rows: done.rows - before.rows,
      }
      return answer as string[]
    }
    const wakeUp = { signal() {} }
    await work({ row, rowFor: (_, build) => row(build), wakeUp } as Database)
    throw rolledBack
  })
  await measured.catch((error: unknown) => {
    if (error !== rolledBack) throw error
  })
  assert.ok(reading)
  return reading
}

/** How much this transaction has read from deliveries and events. */
async function readCounters(tx: ISql): Promise<Omit<Reading, 'pages'>> {
  const [counters] = await tx<Omit<Reading, 'pages'>[]>`
    select
      sum(pg_stat_get_xact_numscans(large.oid))::int as "sequentialScans",
      sum(
        pg_stat_get_xact_tuples_returned(large.oid) + (
          select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0) from pg_index where indrelid = large.oid
        )
      )::int as rows
    from (
      select 'business_api.open_deliveries'::regclass as oid
      union all
      select relid from pg_partition_tree('business_api.finished_deliveries'::regclass) where isleaf
      union all
      select relid from pg_partition_tree('business_api.events'::regclass) where isleaf
    ) as large`
  assert.ok(counters)
  return counters
}

/** Measures both sizes, with custom and with generic plans. */
async function measureAll(work: Work): Promise<readonly Reading[]> {
  const readings: Reading[] = []
  for (const { sql } of databases) {
    for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
      readings.push(await measure(sql, work, mode))
    }
  }
  return readings
}

/** Ten times as many deliveries may only add a level to an index. */
function assertAlike(readings: readonly Reading[], pagesMax: number): void {
  const text = JSON.stringify(readings)
  assert.ok(
    readings.every(({ sequentialScans }) => sequentialScans === 0),
    text,
  )
  const [small, large] = [readings.slice(0, 2), readings.slice(2)]
  const most = (some: readonly Reading[], of: 'pages' | 'rows') => Math.max(...some.map((one) => one[of]))
  assert.ok(most(large, 'pages') <= most(small, 'pages') * 1.5 + 50, text)
  // A page for each state and endpoint, while a day of the smaller table has less.
  assert.ok(most(large, 'rows') <= most(small, 'rows') * 1.5 + 400, text)
  assert.ok(most(readings, 'pages') <= pagesMax, text)
}

describe('a part of a purge', () => {
  test('reads as much with ten times as many deliveries', async () => {
    const request = { eventsAfterMs: RETENTION_MS, limit: 500 }
    const readings = await measureAll(async (database) =>
      assert.equal((await createDeliveryStore(database).purge(request)).events, 500),
    )
    assertAlike(readings, 60_000)
  })

  test('that drops a day reads no rows of that day', async () => {
    const request = { eventsAfterMs: RETENTION_MS, limit: 500, share: 1 }
    const readings = await measureAll(async (database) =>
      assert.equal((await createDeliveryStore(database).continuePurge(request)).days, 1),
    )
    assertAlike(readings, 20_000)
  })

  test('that finds nothing reads next to nothing', async () => {
    const request = { eventsAfterMs: 50 * DAY_MS, limit: 1000, share: 1 }
    assertAlike(await measureAll((database) => createDeliveryStore(database).continuePurge(request)), 6000)
  })

  test('scans past events that must be kept, part by part, and reads each of them once', async () => {
    for (const { sql } of databases) {
      const old = sql`(select event.id from business_api.events event order by delivery_prefix limit 5000)`
      await reopenDeliveries(sql, sql`event_id in ${old}`)
      await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
    }
    const request = { eventsAfterMs: RETENTION_MS, limit: 1000 }
    const readings = await measureAll(async (database) => {
      let report: PurgeReport = { events: 0, idempotencyKeys: 0, next: null }
      let parts = 0
      for (; report.events === 0 && parts < 6; parts++) {
        report = await createDeliveryStore(database).purge({ ...request, cursor: report.next })
      }
      assert.ok(report.events > 0, `${parts} parts purged nothing`)
      assert.ok(parts > 1, 'the first part did not stop at its bound')
    })
    assertAlike(readings, 200_000)
    for (const { sql } of databases)
      await finishDeliveries(sql, 'delivered', sql`created_at < now() - interval '1 day'`)
    for (const { sql } of databases)
      await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
  })
})

describe('the delivery log', () => {
  const ago = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString()
  const STATES: readonly DeliveryState[] = [
    'pending',
    'sending',
    'delivered',
    'failed',
    'skipped',
    'cancelled',
  ]
  const failed: readonly DeliveryState[] = ['failed', 'skipped']
  const views: readonly DeliveryFilter[] = [
    {},
    ...STATES.map((state) => ({ states: [state] })),
    { states: failed },
    { states: STATES },
    { endpointId: ENDPOINT },
    { endpointId: 'we_none' },
    { endpointId: ENDPOINT, states: failed },
    { endpointId: 'we_none', states: ['delivered'] },
    { since: ago(0) },
    { until: ago(39) },
    { until: ago(50) },
    { since: ago(20), until: ago(19) },
    { states: failed, since: ago(39) },
    { states: ['pending'], until: ago(39) },
    { states: ['delivered'], endpointId: ENDPOINT, until: ago(39) },
    { subjectId: subjectOf(7) },
    { subjectId: subjectOf(7), states: failed, since: ago(20) },
    { subjectId: 'prj_none' },
  ]
  /** A condition on the type reads all rows that match the rest of the filter. */
  const viewsByType: readonly DeliveryFilter[] = [
    { type: 'project.completed' },
    { type: 'invoice.overdue', states: failed },
  ]

  async function assertViews(some: readonly DeliveryFilter[]): Promise<void> {
    for (const view of some) {
      const readings = await measureAll((database) =>
        createDeliveryStore(database).list(ORGANIZATION, view, 51, null),
      )
      assertAlike(readings, 3000)
    }
  }

  test('reads as much with ten times as many deliveries, for every filter', () =>
    assertViews([...views, ...viewsByType]))

  test('and so does a recovery that finds nothing', async () => {
    const request = { organizationId: ORGANIZATION, limit: 1000, entry: newEntry() }
    const readings = await measureAll(async (database) => {
      const filter = { states: failed, until: ago(1) }
      assert.deepEqual(
        await createDeliveryStore(database).recover({ ...request, ids: ['dlv_none'], filter }),
        [],
      )
    })
    assertAlike(readings, 600)
  })

  test('and so does a retry of pending deliveries', async () => {
    for (const { sql } of databases) {
      await reopenDeliveries(sql, sql`endpoint_id <> ${ENDPOINT}`)
      await sql`update business_api.open_deliveries set is_backing_off = true, due_at = now() + interval '1 hour'`
      await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
    }
    const request = { organizationId: ORGANIZATION, limit: 1, entry: newEntry() }
    const readings = await measureAll(async (database) => {
      const [{ id } = { id: '' }] = await createDeliveryStore(database).list(
        ORGANIZATION,
        { states: ['pending'] },
        1,
        null,
      )
      assert.deepEqual(
        await createDeliveryStore(database).recover({
          ...request,
          ids: [id],
          filter: { states: ['pending'] },
        }),
        [id],
      )
    })
    assertAlike(readings, 600)
  })

  test('reads the same if all deliveries of another endpoint are pending or have failed', async () => {
    for (const state of ['pending', 'failed'] as const) {
      for (const { sql } of databases) {
        const others = sql`endpoint_id <> ${ENDPOINT}`
        if (state === 'pending') await reopenDeliveries(sql, others)
        else await finishDeliveries(sql, state, others)
        await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
      }
      await assertViews(views)
    }
  })
})

describe('a claim', () => {
  const request = {
    isRepeat: false,
    limit: 64,
    maxBytes: 4 * 1024 * 1024,
    capacity: { endpoint: 16, organization: 64, endpoints: {}, organizations: {} },
    scanLimit: 200,
    cursor: null,
    leaseMs: 30_000,
    maxAttempts: 5,
  } as const
  const minute = (sql: Sql) => sql`now() + interval '1 minute'`
  const states: Readonly<Record<string, { deliveries: number; set: (sql: Sql) => Fragment }>> = {
    'that backs off': { deliveries: 0, set: (sql) => sql`waited_ms = 1000, next_at = ${minute(sql)}` },
    'that gets its probe': { deliveries: 1, set: (sql) => sql`waited_ms = 1000, next_at = '-infinity'` },
    'that waits for its turn': { deliveries: 0, set: (sql) => sql`waited_ms = 0, next_at = ${minute(sql)}` },
    'that gets its turn': { deliveries: 1, set: (sql) => sql`waited_ms = 0, next_at = '-infinity'` },
  }

  before(async () => {
    for (const { sql } of databases) {
      await finishDeliveries(sql, 'delivered', sql`endpoint_id <> ${ENDPOINT}`)
      await reopenDeliveries(sql, sql`endpoint_id = ${ENDPOINT}`)
      await sql`vacuum analyze business_api.open_deliveries`
      await sql`
        insert into business_api.endpoint_rates (organization_id, endpoint_id, rate) values (${ORGANIZATION}, ${ENDPOINT}, 1)`
    }
  })

  for (const [which, { deliveries, set }] of Object.entries(states)) {
    test(`reads as much with ten times as many deliveries to an endpoint ${which}`, async () => {
      for (const { sql } of databases) await sql`update business_api.endpoint_rates set ${set(sql)}`
      let claims = 0
      const readings = await measureAll(async (database) => {
        const store = createDeliveryStore(database)
        const claimed = await store.claim({ ...request, token: `${which} ${claims++}` })
        assert.equal(claimed.deliveries.length, deliveries)
      })
      assertAlike(readings, 300)
    })
  }
})
