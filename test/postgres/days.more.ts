import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, afterEach, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ISql, Sql } from 'postgres'
import { idPrefixAt } from '../../lib/base/ids.ts'
import { writeGrants } from '../../lib/postgres/schema/grants.ts'
import { migrate } from '../../lib/postgres/schema/migrate.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { newEntry } from '../_audit.ts'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../_database.ts'
import { makeDay } from '../_days.ts'
import { until } from '../faults/_fixture.ts'

// The days of events and deliveries: created ahead, read one at a time, retained for open deliveries, and dropped
// as a whole.

const DAY_MS = 86_400_000
const RETENTION_MS = 30 * DAY_MS
const ORGANIZATION = 'org_days'
const TABLES = ['events', 'finished_deliveries', 'delivery_attempts'] as const

let database: TestDatabase
let sql: Sql
let store: PostgresStore

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 4 })
  store = createPostgresStore(database.url)
  await sql`
    insert into business_api.webhook_endpoints (organization_id, id, url, state, created_at, sealed_secret)
    values (${ORGANIZATION}, 'we_1', 'https://hooks.example/', 'enabled', now(), 'plain.whsec_test')`
})
after(async () => {
  await store.close()
  await database.drop()
})
afterEach(async () => {
  await sql`truncate business_api.events, business_api.open_deliveries, business_api.finished_deliveries, business_api.event_ids`
  await sql`truncate business_api.delivery_attempts`
  await letTimePass()
  while ((await purge()).days > 0) await letTimePass()
})

const ago = (days: number): Date => new Date(Date.now() - days * DAY_MS)

const purge = (by: PostgresStore = store) =>
  by.deliveries.continuePurge({ eventsAfterMs: RETENTION_MS, limit: 1000, share: 1 })

/** Pretends that checked days were checked a long time ago. */
const letTimePass = () => sql`update business_api.event_days set checked_at = null`

/**
 * Creates a day with events, each delivered after one attempt.
 *
 * @returns the name of the day and the ids of the deliveries
 */
async function fillDay(
  at: Date,
  count: number,
  of: ISql = sql,
): Promise<{ name: string; ids: readonly string[] }> {
  const name = await makeDay(of, at)
  const prefix = idPrefixAt('dlv', at.getTime())
  const rows = await of<{ id: string }[]>`
    with event as (
      insert into business_api.events (organization_id, id, type, body, delivery_prefix)
      select ${ORGANIZATION}, ${`evt_${name}_`} || number, 'project.completed', '{}', ${prefix} || lpad(number::text, 11, '0')
      from generate_series(1, ${count}::int) as number
      returning id, delivery_prefix
    ), known as (
      insert into business_api.event_ids (organization_id, id, delivery_prefix)
      select ${ORGANIZATION}, id, delivery_prefix from event
    ), attempt as (
      insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
      select ${ORGANIZATION}, delivery_prefix || '00001', 1, ${at}, 1, '' from event
    )
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts)
    select ${ORGANIZATION}, delivery_prefix || '00001', id, 'project.completed', 'we_1', 'delivered', ${at}, ${at}, 1 from event
    returning id`
  return { name, ids: rows.map(({ id }) => id) }
}

async function isThere(name: string): Promise<boolean> {
  const rows = await sql`
    select 1 from unnest(${sql.array([...TABLES])}::text[]) as parent
    where to_regclass('business_api.' || parent || '_' || ${name}) is not null`
  assert.ok(rows.length === 0 || rows.length === TABLES.length, 'half of a day')
  return rows.length > 0
}

const recover = (ids: readonly string[]) =>
  store.deliveries.recover({ organizationId: ORGANIZATION, ids, filter: {}, limit: 100, entry: newEntry() })

