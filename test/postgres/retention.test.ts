import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ISql, Sql } from 'postgres'
import { idPrefixAt } from '../../lib/base/ids.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ageEvents } from '../_days.ts'
import { finishDeliveries, reopenDeliveries } from '../_deliveries.ts'

// The purge shared by all processes: turns, pauses, and the second pass.

const ORGANIZATION = 'org_retention'
const DAY_MS = 86_400_000
const REQUEST = { eventsAfterMs: 30 * DAY_MS, limit: 1000, share: 0.5 }

describe('continuePurge() in PostgreSQL', () => {
  let database: TestDatabase
  let sql: Sql
  let store: PostgresStore

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
    store = createPostgresStore(database.url)
    await store.endpoints.insert({
      organizationId: ORGANIZATION,
      limit: 10,
      endpoint: {
        id: 'we_retention',
        url: 'https://hooks.example/',
        ...ENDPOINT_DEFAULTS,
        headerNames: [],
        sealedHeaders: null,
        createdAt: '2026-03-14T09:26:53.589Z',
        sealedSecret: 'plain.whsec_test',
      },
      entry: newEntry(),
    })
  })
  after(async () => {
    await store.close()
    await database.drop()
  })
  afterEach(async () => {
    await sql`truncate business_api.events, business_api.open_deliveries, business_api.finished_deliveries, business_api.purge_progress`
    await sql`insert into business_api.purge_progress default values`
  })

  const purge = (request: Partial<typeof REQUEST> = {}) =>
    store.deliveries.continuePurge({ ...REQUEST, ...request })

  /**
   * Publishes events, delivers each of them, and makes them 40 days old, on a day that has just been found
   * to be retained.
   */
  async function publishOld(count: number): Promise<void> {
    await sql`
      select business_api.insert_events(${ORGANIZATION}, (
        select jsonb_agg(jsonb_build_object(
          'id', business_api.new_id('evt'), 'hasNewId', true, 'type', 'project.completed', 'body', '{}'
        ))
        from generate_series(1, ${count}::int)
      ))`
    await finishDeliveries(sql, 'delivered')
    await ageEvents(sql, 40 * DAY_MS)
    await sql`
      update business_api.event_days set checked_at = now(), retained_for = '{}' where ends_at < now() - interval '30 days'`
  }

  async function countEvents(): Promise<number> {
    const [row] = await sql`select count(*)::int as count from business_api.events`
    return row?.count
  }

  const letAnHourPass = () =>
    sql`update business_api.purge_progress set second_pass_at = second_pass_at - interval '1 hour'`

  test('leaves the work to another purging process without waiting', async () => {
    await publishOld(1)
    await sql.begin(async (tx) => {
      await tx`select 1 from business_api.purge_progress for update`
      const { events, isDone, lagMs } = await purge()
      assert.deepEqual({ events, isDone, lagMs }, { events: 0, isDone: true, lagMs: null })
    })
    assert.equal((await purge()).events, 1)
  })

  test('pauses between two parts, whichever process calls it', async () => {
    await publishOld(3)
    const other = createPostgresStore(database.url)
    const first = await purge({ limit: 1, share: 0.01 })
    assert.deepEqual([first.events, first.isDone], [1, false])
    assert.ok(first.waitMs > 0 && (first.lagMs ?? 0) > 23 * 3_600_000)
    const early = await other.deliveries.continuePurge(REQUEST)
    assert.deepEqual([early.events, early.isDone, early.lagMs], [0, false, null])
    assert.ok(early.waitMs > 0 && early.waitMs <= first.waitMs)
    await other.close()
    await sleep(early.waitMs)
    assert.equal((await purge()).events, 2)
  })

  test('continues immediately if the clock was set back', async () => {
    await publishOld(1)
    await sql`update business_api.purge_progress set paused_until = now() + interval '1 day'`
    assert.equal((await purge()).events, 1)
  })

  test("a clock that was ahead and is right again doesn't hide any event from the purge", async () => {
    await publishOld(2)
    await reopenDeliveries(sql, sql`id = (select min(id) from business_api.finished_deliveries)`)
    const ahead = { prefix: idPrefixAt('dlv', Date.now() + DAY_MS) }
    await sql`
      update business_api.purge_progress
      set cursor = ${sql.json({ event: ahead } as never)}, second_pass_at = now() - interval '1 minute'`
    assert.equal((await purge()).events, 1, 'the pass begins again')
    await finishDeliveries(sql, 'delivered')
    await sql`update business_api.purge_progress set second_pass_at = now() + interval '1 day'`
    assert.equal((await purge()).events, 1, 'and the hourly one does not wait for a day')
  })

  test('comes back to events that had to be kept once an hour', async () => {
    await publishOld(2)
    await reopenDeliveries(sql, sql`id = (select min(id) from business_api.finished_deliveries)`)
    const { events, isDone, lagMs } = await purge()
    assert.deepEqual({ events, isDone, lagMs }, { events: 1, isDone: true, lagMs: 0 })
    await finishDeliveries(sql, 'delivered')
    assert.equal((await purge()).events, 0, 'not yet')
    await letAnHourPass()
    assert.equal((await purge()).events, 1)
  })

  test('scans past more kept events than a part has, even in single runs of new processes', async () => {
    await publishOld(2500)
    await reopenDeliveries(sql)
    const last = sql`(select id from business_api.events order by delivery_prefix desc limit 1)`
    await finishDeliveries(sql, 'delivered', sql`event_id = ${last}`)
    let purged = 0
    for (let process = 0; process < 4; process++) {
      const other = createPostgresStore(database.url)
      purged += (await other.deliveries.continuePurge({ ...REQUEST, share: 1 })).events
      await other.close()
    }
    assert.equal(purged, 1)
    assert.equal(await countEvents(), 2499)
  })

  test('a session that purged while the tables were empty finds the deliveries of each event by an index', async () => {
    const one = database.sql({ max: 1 })
    const part = (tx: ISql) => tx`select business_api.purge_part(${30 * DAY_MS}, '{}', 500, true, null)`
    await one.unsafe(
      'analyze business_api.events, business_api.open_deliveries, business_api.finished_deliveries',
    )
    for (const _ of [1, 2]) await part(one)
    await publishOld(20_000)
    const [read] = await one.begin(async (tx) => {
      await tx`set local statement_timeout = '10s'`
      await part(tx)
      return tx<{ rows: number }[]>`
        select sum(seq_tup_read + idx_tup_fetch)::int as rows
        from pg_stat_xact_user_tables
        where relid = 'business_api.open_deliveries'::regclass
           or relid in (select relid from pg_partition_tree('business_api.finished_deliveries'::regclass))`
    })
    assert.equal(await countEvents(), 19_500)
    assert.ok((read?.rows ?? Number.POSITIVE_INFINITY) < 20_000, `${read?.rows} rows were read`)
  })

  test('a delivery of a long transaction is in the right period of the log', async () => {
    const list = (until: Date) =>
      store.deliveries.list(ORGANIZATION, { until: until.toISOString() }, 10, null)
    await publishOld(1)
    const [delivery] = await sql<{ id: string; at: Date }[]>`
      update business_api.finished_deliveries set created_at = created_at - interval '4 minutes' returning id, created_at as at`
    assert.ok(delivery)
    assert.deepEqual(
      (await list(new Date(delivery.at.getTime() + 1000))).map(({ id }) => id),
      [delivery.id],
    )
    assert.deepEqual(await list(new Date(delivery.at.getTime() - 1000)), [])
  })
})
