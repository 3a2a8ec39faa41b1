import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import type { TestDatabase } from '../_database.ts'
import { TODAY } from '../_days.ts'
import { useDatabase } from '../_use-database.ts'

// Counts of a long queue are exact up to 10,000, at a cost that doesn't grow with the queue.

describe('countQueue()', () => {
  let database: TestDatabase
  let sql: Sql
  let store: PostgresStore
  useDatabase((used) => {
    ;({ database, sql, store } = used)
  }, 1)

  async function addEndpoint(organizationId: string, id: string, state: string): Promise<void> {
    await sql`
      insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
      values (${organizationId}, ${id}, 'https://hooks.example/', ${state}, now(), 'plain.whsec_test')`
  }

  async function addDeliveries(
    [organizationId, endpointId]: readonly [string, string],
    [first, last]: readonly [number, number],
    state: 'pending' | 'backing off' | 'failed' | 'skipped',
  ): Promise<void> {
    const isBackingOff = state === 'backing off'
    const id = sql`${TODAY} || ${`${endpointId}_${state}_`} || lpad(number::text, 9, '0')`
    const numbers = sql`generate_series(${first}::int, ${last}::int) as number`
    if (state === 'failed' || state === 'skipped') {
      await sql`
        insert into business_api.finished_deliveries
          (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at)
        select ${organizationId}, ${id}, 'evt_' || number, 'client.created', ${endpointId}, ${state}, now(), now()
        from ${numbers}`
      return
    }
    await sql`
      insert into business_api.open_deliveries
        (organization_id, id, event_id, type, endpoint_id, due_at, attempts, is_backing_off)
      select ${organizationId}, ${id}, 'evt_' || number, 'client.created',
             ${endpointId}, now() + ${isBackingOff ? 1 : -1} * interval '1 hour', ${isBackingOff ? 1 : 0}, ${isBackingOff}
      from ${numbers}`
  }

  /** Returns how many pages a count for all organizations reads. */
  async function pagesRead(): Promise<number> {
    const [row] = await sql<[{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }]>`
      explain (analyze, buffers, format json) select business_api.count_queue(null, null, 10000)`
    const { Plan: plan } = row['QUERY PLAN'][0]
    return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
  }

  test("is exact up to 10,000, returns 10,001 for a longer queue, and doesn't get more expensive beyond that", async () => {
    const busy = ['org_b', 'we_busy'] as const
    const paused = ['org_c', 'we_paused'] as const
    await addEndpoint(...busy, 'enabled')
    await addEndpoint(...paused, 'paused')
    for (const [of, state] of [
      [busy, 'pending'],
      [paused, 'pending'],
      [busy, 'backing off'],
      [busy, 'failed'],
      [['org_a', 'we_gone'], 'skipped'],
    ] as const) {
      await addDeliveries(of, [1, 10_000], state)
    }
    await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
    const { oldestDueMs, ...exact } = await store.deliveries.countQueue(null)
    assert.deepEqual(exact, {
      due: 10_000,
      backingOff: 10_000,
      paused: 10_000,
      sending: 0,
      failed: 10_000,
    })
    assert.ok(oldestDueMs >= 3_600_000)
    const { oldestDueMs: _, ...ofEndpoint } = await store.deliveries.countQueue({
      organizationId: busy[0],
      endpointId: busy[1],
    })
    assert.deepEqual([ofEndpoint.due, ofEndpoint.paused, ofEndpoint.failed], [10_000, 0, 10_000])

    const grow = async (from: number, to: number): Promise<number> => {
      for (const state of ['pending', 'backing off', 'failed'] as const) {
        await addDeliveries(busy, [from, to], state)
      }
      await addDeliveries(paused, [from, to], 'pending')
      await addDeliveries(['org_a', 'we_gone'], [from, to], 'skipped')
      await sql`vacuum analyze business_api.open_deliveries, business_api.finished_deliveries`
      const { oldestDueMs: age, ...more } = await store.deliveries.countQueue(null)
      assert.deepEqual(more, {
        due: 10_001,
        backingOff: 10_001,
        paused: 10_001,
        sending: 0,
        failed: 10_001,
      })
      assert.ok(age >= 3_600_000)
      return await pagesRead()
    }
    const pages = await grow(10_001, 11_000)
    const pagesOfMore = await grow(11_001, 50_000)
    // The entries are spread over more pages of the same indexes. A scan of the queue would read five times as many.
    assert.ok(pagesOfMore <= pages * 1.3, `${pagesOfMore} pages after ${pages}`)

    const inspector = createInspector(database.url)
    try {
      const [backlog, counts] = [await inspector.backlog(), await inspector.counts()]
      assert.deepEqual([backlog.due, counts.recoverable], [10_001, 10_001])
    } finally {
      await inspector.close()
    }
  })

  test('is exact with many endpoints that have a few deliveries each', async () => {
    await sql`truncate business_api.webhook_endpoints, business_api.open_deliveries, business_api.finished_deliveries`
    // Every second endpoint is paused. Each endpoint has 40 pending deliveries, a skipped one and a failed one.
    await sql`
      insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
      select 'org_' || number, 'we_1', 'https://hooks.example/', case when number % 2 = 0 then 'paused' else 'enabled' end,
             now(), 'plain.whsec_test'
      from generate_series(1, 300) as number`
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      select 'org_' || number, ${TODAY} || place, 'evt_1', 'client.created', 'we_1',
             now() - case when number = 299 and place = 1 then 7200 else 3600 end * interval '1 second'
      from generate_series(1, 300) as number, generate_series(1, 40) as place`
    await sql`
      insert into business_api.finished_deliveries
        (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at)
      select 'org_' || number, ${TODAY} || place, 'evt_1', 'client.created', 'we_1',
             case place when 41 then 'skipped' else 'failed' end, now(), now()
      from generate_series(1, 300) as number, generate_series(41, 42) as place`
    const { oldestDueMs, ...counts } = await store.deliveries.countQueue(null)
    assert.deepEqual(counts, { due: 6000, backingOff: 0, paused: 6000, sending: 0, failed: 300 })
    assert.ok(oldestDueMs >= 7_200_000 && oldestDueMs < 7_300_000, `${oldestDueMs}`)
  })

  test('reads a limited part of a queue that belongs to one endpoint, whatever its deliveries are', async () => {
    for (const kind of ['live', 'backfill', 'backing off']) {
      await sql`truncate business_api.webhook_endpoints, business_api.open_deliveries, business_api.finished_deliveries`
      await addEndpoint('org_one', 'we_one', 'enabled')
      await sql`
        insert into business_api.open_deliveries
          (organization_id, id, event_id, type, endpoint_id, due_at, is_backfill, is_backing_off)
        select 'org_one', ${TODAY} || lpad(place::text, 6, '0'), 'evt_1', 'client.created', 'we_one', now() + interval '1 hour',
               ${kind === 'backfill'}, ${kind === 'backing off'}
        from generate_series(1, 20000) as place`
      await sql`analyze business_api.open_deliveries`
      // A new session that makes its plans with these statistics.
      const session = database.sql({ max: 1 })
      const [row] = await session.begin(async (tx) => {
        await tx`select business_api.count_queue(null, null, 100), business_api.count_queue('org_one', null, 100)`
        return tx<{ rows: number }[]>`
          select (coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int as rows
          from pg_stat_xact_user_tables where relid = 'business_api.open_deliveries'::regclass`
      })
      assert.ok(Number(row?.rows) < 5000, `${kind}: ${row?.rows} of 20000 rows`)
      await session.end()
    }
  })

  test('counts the deliveries of paused endpoints as far as those of others', async () => {
    await sql`truncate business_api.webhook_endpoints, business_api.open_deliveries, business_api.finished_deliveries`
    const [busy, paused] = [
      ['org_a', 'we_busy'],
      ['org_b', 'we_paused'],
    ] as const
    await addEndpoint(...busy, 'enabled')
    await addEndpoint(...paused, 'paused')
    await addDeliveries(busy, [1, 4], 'pending')
    await addDeliveries(paused, [1, 5], 'pending')
    const [row] = await sql<{ counts: string }[]>`
      select business_api.count_queue(null, null, 5) as counts`
    const { due, paused: waiting } = JSON.parse(row?.counts ?? 'null')
    assert.deepEqual({ due, waiting }, { due: 4, waiting: 5 })
  })
})