describe('Days are created', () => {
  test('by migrate, from now to a week ahead, without a gap', async () => {
    const days = await sql<{ begins_at: Date; ends_at: Date; begins: string; ends: string }[]>`
      select begins_at, ends_at, begins, ends from business_api.event_days order by begins`
    const [first, last] = [days[0], days.at(-1)]
    assert.ok(first && last && first.begins_at.getTime() <= Date.now())
    assert.ok(last.ends_at.getTime() >= Date.now() + 6.9 * DAY_MS)
    for (const [index, day] of days.entries()) {
      assert.equal(day.begins, idPrefixAt('dlv', day.begins_at.getTime()))
      assert.equal(day.ends, days[index + 1]?.begins ?? idPrefixAt('dlv', day.ends_at.getTime()))
    }
  })

  for (const width of [1, 4]) {
    test(`by a publisher with minimum privileges if no loop has created any, by two at once, ${width} days wide`, async () => {
      const fresh = await createTestDatabase()
      const owner = fresh.sql({ max: 1 })
      const role = `business_api_publisher_${randomUUID()}`
      try {
        await owner`create role ${owner(role)}`
        for (const statement of writeGrants([{ part: 'publisher', role }])) await owner.unsafe(statement)
        await owner`update business_api.purge_progress set retention_ms = ${width * RETENTION_MS}`
        await dropAll(owner)
        const publishers = [1, 2].map(() => fresh.sql({ max: 1, connection: { role } }))
        await Promise.all(
          publishers.map(
            (publisher) =>
              publisher`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`,
          ),
        )
        const [counts] = await owner`
          select (select count(*)::int from business_api.events) as events, count(*)::int as days,
                 max(ends_at - begins_at) = ${width} * interval '24 hours' as is_wide
          from business_api.event_days`
        assert.deepEqual({ ...counts, days: 0 }, { events: 2, days: 0, is_wide: true })
        assert.ok(counts?.days <= (width === 1 ? 9 : 3), `${counts?.days} days`)
        await Promise.all(publishers.map((publisher) => publisher.end()))
      } finally {
        await owner.unsafe(`drop owned by "${role}"; drop role "${role}"`)
        await fresh.drop()
      }
    })
  }

  test("by a publisher in a transaction that doesn't see the days of another one", async () => {
    const fresh = await createTestDatabase()
    const owner = fresh.sql({ max: 2 })
    try {
      await dropAll(owner)
      await owner.begin('isolation level repeatable read', async (tx) => {
        await tx`select 1 from business_api.event_days`
        await owner`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`
        await tx`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`
      })
      const [row] = await owner`select count(*)::int as count from business_api.events`
      assert.equal(row?.count, 2)
    } finally {
      await fresh.drop()
    }
  })

  describe('by a publisher', () => {
    let fresh: TestDatabase
    let owner: Sql
    let role: string
    before(async () => {
      fresh = await createTestDatabase()
      owner = fresh.sql({ max: 1 })
      role = `business_api_publisher_${randomUUID()}`
      await owner`create role ${owner(role)}`
      for (const statement of writeGrants([{ part: 'publisher', role }])) await owner.unsafe(statement)
    })
    after(async () => {
      await owner.unsafe(`drop owned by "${role}"; drop role "${role}"`)
      await fresh.drop()
    })
    const publish = (by: ISql) =>
      by`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`

    test("without using its temporary types that are named like PostgreSQL's", async () => {
      const publisher = fresh.sql({ max: 1, connection: { role } })
      await publisher.unsafe(`
        create function pg_temp.run(value anyelement) returns boolean language plpgsql as $$
        begin
          raise exception 'This ran as %', current_user;
        end $$;
        create domain pg_temp.text as pg_catalog.text check (pg_temp.run(value));
        create domain pg_temp.timestamptz as pg_catalog.timestamptz check (pg_temp.run(value))`)
      await publisher`select business_api.make_days()`
      await publisher.end()
    })

    test('ahead of time on the last day, while other publishers continue although the transaction is open', async () => {
      for (const {
        name,
      } of await owner`delete from business_api.event_days where begins_at > now() returning name`) {
        for (const table of TABLES) await owner.unsafe(`drop table business_api.${table}_${name}`)
      }
      const options = { max: 1, connection: { role, statement_timeout: 2000 } }
      const [one, other] = [fresh.sql(options), fresh.sql(options)]
      const names = async () =>
        (await owner`select name from business_api.event_days`).map(({ name }) => name)
      // Today, and also yesterday if the tests started before midnight.
      const made = await names()
      await one.begin(async (tx) => {
        await publish(tx)
        await publish(other)
        assert.deepEqual(await names(), made)
      })
      assert.ok((await names()).length >= 7, 'days ahead')
      await Promise.all([one.end(), other.end()])
    })

    test('on the last two days, so that a transaction may stay open beyond the end of the current day', async () => {
      for (const {
        name,
      } of await owner`delete from business_api.event_days where begins_at > now() + interval '1 day' returning name`) {
        for (const table of TABLES) await owner.unsafe(`drop table business_api.${table}_${name}`)
      }
      const session = fresh.sql({ max: 1, connection: { role } })
      await publish(session)
      await session.end()
      await assertNoGap(owner)
    })

    test('for a session that knew the days before its clock was set back', async () => {
      const session = fresh.sql({ max: 1, connection: { role } })
      await publish(session)
      await session`
        select set_config('business_api.day_known_from', 'dlv_Y', false), set_config('business_api.day_known_until', 'dlv_Z', false)`
      await dropAll(owner)
      await publish(session)
      const [today] =
        await owner`select name from business_api.event_days where begins_at <= now() and ends_at > now()`
      assert.ok(today, 'the present day has tables again')
      await session.end()
    })

    test("that can't see the days because of row-level security, and doesn't wait for other publishers", async () => {
      await owner`alter table business_api.event_days enable row level security`
      const publishers = [1, 2].map(() =>
        fresh.sql({ max: 1, connection: { role, statement_timeout: 2000 } }),
      )
      const [one, other] = publishers
      assert.ok(one && other)
      await one.begin(async (tx) => {
        await publish(tx)
        await publish(other)
      })
      await owner`alter table business_api.event_days disable row level security`
      await Promise.all(publishers.map((publisher) => publisher.end()))
    })

    test('although row-level security is forced on the owner and hides the days', async () => {
      const own = await createEmptyDatabase()
      const admin = own.sql({ max: 1 })
      const ownerRole = `business_api_owner_${randomUUID()}`
      const url = new URL(own.url)
      url.username = ownerRole
      url.password = 'owner'
      try {
        await admin.unsafe(`
          create role "${ownerRole}" login password 'owner' nosuperuser nobypassrls;
          grant create on database "${url.pathname.slice(1)}" to "${ownerRole}"`)
        await migrate(url.href)
        await admin.unsafe(`
          alter table business_api.event_days enable row level security, force row level security;
          create policy of_the_organization on business_api.event_days
            using (organization_id = 'org_any') with check (organization_id = 'org_any')`)
        await publish(own.sql({ max: 1, connection: { role: ownerRole } }))
        await dropAll(admin)
        await publish(own.sql({ max: 1, connection: { role: ownerRole } }))
        const [events] = await admin`select count(*)::int as count from business_api.events`
        assert.equal(events?.count, 1)
      } finally {
        await admin.unsafe(`drop owned by "${ownerRole}"; drop role "${ownerRole}"`)
        await own.drop()
      }
    })

    test("and can't be read bypassing the parent's policies, even if tables are granted by default", async () => {
      await owner.unsafe(`alter default privileges grant select on tables to "${role}"`)
      const name = await makeDay(owner, ago(40))
      await owner.unsafe(`
        insert into business_api.events (organization_id, id, type, body, delivery_prefix)
        values ('org_any', 'evt_old', 'project.completed', '{}', '${idPrefixAt('dlv', ago(40).getTime())}')`)
      const publisher = fresh.sql({ max: 1, connection: { role } })
      assert.deepEqual([...(await publisher.unsafe(`select id from business_api.events_${name}`))], [])
      await publisher.end()
    })
  })

  for (const width of [1, 3]) {
    for (const missing of [...TABLES, 'detached', 'row'] as const) {
      test(`by a publisher that finds only part of a day of width ${width}, ${missing} missing, once and not for each event`, async () => {
        const fresh = await createTestDatabase()
        const owner = fresh.sql({ max: 1 })
        const publisher = fresh.sql({ max: 1, connection: { statement_timeout: 2000 } })
        try {
          if (width > 1) {
            await dropAll(owner)
            await owner`update business_api.purge_progress set retention_ms = ${width * RETENTION_MS}`
            const midnight = Math.floor(Date.now() / DAY_MS) * DAY_MS
            // Today isn't the first of the three.
            await makeWideDay(owner, midnight - DAY_MS, width)
            await owner`select business_api.make_days()`
          }
          const days = () =>
            owner`select name, begins, ends, begins_at, ends_at from business_api.event_days order by begins`
          const [today] =
            await owner`select name from business_api.event_days where begins_at <= now() and ends_at > now()`
          const known = await days()
          await owner`delete from business_api.event_days`
          if (missing === 'detached') {
            await owner.unsafe(
              `alter table business_api.events detach partition business_api.events_${today?.name}`,
            )
          } else if (missing !== 'row') {
            await owner.unsafe(`drop table business_api.${missing}_${today?.name}`)
          }
          const publish = () =>
            publisher`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`
          await publish()
          await owner.begin(async (tx) => {
            await tx`lock table only business_api.events in share update exclusive mode`
            await publish()
          })
          assert.deepEqual([...(await days())], [...known])
          const [counts] = await owner`select count(*)::int as events from business_api.events`
          assert.equal(counts?.events, 2)
          for (const table of TABLES) {
            const [{ root } = {}] =
              await owner`select pg_partition_root(${`business_api.${table}_${today?.name}`})::text as root`
            assert.equal(root, `business_api.${table}`)
          }
        } finally {
          await publisher.end()
          await fresh.drop()
        }
      })
    }
  }

  test('as wide as the attached tables if the rows are missing and the width has changed', async () => {
    for (const [before, now] of [
      [1, 3],
      [3, 1],
    ] as const) {
      const fresh = await createTestDatabase()
      const owner = fresh.sql({ max: 1 })
      try {
        const setWidth = (width: number) =>
          owner`update business_api.purge_progress set retention_ms = ${width * RETENTION_MS}`
        await dropAll(owner)
        await setWidth(before)
        await makeWideDay(owner, Math.floor(Date.now() / DAY_MS) * DAY_MS - 9 * DAY_MS, before)
        await owner`select business_api.make_days()`
        const days = () =>
          owner`select name, begins, ends, begins_at, ends_at from business_api.event_days order by begins`
        const known = await days()
        await owner`update business_api.event_days set ends = ends || '0' where begins_at > now()`
        await owner`delete from business_api.event_days where begins_at <= now()`
        await setWidth(now)
        await owner`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`
        assert.deepEqual([...(await days())], [...known])
      } finally {
        await fresh.drop()
      }
    }
  })

  test('by a purge and by a publisher although the clock was ahead and left a later day behind', async () => {
    for (const work of [
      async () => void (await purge()),
      async () =>
        void (await sql`select business_api.publish_event('org_any', 'project.completed', '{}'::jsonb)`),
    ]) {
      await dropAll(sql)
      await makeDay(sql, ago(-20))
      await makeDay(sql, ago(0))
      await work()
      await assertNoGap(sql)
    }
  })

  async function makeWideDay(owner: Sql, beginsAt: number, width: number): Promise<void> {
    const [from, to] = [beginsAt, beginsAt + width * DAY_MS].map((time) => new Date(time).toISOString())
    const name = from?.slice(0, 10).replaceAll('-', '') ?? ''
    await owner`select business_api.make_day(${name}, ${from ?? ''}, ${to ?? ''})`
  }

  /** Asserts that there is a day for every time within the next six days. */
  async function assertNoGap(owner: Sql): Promise<void> {
    const missing = await owner`
      select moment from generate_series(now(), now() + interval '6 days', interval '1 day') as moment
      where not exists (select 1 from business_api.event_days where begins_at <= moment and ends_at > moment)`
    assert.deepEqual([...missing], [])
  }

  async function dropAll(owner: Sql): Promise<void> {
    for (const { name } of await owner`delete from business_api.event_days returning name`) {
      for (const table of TABLES) await owner.unsafe(`drop table business_api.${table}_${name}`)
    }
  }
})

describe('A claim continues although someone has dropped or detached tables of the day of a claimed delivery whose process is dead', () => {
  const claim = async (): Promise<readonly string[]> => {
    const { deliveries } = await store.deliveries.claim({
      token: `claim_${randomUUID()}`,
      isRepeat: false,
      limit: 10,
      maxBytes: 1_000_000,
      capacity: { endpoint: 10, organization: 10, endpoints: {}, organizations: {} },
      scanLimit: 10,
      cursor: null,
      leaseMs: 60_000,
      maxAttempts: 5,
    })
    return deliveries.map(({ id }) => id)
  }

  /** Adds a delivery of the first event of `fillDay` to another endpoint. */
  async function addDelivery(at: Date, eventId: string, attempts = 1): Promise<string> {
    const id = `${idPrefixAt('dlv', at.getTime())}${'1'.padStart(11, '0')}00002`
    await sql`
      insert into business_api.open_deliveries
        (organization_id, id, event_id, type, endpoint_id, due_at, attempts, claim_token, claimed_at, lease_until)
      values (
        ${ORGANIZATION}, ${id}, ${eventId}, 'project.completed', 'we_1', now(), ${attempts}, 'gone', now() - interval '1 minute',
        now() - interval '1 second'
      )`
    return id
  }

  const isOpen = async (id: string): Promise<boolean> =>
    (await sql`select 1 from business_api.open_deliveries where id = ${id}`).length > 0
  const endLease = (id: string) =>
    sql`update business_api.open_deliveries set lease_until = now() where id = ${id}`

  test('with the event and the day: the delivery is deleted', async () => {
    const id = await addDelivery(ago(50), 'evt_gone')
    await sql`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb)`
    assert.equal((await claim()).length, 1)
    assert.equal(await isOpen(id), false)
  })

  test("by a worker that can't see the days because of row-level security: the delivery waits", async () => {
    const role = `business_api_worker_${randomUUID()}`
    const { name } = await fillDay(ago(12), 1)
    const id = await addDelivery(ago(12), `evt_${name}_1`)
    try {
      await sql`create role ${sql(role)}`
      for (const statement of writeGrants([{ part: 'worker', role }])) await sql.unsafe(statement)
      await sql`alter table business_api.event_days enable row level security`
      await sql.unsafe(`alter table business_api.events detach partition business_api.events_${name}`)
      await sql.begin(async (tx) => {
        await tx`set local role ${sql(role)}`
        await tx`select business_api.reclaim_expired_leases(5)`
      })
      assert.equal(await isOpen(id), true)
    } finally {
      await sql`alter table business_api.event_days disable row level security`
      await sql`select business_api.make_day(name, begins_at, ends_at) from business_api.event_days where name = ${name}`
      await sql.unsafe(`drop owned by "${role}"; drop role "${role}"`)
    }
  })

  for (const [index, { lost, by = 'drop', attempts = 1, isEventLost = false }] of [
    { lost: ['delivery_attempts'] },
    { lost: ['finished_deliveries'], attempts: 5 },
    { lost: ['events'], by: 'detach' },
    { lost: ['events', 'delivery_attempts'], by: 'detach' },
    { lost: TABLES, by: 'detach', attempts: 5 },
    { lost: ['events'], isEventLost: true },
    { lost: TABLES, isEventLost: true },
  ].entries()) {
    test(`${lost.join(', ')} (${by}): a delivery after ${attempts} of 5 attempts waits until the tables are back`, async () => {
      const at = ago(2 + index)
      const { name } = await fillDay(at, 1)
      const id = await addDelivery(at, `evt_${name}_1`, attempts)
      for (const parent of lost) {
        await sql.unsafe(
          by === 'drop'
            ? `drop table business_api.${parent}_${name}`
            : `alter table business_api.${parent} detach partition business_api.${parent}_${name}`,
        )
      }
      await sql`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb)`
      assert.equal((await claim()).length, 1)
      for (let round = 0; round < 2; round++) {
        assert.deepEqual(await claim(), [])
        const [waiting] = await sql`
          select attempts, lease_until > now() + interval '9 minutes' as is_later from business_api.open_deliveries where id = ${id}`
        assert.deepEqual({ ...waiting }, { attempts, is_later: true })
        await sql`
          update business_api.open_deliveries set claimed_at = claimed_at - (lease_until - now()), lease_until = now() where id = ${id}`
      }

      await sql`select business_api.make_day(name, begins_at, ends_at) from business_api.event_days where name = ${name}`
      const claimed = await claim()
      const [attempt] = await sql`
        select duration_ms, error from business_api.delivery_attempts where delivery_id = ${id} and number = ${attempts}`
      assert.equal(attempt?.error, 'interrupted')
      assert.ok(Math.abs(attempt.duration_ms - 59_000) < 1000, `${attempt.duration_ms} ms`)
      if (attempts === 1 && !isEventLost) {
        assert.deepEqual(claimed, [id])
        return
      }
      // Nothing is sent without the event, whose table was recreated empty.
      assert.deepEqual(claimed, [])
      for (let number = attempts; number < 5; number++) {
        await endLease(id)
        assert.deepEqual(await claim(), [])
      }
      const [ended] = await sql`select state, reason from business_api.finished_deliveries where id = ${id}`
      assert.deepEqual({ ...ended }, { state: 'failed', reason: 'interrupted' })
    })
  }
})

describe('A host’s event id', () => {
  const publish = (id: string) => sql`
    select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb, ${id})`

  test('results in one event, even on another day, until the day is dropped', async () => {
    const { name } = await fillDay(ago(40), 1)
    const id = `evt_${name}_1`
    await publish(id)
    assert.equal((await sql`select 1 from business_api.events where id = ${id}`).length, 1)
    assert.equal((await purge()).days, 1)
    await purge()
    assert.deepEqual([...(await sql`select id from business_api.event_ids`)], [])
    await publish(id)
    assert.equal((await sql`select 1 from business_api.events where id = ${id}`).length, 1)
  })

  test('results in one event for many concurrent publishers, and if used twice in a call', async () => {
    await Promise.all(Array.from({ length: 8 }, () => publish('evt_same')))
    const event = { id: 'evt_twice', type: 'project.completed', body: '{}' }
    await sql`select business_api.insert_events(${ORGANIZATION}, ${sql.json([event, event])})`
    const rows = await sql`select id from business_api.events order by id`
    assert.deepEqual(
      rows.map(({ id }) => id),
      ['evt_same', 'evt_twice'],
    )
  })
})

describe('An old day', () => {
  test('is dropped as a whole with the ids of its events, and later days are kept', async () => {
    const old = await fillDay(ago(40), 3)
    const young = await fillDay(ago(20), 3)
    const report = await purge()
    assert.deepEqual([report.days, report.isDone, report.retained], [1, false, []])
    assert.deepEqual([await isThere(old.name), await isThere(young.name)], [false, true])
    await purge()
    const left = await sql`select 1 from business_api.event_days where name = ${old.name}`
    assert.equal(left.length, 0)
    const [ids] = await sql`select count(*)::int as count from business_api.event_ids`
    assert.equal(ids?.count, 3)
    assert.deepEqual(await recover(old.ids), [])
  })

  test('leaves the ids of its events, which are deleted in parts before the purge is done', async () => {
    await fillDay(ago(40), 25)
    await fillDay(ago(41), 5)
    const reports = []
    do {
      assert.ok(reports.length < 20, JSON.stringify(reports))
      reports.push(await store.deliveries.continuePurge({ eventsAfterMs: RETENTION_MS, limit: 10, share: 1 }))
    } while (!reports.at(-1)?.isDone)
    const [ids] = await sql`select count(*)::int as count from business_api.event_ids`
    assert.equal(ids?.count, 0)
  })

  const opened = {
    pending: {},
    'in flight': { claim_token: 't', claimed_at: new Date(), lease_until: new Date(Date.now() + 60_000) },
    'backing off': { is_backing_off: true, attempts: 1, due_at: new Date(Date.now() + 60_000) },
    'of a paused endpoint': { endpoint_id: 'we_paused' },
  }
  for (const [state, values] of Object.entries(opened)) {
    test(`is kept while a delivery is ${state}, which is reported, and is dropped after that`, async () => {
      const { name, ids } = await fillDay(ago(40), 3)
      assert.deepEqual(await recover(ids.slice(1, 2)), ids.slice(1, 2))
      if (Object.keys(values).length > 0) await sql`update business_api.open_deliveries set ${sql(values)}`
      const endpointId = state === 'of a paused endpoint' ? 'we_paused' : 'we_1'
      const { days, retained } = await purge()
      assert.equal(days, 0)
      const { since, ...names } = retained[0] ?? assert.fail('nothing is named')
      assert.deepEqual(names, { organizationId: ORGANIZATION, endpointId })
      assert.ok(Math.abs(Date.parse(since) - ago(40).getTime()) < 60_000, since)
      assert.equal(await isThere(name), true)
      // Everything that doesn't have to be kept is deleted row by row.
      assert.equal((await sql`select 1 from business_api.events`).length, 1)

      await sql`delete from business_api.open_deliveries`
      assert.equal((await purge()).days, 0, 'checked again after ten minutes')
      await letTimePass()
      const after = await purge()
      assert.deepEqual([after.days, after.retained], [1, []])
      assert.equal(await isThere(name), false)
    })
  }

  test('is reported with each endpoint that days are kept for, by its oldest delivery', async () => {
    for (const [days, endpointId] of [
      [50, 'we_a'],
      [45, 'we_b'],
      [40, 'we_a'],
    ] as const) {
      const { ids } = await fillDay(ago(days), 1)
      await recover(ids)
      await sql`update business_api.open_deliveries set endpoint_id = ${endpointId} where id = ${ids[0] ?? ''}`
    }
    const { days, retained } = await purge()
    assert.equal(days, 0)
    assert.deepEqual(
      retained.map(({ endpointId, since }) => [
        endpointId,
        Math.round((Date.now() - Date.parse(since)) / DAY_MS),
      ]),
      [
        ['we_a', 50],
        ['we_b', 45],
      ],
    )
    await sql`truncate business_api.open_deliveries`
  })

  test('is kept for deliveries of any organization, among others with open deliveries on other days', async () => {
    const { name, ids } = await fillDay(ago(40), 1)
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      select organization, id || number, 'evt_x', 'project.completed', 'we_x', now()
      from unnest(array['org_a', 'org_days', 'org_z']) as organization, generate_series(1, 3) as number,
           unnest(array['dlv_00', ${idPrefixAt('dlv', Date.now())}]) as id`
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      select 'org_m', ${ids[0] ?? ''}, 'evt_x', 'project.completed', 'we_m', now()`
    const { days, retained } = await purge()
    assert.deepEqual([days, retained[0]?.organizationId, retained[0]?.endpointId], [0, 'org_m', 'we_m'])
    await sql`delete from business_api.open_deliveries where organization_id = 'org_m'`
    await letTimePass()
    assert.equal((await purge()).days, 1)
    assert.equal(await isThere(name), false)
  })

  test('is kept for a delivery after those of 100,000 other organizations, which are too many to check, and is reported later', async () => {
    const { name, ids } = await fillDay(ago(40), 1)
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      select 'org_a' || number, ${idPrefixAt('dlv', Date.now())} || number, 'evt_x', 'project.completed', 'we_x', now()
      from generate_series(1, 100000) as number
      union all
      select 'org_z', ${ids[0] ?? ''}, 'evt_x', 'project.completed', 'we_z', now()`
    // Without the store's statement timeout.
    const purgeDays = async (): Promise<unknown> => {
      const [{ report } = {}] = await sql`select business_api.purge_days(${RETENTION_MS}, 1000) as report`
      return [report.days, report.retained[0]?.organizationId, await isThere(name)]
    }
    assert.deepEqual(await purgeDays(), [0, undefined, true])
    await sql`delete from business_api.open_deliveries where organization_id = 'org_a1'`
    assert.deepEqual(await purgeDays(), [0, undefined, true], 'checked again after ten minutes')
    await letTimePass()
    assert.deepEqual(await purgeDays(), [0, 'org_z', true])
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      values ('org_a1', ${`${idPrefixAt('dlv', Date.now())}1`}, 'evt_x', 'project.completed', 'we_x', now())`
    await letTimePass()
    assert.deepEqual(await purgeDays(), [0, 'org_z', true], 'still named after a check without a result')
    await sql`truncate business_api.open_deliveries`
    await letTimePass()
    assert.equal((await purge()).days, 1)
  })

  test('is still complete after an interrupted drop', async () => {
    const { name } = await fillDay(ago(40), 3)
    const cut = new Error('cut off')
    const dropping = sql.begin(async (tx) => {
      const [row] = await tx`select business_api.continue_purge(${RETENTION_MS}, 1000, 1) as report`
      assert.equal(row?.report.days, 1)
      throw cut
    })
    await assert.rejects(dropping, cut)
    assert.equal(await isThere(name), true)
    assert.equal((await sql`select 1 from business_api.events`).length, 3)
    assert.equal((await purge()).days, 1)
  })

  test('waits for a long transaction without blocking anyone else, and is dropped after that', async () => {
    const { name } = await fillDay(ago(40), 1)
    await sql.begin(async (tx) => {
      await tx`select count(*) from business_api.events`
      let isOver = false
      let published = 0
      const publishing = (async () => {
        for (; !isOver; published++) {
          await sql`select business_api.publish_event('org_other', 'project.completed', '{}'::jsonb, ${`evt_w_${published}`})`
        }
      })()
      // First as if the day should have been dropped an hour ago, and then as it really is, ten days ago.
      const [ends] = await sql<{ ms: number }[]>`
        select (extract(epoch from now() - ends_at) * 1000 - 3600000)::float8 as ms from business_api.event_days where name = ${name}`
      for (const eventsAfterMs of [ends?.ms ?? assert.fail(), RETENTION_MS]) {
        for (let round = 0; round < 3; round++) {
          await letTimePass()
          assert.equal(
            (await store.deliveries.continuePurge({ eventsAfterMs, limit: 1000, share: 1 })).days,
            0,
          )
        }
        const [day] = await sql`
          select now() - checked_at > interval '8 minutes' as is_soon from business_api.event_days where name = ${name}`
        assert.equal(
          day?.is_soon,
          eventsAfterMs !== RETENTION_MS,
          'tried again after a minute, later after ten',
        )
      }
      // The transaction is still open, so waiting for it would never end.
      isOver = true
      await publishing
      assert.ok(published > 1, `${published} published`)
    })
    await letTimePass()
    assert.equal((await purge()).days, 1)
    assert.equal(await isThere(name), false)
  })

  test("is kept with the event of a publisher that commits during the drop, and isn't locked any longer", async () => {
    const { name } = await fillDay(ago(40), 0)
    const [publisher, purger] = await Promise.all([sql.reserve(), sql.reserve()])
    const [{ pid } = {}] = await purger`select pg_backend_pid() as pid`
    const locksOf = (isGranted: boolean) => sql`
      select 1 from pg_locks
       where pid = ${pid} and granted = ${isGranted} and mode in ('ShareLock', 'AccessExclusiveLock') and relation in (
         ${`business_api.events_${name}`}::regclass, ${`business_api.finished_deliveries_${name}`}::regclass
       )`
    const id = `${idPrefixAt('dlv', ago(40).getTime())}${'1'.padStart(16, '0')}`

    /** Returns `false` if the drop gave up after half a second, before the commit, because the machine is busy. */
    async function isFoundByDrop(): Promise<boolean> {
      await letTimePass()
      await sql`truncate business_api.open_deliveries`
      await publisher`begin`
      await publisher`
        insert into business_api.events (organization_id, id, type, body, delivery_prefix)
        values (${ORGANIZATION}, ${`evt_${randomUUID()}`}, 'project.completed', '{}', ${id.slice(0, -5)})`
      await publisher`
        insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
        values (${ORGANIZATION}, ${id}, 'evt_late', 'project.completed', 'we_1', now())`
      await purger`begin`
      const dropping = purger`select business_api.purge_days(${RETENTION_MS}, 1000) as report`.execute()
      await until('the drop waits', async () => (await locksOf(false)).length > 0, 1000)
      await publisher`commit`
      const [{ report } = {}] = await dropping
      assert.deepEqual([report.days, await isThere(name)], [0, true])
      assert.deepEqual([...(await locksOf(true))], [])
      await purger`commit`
      return report.retained.length > 0
    }
    try {
      let tries = 1
      while (!(await isFoundByDrop())) assert.ok(++tries <= 5, 'the drop has found the delivery')
    } finally {
      await Promise.all([publisher`rollback`, purger`rollback`])
      publisher.release()
      purger.release()
    }
  })

  for (const lost of [['events'], ['finished_deliveries'], ['delivery_attempts'], TABLES]) {
    test(`is dropped although someone has dropped its ${lost.join(', ')}`, async () => {
      const { name } = await fillDay(ago(41), 1)
      const { name: younger } = await fillDay(ago(40), 1)
      for (const parent of lost) await sql.unsafe(`drop table business_api.${parent}_${name}`)
      const reports = [await purge(), await purge()]
      assert.deepEqual(
        reports.map(({ days }) => days),
        [1, 1],
      )
      assert.ok(reports.every(({ events }) => Number.isInteger(events)))
      assert.deepEqual([await isThere(name), await isThere(younger)], [false, false])
    })
  }

  test('is reported as a lag while a long transaction prevents the drop', async () => {
    await fillDay(ago(41), 1)
    const { name: younger } = await fillDay(ago(40), 1)
    await sql.begin(async (tx) => {
      await tx`select count(*) from business_api.events`
      const { days, lagMs } = await purge()
      assert.equal(days, 0)
      // The next part would wait for the same transaction because of the other day.
      const [other] = await sql`
        select checked_at > now() - interval '1 minute' as is_later from business_api.event_days where name = ${younger}`
      assert.equal(other?.is_later, true, 'one long wait in ten minutes')
      // The older day ended 40 to 41 days ago and should have been dropped two and a half days after the retention.
      assert.ok(lagMs !== null && lagMs > 7 * DAY_MS && lagMs < 9 * DAY_MS, `${lagMs} ms`)
    })
    await letTimePass()
    assert.deepEqual([(await purge()).days, (await purge()).days, (await purge()).lagMs], [1, 1, 0])
  })

  test('is dropped although there are always overlapping transactions that publish, each longer than a short wait', async () => {
    const { name } = await fillDay(ago(40), 1)
    // Much longer than the short wait of a drop, during which a publisher waits behind it.
    const hosts = database.sql({ max: 8, connection: { lock_timeout: 20_000 } })
    let isOver = false
    const publishing = Array.from({ length: 8 }, async (_, number) => {
      await sleep(number * 20)
      while (!isOver) {
        await hosts.begin(async (tx) => {
          await tx`select business_api.publish_event('org_other', 'project.completed', '{}'::jsonb)`
          await sleep(150)
        })
      }
    })
    await sleep(300)
    let dropped = 0
    for (let tries = 0; tries < 5 && dropped === 0; tries++) {
      await letTimePass()
      dropped = (await purge()).days
    }
    isOver = true
    await Promise.all(publishing)
    await hosts.end()
    assert.deepEqual([dropped, await isThere(name)], [1, false])
  })

  test('is dropped although a dozen older days are retained', async () => {
    for (let age = 60; age > 48; age--) {
      const { ids } = await sql.begin((tx) => fillDay(ago(age), 1, tx))
      await recover(ids)
    }
    const { name } = await sql.begin((tx) => fillDay(ago(40), 1, tx))
    // One part per minute, like a loop when a part has left nothing to do.
    for (let minute = 0; minute < 15 && (await isThere(name)); minute++) {
      await purge()
      await sql`update business_api.event_days set checked_at = checked_at - interval '1 minute'`
    }
    assert.equal(await isThere(name), false)
    const [retained] = await sql`select count(retained_for)::int as count from business_api.event_days`
    assert.equal(retained?.count, 12)
  })

  test("isn't dropped under repeatable read while it has rows, because a redelivery might be invisible", async () => {
    const { name } = await fillDay(ago(40), 1)
    const purgeStrictly = () =>
      sql.begin('isolation level repeatable read', async (tx) => {
        const [row] = await tx`select business_api.continue_purge(${RETENTION_MS}, 1000, 1) as report`
        return row?.report.days
      })
    assert.equal(await purgeStrictly(), 0)
    assert.equal(await isThere(name), true)
    await sql`truncate ${sql(`business_api.events_${name}`)}`
    await letTimePass()
    assert.equal(await purgeStrictly(), 1)
  })
})

test('days are dropped while others publish, claim, write results, list and redeliver: nothing is lost, and everything continues', async () => {
  const LIMIT = { failures: 1_000_000, failingMs: 1e12 }
  let isOver = false
  let delivered = 0
  let published = 0
  const rounds: number[] = []
  const repeat = async (work: (round: number) => Promise<unknown>): Promise<void> => {
    const loop = rounds.push(0) - 1
    for (let round = 0; !isOver; round++) {
      await work(round)
      rounds[loop] = round + 1
    }
  }
  const untilAllGoOn = async (): Promise<void> => {
    const before = [...rounds]
    await until('all go on', () => rounds.every((round, loop) => round >= (before[loop] ?? 0) + 5), 60_000)
  }
  const days: { name: string; ids: readonly string[] }[] = []
  const recovered = new Set<string>()
  const loops = [
    repeat(async () => {
      await sql`select business_api.publish_event(${ORGANIZATION}, 'project.completed', '{}'::jsonb)`
      published++
    }),
    repeat(async (round) => {
      const token = `race_${round}`
      const { deliveries } = await store.deliveries.claim({
        ...{
          token,
          isRepeat: false,
          limit: 20,
          maxBytes: 1_000_000,
          scanLimit: 10,
          cursor: null,
          leaseMs: 60_000,
        },
        capacity: { endpoint: 20, organization: 20, endpoints: {}, organizations: {} },
        maxAttempts: 5,
      })
      const { lost } = await store.deliveries.writeResults(
        deliveries.map(({ id }) => ({
          ...{ organizationId: ORGANIZATION, deliveryId: id, token, outcome: 'delivered' as const },
          ...{
            reason: null,
            isGone: false,
            delayMs: 0,
            backOffMs: null,
            startedAgoMs: 2,
            endedAgoMs: 1,
            durationMs: 1,
          },
          ...{ dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null, status: 200, error: null },
          bodyExcerpt: '',
        })),
        LIMIT,
      )
      assert.deepEqual(lost, [])
      delivered += deliveries.length
    }),
    repeat(() => store.deliveries.list(ORGANIZATION, {}, 50, null)),
    repeat(async () => {
      await sleep(2)
      const day = days[Math.floor(Math.random() * days.length)]
      const id = day?.ids[Math.floor(Math.random() * day.ids.length)]
      if (id === undefined) return
      for (const one of await recover([id])) recovered.add(one)
    }),
    repeat(async () => {
      await letTimePass()
      await purge()
      await sleep(10)
    }),
  ]
  // Finished deliveries of the old days are also deleted row by row, unless a day is dropped first.
  for (let age = 40; age < 50; age++) {
    // In one transaction, because an empty old day would be dropped immediately.
    days.push(await sql.begin((tx) => fillDay(ago(age), 50, tx)))
    await untilAllGoOn()
  }
  await untilAllGoOn()
  isOver = true
  await Promise.all(loops)
  const halves = await sql`
    select d.id from business_api.open_deliveries d
    where not exists (select 1 from business_api.events e where e.organization_id = d.organization_id and e.id = d.event_id)`
  assert.deepEqual([...halves], [], 'open deliveries without an event')
  const [rows] =
    await sql`select count(*)::int as count from business_api.events where delivery_prefix >= ${idPrefixAt('dlv', ago(1).getTime())}`
  assert.equal(rows?.count, published)
  assert.ok(delivered > 50 && recovered.size > 0, `${delivered} delivered, ${recovered.size} recovered`)
  const [left] = await sql`
    select count(*)::int as count from business_api.event_days where ends_at < now() - interval '30 days' and dropped_at is null`
  assert.ok(left?.count < days.length, 'days were dropped')
})

/** Adds an event to the log without using the store. */
async function insertEvent(id: string, publishedAt: Date): Promise<void> {
  await makeDay(sql, publishedAt)
  await sql`
    insert into business_api.events (organization_id, id, type, body, delivery_prefix)
    values (
      ${ORGANIZATION}, ${id}, 'project.completed', ${`body of ${id}`}, ${`${idPrefixAt('dlv', publishedAt.getTime())}00000000000`}
    )`
}

describe('The event log', () => {
  test('is in the order of publishing across all days', async () => {
    const events: readonly [id: string, daysAgo: number][] = [
      ['newest', 0.1],
      ['second', 1],
      ['z-third', 2],
      ['a-fourth', 2.001],
      ['fifth', 3.5],
      ['sixth', 9.5],
      ['oldest', 20],
    ]
    const now = Date.now()
    for (const [id, daysAgo] of events.toReversed()) await insertEvent(id, new Date(now - daysAgo * DAY_MS))
    const newestFirst = events.map(([id]) => id)
    const at = (daysAgo: number): string => new Date(now - daysAgo * DAY_MS).toISOString()
    const idsOf = (list: readonly { readonly id: string }[]): string[] => list.map(({ id }) => id)
    for (const type of [undefined, 'project.completed']) {
      for (const limit of [1, 3]) {
        const listed: string[] = []
        let before: string | null = null
        do {
          const page: Awaited<ReturnType<typeof store.eventLog.list>> = await store.eventLog.list(
            ORGANIZATION,
            type === undefined ? {} : { type },
            limit,
            before,
          )
          listed.push(...idsOf(page.events))
          before = page.next
        } while (before !== null)
        assert.deepEqual(listed, newestFirst)
      }
    }
    const period = await store.eventLog.list(ORGANIZATION, { since: at(3.5), until: at(1) }, 10, null)
    assert.deepEqual(idsOf(period.events), ['z-third', 'a-fourth', 'fifth'])
    const rest = await store.eventLog.list(ORGANIZATION, { since: at(3.5), until: at(2) }, 10, 'a-fourth')
    assert.deepEqual(idsOf(rest.events), ['fifth'])
    const notes = await store.eventLog.listSince(ORGANIZATION, at(9.5), 10, null)
    assert.deepEqual(idsOf(notes), newestFirst.slice(0, 6).reverse())
    const later = await store.eventLog.listSince(ORGANIZATION, at(9.5), 10, notes[1]?.place ?? null)
    assert.deepEqual(idsOf(later), newestFirst.slice(0, 4).reverse())
  })

  test('finds every event by its id: generated by the library, by the host, and by the host in the library’s format', async () => {
    const old = await fillDay(ago(20), 1)
    const ofOwn = `evt_${old.name}_1`
    const late = `${idPrefixAt('evt', ago(15).getTime())}0000000000000001`
    const known = `${idPrefixAt('evt', ago(14).getTime())}0000000000000001`
    const made = `${idPrefixAt('evt', ago(10).getTime())}0000000000000001`
    await insertEvent(late, ago(3))
    await insertEvent(known, ago(4))
    await sql`
      insert into business_api.event_ids (organization_id, id, delivery_prefix)
      select organization_id, id, delivery_prefix from business_api.events where id = ${known}`
    await insertEvent(made, ago(10))
    // An id from before the days has no row in event_ids, or that of a second publishing that wrote no event.
    await insertEvent('before-days', ago(12))
    await insertEvent('twice', ago(12.5))
    await sql`
      insert into business_api.event_ids (organization_id, id, delivery_prefix)
      values (${ORGANIZATION}, 'twice', ${`${idPrefixAt('dlv', Date.now())}00000000000`})`
    const ids = [ofOwn, late, known, made, 'before-days', 'twice']
    for (const id of ids) assert.equal((await store.eventLog.get(ORGANIZATION, id))?.id, id)
    assert.deepEqual((await store.eventLog.get(ORGANIZATION, ofOwn))?.deliveries, { delivered: 1 })
    const read = await store.eventLog.read(ORGANIZATION, [...ids, ...ids, 'unknown'])
    assert.deepEqual(read.map(({ id }) => id).sort(), [...ids].sort())
    assert.deepEqual(await store.eventLog.read('org_other', ids), [])
    const deliveries = await store.deliveries.list(ORGANIZATION, { eventId: ofOwn }, 10, null)
    assert.deepEqual(
      deliveries.map(({ id }) => id),
      old.ids,
    )
  })
})

test('Finished deliveries are listed latest first, for every filter, from no more days than the page needs', async () => {
  const days = [(await fillDay(ago(10), 5)).ids, (await fillDay(ago(20), 5)).ids]
  await sql`update business_api.finished_deliveries set endpoint_id = 'we_2' where id like '%3_____'`
  await sql`update business_api.finished_deliveries set state = 'skipped' where id like '%4_____'`
  const newestFirst = (ids: readonly string[]): string[] => ids.toSorted().reverse()
  for (const [filter, leftOut] of [
    [{}, ''],
    [{ states: ['delivered', 'skipped'] }, ''],
    [{ endpointId: 'we_1' }, '3'],
    [{ states: ['delivered'], type: 'project.completed' }, '4'],
    [{ endpointId: 'we_1', type: 'project.completed' }, '3'],
  ] as const) {
    const expected = days.map((ids) =>
      newestFirst(ids.filter((id) => leftOut === '' || id.at(-6) !== leftOut)),
    )
    const list = async (limit: number): Promise<string[]> => {
      const rows = await sql<{ id: string }[]>`
        select id from business_api.list_finished_deliveries(
          ${ORGANIZATION}, ${JSON.stringify(filter)}::text::jsonb, '', '~', ${limit}, false
        )`
      return newestFirst(rows.map(({ id }) => id))
    }
    const few = await list(2)
    assert.deepEqual(few.slice(0, 2), expected[0]?.slice(0, 2))
    assert.ok(
      few.every((id) => expected[0]?.includes(id)),
      'of one day',
    )
    assert.deepEqual((await list(7)).slice(0, 7), expected.flat().slice(0, 7))
  }
})

describe('Days are read one at a time', () => {
  /** Returns the days whose indexes `work` has searched, by table. */
  async function daysReadBy(
    work: (tx: ISql) => Promise<unknown>,
  ): Promise<Record<string, readonly string[]>> {
    const one = database.sql({ max: 1 })
    const read: Record<string, string[]> = {}
    await one.begin(async (tx) => {
      const rows = () => tx<{ name: string; scans: number }[]>`
        select relname as name, (seq_scan + coalesce(idx_scan, 0))::int as scans
        from pg_stat_xact_user_tables where schemaname = 'business_api' and relname ~ '_[0-9]{8}$' order by 1`
      const before = new Map((await rows()).map(({ name, scans }) => [name, scans]))
      await work(tx)
      for (const { name, scans } of await rows()) {
        if (scans === (before.get(name) ?? 0)) continue
        const table = name.slice(0, -9)
        read[table] = [...(read[table] ?? []), name.slice(-8)]
      }
    })
    await one.end()
    return read
  }

  test('by claims, when reading claimed deliveries, and when writing results', async () => {
    const old = await fillDay(ago(20), 5)
    await fillDay(ago(10), 5)
    await recover(old.ids)
    const result = {
      ...{
        organizationId: ORGANIZATION,
        deliveryId: old.ids[0],
        token: 't',
        outcome: 'delivered',
        reason: null,
      },
      ...{
        isGone: false,
        delayMs: 0,
        backOffMs: null,
        startedAgoMs: 2,
        endedAgoMs: 1,
        durationMs: 1,
        status: 200,
        bodyExcerpt: '',
      },
    }
    const claimed = await daysReadBy(
      (tx) => tx`
        select business_api.claim_deliveries('t', false, 100, 1000000, 100, null, null, 60000, 5, 100, 100, '{}', '{}')`,
    )
    assert.deepEqual(claimed, { events: [old.name] })
    const written = await daysReadBy(
      (tx) => tx`select business_api.write_attempt_results(${tx.json([result])}, 50, 1000)`,
    )
    assert.deepEqual(written, {})
  })

  test('when looking up a delivery', async () => {
    const { name, ids } = await fillDay(ago(20), 5)
    await fillDay(ago(10), 5)
    const [plan] = await sql`
      explain (format text) select * from business_api.finished_deliveries
      where organization_id = ${ORGANIZATION} and id = ${ids[0] ?? ''}`
    assert.match(String(plan?.['QUERY PLAN']), new RegExp(`finished_deliveries_${name}`))
  })

  test('when looking up an event, even the first one of a session, and its deliveries', async () => {
    const own = await fillDay(ago(20), 5)
    const made = `${idPrefixAt('evt', ago(10).getTime())}0000000000000001`
    await insertEvent(made, ago(10))
    const { name } = await fillDay(ago(10), 5)
    for (const [id, day] of [
      [`evt_${own.name}_1`, own.name],
      [made, name],
    ] as const) {
      const read = await daysReadBy(async (tx) => {
        const [event] = await tx`
          select event.id, event.delivery_prefix from business_api.find_events(${ORGANIZATION}, array[${id}]) as event`
        assert.equal(event?.id, id)
        await tx`
          select * from business_api.deliveries_of_events(${ORGANIZATION}, array[${id}], array[${event.delivery_prefix}::text])`
        const [locked] = await tx`
          select count(distinct c.relname)::int as days from pg_locks l join pg_class c on c.oid = l.relation
          where l.pid = pg_backend_pid() and c.relname ~ '^(events|finished_deliveries)_[0-9]{8}$'`
        assert.equal(locked?.days, 2)
      })
      assert.deepEqual(read, { events: [day], finished_deliveries: [day] })
    }
  })

  test('by a page of the delivery log: latest first, and no more than the page needs', async () => {
    const old = await fillDay(ago(20), 5)
    const young = await fillDay(ago(10), 60)
    const lines = await sql`
      explain (analyze, costs off, timing off, summary off, format text)
      select id from business_api.finished_deliveries
      where organization_id = ${ORGANIZATION} and state = 'delivered' and endpoint_id = 'we_1'
        and state in ('delivered', 'failed', 'skipped', 'cancelled')
      order by id desc limit 50`
    const text = lines.map((line) => line['QUERY PLAN']).join('\n')
    assert.doesNotMatch(text, /Sort|Merge Append/)
    assert.match(text, new RegExp(`finished_deliveries_${young.name}[^\n]*actual rows=50`))
    assert.match(text, new RegExp(`finished_deliveries_${old.name}[^\n]*never executed`))
  })
})
