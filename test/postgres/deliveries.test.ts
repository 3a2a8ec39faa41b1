import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import type { Database } from '../../lib/postgres/connection/database.ts'
import { createDeliveryStore } from '../../lib/postgres/deliveries.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import type { AttemptResult, ClaimRef } from '../../lib/webhooks/claims.ts'
import type { DeliveryStore } from '../../lib/webhooks/deliveries.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import { toEventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ageEvents, TODAY, turnOffAutovacuum } from '../_days.ts'
import { finishDeliveries, reopenDeliveries } from '../_deliveries.ts'
import { organizationOf } from '../_many-deliveries.ts'
import { useDatabase } from '../_use-database.ts'
import { untilWaiting } from '../_waiting.ts'

// Deliveries in PostgreSQL: locks, and the rows that a claim reads.

const DAY_MS = 86_400_000

describe('deliveries in PostgreSQL', () => {
  let sql: Sql
  let store: PostgresStore
  useDatabase((used) => {
    ;({ sql, store } = used)
  })

  const addEndpoint = (organizationId: string) => insertEndpoint(store, organizationId)

  const publish = (organizationId: string, id: string): Promise<void> =>
    store.events.publish(organizationId, toEventRecord(id, 'project.completed', {}, Date.now()))

  const claim = (token: string) =>
    store.deliveries.claim({
      token,
      isRepeat: false,
      limit: 100,
      maxBytes: 4 * 1024 * 1024,
      capacity: { endpoint: 10, organization: 10, endpoints: {}, organizations: {} },
      scanLimit: 200,
      cursor: null,
      leaseMs: 30_000,
      maxAttempts: 5,
    })

  function failure(organizationId: string, deliveryId: string, token: string) {
    return {
      organizationId,
      deliveryId,
      token,
      outcome: 'retry' as const,
      reason: null,
      isGone: false,
      delayMs: 3_600_000,
      backOffMs: null,
      startedAgoMs: 2,
      endedAgoMs: 1,
      durationMs: 1,
      dnsMs: null,
      connectMs: null,
      tlsMs: null,
      firstByteMs: null,
      status: 500,
      error: null,
      bodyExcerpt: '',
    }
  }

  const LIMIT = { failures: 50, failingMs: 1000 }

  test("a claim doesn't read endpoints without due retries, because thousands of them would take too long", async () => {
    for (const id of ['org_a', 'org_b']) {
      await addEndpoint(id)
      await publish(id, `evt_${id}`)
    }
    const { deliveries } = await claim('first')
    await store.deliveries.writeResults(
      deliveries.map(({ organizationId, id }) => failure(organizationId, id, 'first')),
      LIMIT,
    )
    const [scanned] = await sql`
      select count(*)::int from business_api.open_deliveries where claim_token is null and not is_backing_off`
    assert.equal(deliveries.length, 2)
    assert.equal(scanned?.count, 0)
    await sql`update business_api.open_deliveries set due_at = now() - interval '1 second' where is_backing_off`
    assert.equal((await claim('second')).deliveries.length, 2)
  })

  test("500 due retries of a paused endpoint don't hide a retry of another organization", async () => {
    for (const [organizationId, state, count, hours] of [
      ['org_paused', 'paused', 500, 2],
      ['org_retrying', 'enabled', 1, 1],
    ] as const) {
      await addEndpoint(organizationId)
      await sql`update business_api.webhook_endpoints set state = ${state} where organization_id = ${organizationId}`
      await publish(organizationId, `evt_${organizationId}`)
      await sql`
        with published as (
          delete from business_api.open_deliveries where organization_id = ${organizationId} returning id, created_at
        )
        insert into business_api.open_deliveries
          (organization_id, id, event_id, type, endpoint_id, due_at, created_at, attempts, is_backing_off)
        select ${organizationId}, left(id, 25) || lpad(number::text, 5, '0'), ${`evt_${organizationId}`}, 'project.completed',
          ${`we_${organizationId}`}, now() - ${hours} * interval '1 hour', created_at, 1, true
        from published, generate_series(1, ${count}::int) as number`
    }
    const found: string[] = []
    for (const token of ['retries_1', 'retries_2', 'retries_3']) {
      const { deliveries } = await claim(token)
      found.push(...deliveries.map(({ organizationId }) => organizationId))
    }
    assert.deepEqual(
      found.filter((id) => id === 'org_paused' || id === 'org_retrying'),
      ['org_retrying'],
    )
    await sql`delete from business_api.open_deliveries where organization_id = 'org_paused'`
  })

  test("a lock on an endpoint's row doesn't prevent attempts from being recorded", async () => {
    await addEndpoint('org_held')
    await publish('org_held', 'evt_held')
    const [delivery] = (await claim('held')).deliveries
    assert.ok(delivery)
    await sql.begin(async (tx) => {
      await tx`select from business_api.webhook_endpoints where organization_id = 'org_held' for update`
      await store.deliveries.writeResults([failure('org_held', delivery.id, 'held')], LIMIT)
    })
    const details = await store.deliveries.get('org_held', delivery.id)
    assert.deepEqual([details?.state, details?.attemptLog.length], ['pending', 1])
  })

  test('a retry that is sent again while its first call runs is one retry, and both calls return the delivery', async () => {
    const organizationId = 'org_retried'
    await addEndpoint(organizationId)
    await publish(organizationId, 'evt_retried')
    const { deliveries } = await claim('t_retried')
    const { id = '' } = deliveries.find((one) => one.organizationId === organizationId) ?? {}
    await store.deliveries.writeResults([failure(organizationId, id, 't_retried')], LIMIT)
    const entry = { ...newEntry(), subjectId: id }
    const request = { organizationId, ids: [id], filter: { states: ['pending'] }, limit: 1, entry } as const
    let calls: ReturnType<typeof store.deliveries.recover>[] = []
    await sql.begin(async (tx) => {
      await tx`select from business_api.open_deliveries where id = ${id} for update`
      calls = [store.deliveries.recover(request), store.deliveries.recover(request)]
      await untilWaiting(sql, 2)
    })
    assert.deepEqual(await Promise.all(calls), [[id], [id]])
    const audit = await store.audit.list(organizationId, { subjectId: id }, 10, null)
    assert.deepEqual(
      audit.map(({ details }) => details.recovered),
      [1],
    )
  })

  test('a delivery that is redelivered during a purge is kept', async () => {
    await addEndpoint('org_old')
    await publish('org_old', 'evt_old')
    await finishDeliveries(sql, 'failed', sql`organization_id = 'org_old'`)
    await ageEvents(sql, 31 * 86_400_000, sql`event.organization_id = 'org_old'`)
    const purge = () => store.deliveries.purge({ eventsAfterMs: 30 * 24 * 60 * 60 * 1000, limit: 100 })
    await sql.begin(async (tx) => {
      await reopenDeliveries(tx, tx`organization_id = 'org_old'`)
      assert.equal((await purge()).events, 0, 'while it is not committed')
    })
    assert.equal((await purge()).events, 0, 'once it is')
    assert.equal((await store.deliveries.list('org_old', {}, 10, null)).length, 1)
    await finishDeliveries(sql, 'delivered', sql`organization_id = 'org_old'`)
    assert.equal((await purge()).events, 1)
  })

  test('a delivery is in one place while claims, results, recoveries, cancellations and purges race', async () => {
    const organizationId = 'org_race'
    await addEndpoint(organizationId)
    const COUNT = 20
    for (let event = 0; event < COUNT; event++) await publish(organizationId, `evt_race_${event}`)
    const endsAt = Date.now() + 2000
    const again = async (work: () => Promise<unknown>): Promise<void> => {
      while (Date.now() < endsAt) await work()
    }
    const list = () => store.deliveries.list(organizationId, {}, 100, null)
    const ids = (await list()).map(({ id }) => id)
    let claims = 0
    let finished = 0
    const attempt = async (): Promise<void> => {
      const token = `race_${claims++}`
      const { deliveries } = await claim(token)
      const own = deliveries.filter((delivery) => delivery.organizationId === organizationId)
      finished += own.length
      const results = own.map(({ id }, place) => ({
        ...failure(organizationId, id, token),
        outcome: place % 2 === 0 ? ('delivered' as const) : ('retry' as const),
        delayMs: 0,
      }))
      await store.deliveries.writeResults(results, { failures: 1_000_000, failingMs: 1e12 })
    }
    await Promise.all([
      again(attempt),
      again(attempt),
      again(() =>
        store.deliveries.recover({ organizationId, ids, filter: {}, limit: 100, entry: newEntry() }),
      ),
      again(() => {
        const deliveryId = ids[Math.floor(Math.random() * COUNT)] ?? ''
        return store.deliveries.cancel({ organizationId, deliveryId, entry: newEntry() })
      }),
      again(() => store.deliveries.purge({ eventsAfterMs: 3_600_000, limit: 100 })),
      again(async () =>
        assert.deepEqual(
          (await list()).map(({ id }) => id),
          ids,
        ),
      ),
    ])
    assert.ok(finished > COUNT, 'deliveries were sent and recovered again and again')
    const [places] = await sql`
      select
        (select count(*)::int from business_api.open_deliveries where organization_id = ${organizationId}) as open,
        (select count(*)::int from business_api.finished_deliveries where organization_id = ${organizationId}) as finished`
    assert.equal(places?.open + places?.finished, COUNT)
  })

  test('a session that listed a type while the tables were empty reads each event by key in full tables', async () => {
    const fresh = await createTestDatabase()
    const tables = fresh.sql({ max: 1 })
    const lists = createPostgresStore(fresh.url, { maxConnections: 1 })
    const list = (type: string) => lists.deliveries.list(organizationOf(0), { type }, 10, null)
    await tables.unsafe(
      'analyze business_api.events, business_api.open_deliveries, business_api.finished_deliveries',
    )
    for (let times = 0; times < 10; times++) await list('client.created')
    await turnOffAutovacuum(tables, 'events', 'finished_deliveries')
    for (let times = 0; times < 10; times++) await list('client.created')
    await insertDelivered(tables, 20_000)
    assert.deepEqual(await list('client.created'), [], 'within the 5 s of a statement')
    assert.equal((await list('project.completed')).length, 10)
    await lists.close()
    await fresh.drop()
  })
})

describe('A session that planned its statements with a single open delivery, and now has thousands of deliveries and events', () => {
  // The waiting deliveries come first in key order.
  const PAUSED = 'org_a'
  const BUSY = 'org_b'
  const WAITING = 5000
  const COUNT = 50
  let database: TestDatabase
  let sql: Sql
  let deliveries: DeliveryStore

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql({ max: 1 })
    deliveries = deliveriesOf(sql)
    await turnOffAutovacuum(sql, 'open_deliveries', 'events')
    const store = createPostgresStore(database.url)
    for (const organizationId of [PAUSED, BUSY]) await insertEndpoint(store, organizationId)
    await store.close()
    await sql.unsafe('vacuum analyze business_api.events')
    await fill(1)
    await sql.unsafe('vacuum analyze business_api.open_deliveries')
    for (const verb of Object.values(verbs)) {
      await fill(1)
      await verb()
    }
    await sql`update business_api.webhook_endpoints set state = 'paused' where organization_id = ${PAUSED}`
    await publish(PAUSED, WAITING)
    // For the busy organization, on the day of its deliveries.
    await sql`
      insert into business_api.events (organization_id, id, type, body, delivery_prefix)
      select ${BUSY}, 'evt_early_' || number, 'project.completed', '{}',
             ${TODAY} || lpad(number::text, 16, '0')
      from generate_series(1, ${WAITING}::int) as number`
  })
  after(() => database.drop())

  const publish = (organizationId: string, count: number) => sql`
    select count(business_api.publish_event(${organizationId}, 'project.completed', '{}'::jsonb)) from generate_series(1, ${count}::int)`

  /** Publishes until this many deliveries are due. */
  async function fill(count: number): Promise<void> {
    const [open] = await sql`
      select count(*)::int as count from business_api.open_deliveries where organization_id = ${BUSY}`
    await publish(BUSY, count - open?.count)
  }

  async function claim(leaseMs = 60_000) {
    const token = randomUUID()
    const claims = await deliveries.claim({
      token,
      isRepeat: false,
      limit: 100,
      maxBytes: 4 * 1024 * 1024,
      capacity: { endpoint: 100, organization: 100, endpoints: {}, organizations: {} },
      scanLimit: 1000,
      cursor: null,
      leaseMs,
      maxAttempts: 1000,
    })
    return claims.deliveries.map(({ organizationId, id }) => ({ organizationId, deliveryId: id, token }))
  }

  const resultOf = (
    claimed: ClaimRef,
    outcome: AttemptResult['outcome'],
    delayMs: number,
  ): AttemptResult => ({
    ...claimed,
    outcome,
    reason: null,
    isGone: false,
    delayMs,
    backOffMs: null,
    startedAgoMs: 2,
    endedAgoMs: 1,
    durationMs: 1,
    dnsMs: null,
    connectMs: null,
    tlsMs: null,
    firstByteMs: null,
    status: outcome === 'delivered' ? 200 : 500,
    error: null,
    bodyExcerpt: '',
  })
  const limit = { failures: 1000, failingMs: DAY_MS }
  const write = (claims: readonly ClaimRef[], outcome: AttemptResult['outcome'], delayMs = 0) =>
    deliveries.writeResults(
      claims.map((claimed) => resultOf(claimed, outcome, delayMs)),
      limit,
    )

  /** The calls of loops. Each returns the number of deliveries it has found. */
  const verbs = {
    'read() and release()': async () => {
      const claims = await claim()
      const read = await deliveries.read(claims)
      await deliveries.release(claims)
      return read.length
    },
    'writeResults() of retries, which claim() finds': async () => {
      const claims = await claim()
      await write(claims, 'retry', 1)
      await sleep(10)
      const again = await claim()
      await deliveries.release(again)
      return again.length
    },
    'claim() after expired leases': async () => {
      await claim(1)
      await sleep(10)
      const claims = await claim()
      await deliveries.release(claims)
      return claims.length
    },
    'writeResults() of deliveries that arrived': async () => {
      const claims = await claim()
      const { lost } = await write(claims, 'delivered')
      return claims.length - lost.length
    },
    'claim() of a disabled endpoint': async () => {
      await sql`update business_api.webhook_endpoints set state = 'disabled' where organization_id = ${BUSY}`
      await claim()
      await sql`update business_api.webhook_endpoints set state = 'enabled' where organization_id = ${BUSY}`
      const [skipped] = await sql`
        select count(*)::int as count from business_api.finished_deliveries
        where organization_id = ${BUSY} and state = 'skipped'`
      return skipped?.count - 1
    },
  }

  /** Returns how many index entries and rows of open deliveries this transaction has read. */
  async function countRead(): Promise<number> {
    const [read] = await sql`
      select sum(pg_stat_get_xact_tuples_returned(oid))::int as count from (
        select 'business_api.open_deliveries'::regclass as oid
        union all
        select indexrelid from pg_index where indrelid = 'business_api.open_deliveries'::regclass
      ) as read`
    return read?.count
  }

  /** Returns how many pages of the event indexes this transaction has read. */
  async function countPages(): Promise<number> {
    const [read] = await sql`
      select sum(pg_stat_get_xact_blocks_fetched(indexrelid))::int as count from pg_index
      where indrelid in (select relid from pg_partition_tree('business_api.events'))`
    return read?.count
  }

  for (const [name, verb] of Object.entries(verbs)) {
    test(`${name}: each delivery and each event is found by its key`, async () => {
      await fill(COUNT)
      await sql.unsafe('begin')
      const before = [await countRead(), await countPages()] as const
      const done = await verb()
      const [read, pages] = [(await countRead()) - before[0], (await countPages()) - before[1]]
      await sql.unsafe('commit')
      assert.equal(done, COUNT)
      assert.ok(read < WAITING, `${read} read for ${COUNT} deliveries`)
      assert.ok(pages < 20 * COUNT, `${pages} pages of the indexes of events for ${COUNT} deliveries`)
    })
  }
})

async function insertEndpoint({ endpoints }: PostgresStore, organizationId: string): Promise<void> {
  const shown = {
    id: `we_${organizationId}`,
    url: 'https://hooks.example/',
    ...ENDPOINT_DEFAULTS,
    headerNames: [],
    sealedHeaders: null,
  }
  await endpoints.insert({
    organizationId,
    limit: 1000,
    endpoint: { ...shown, createdAt: '2026-03-14T09:26:53.589Z', sealedSecret: 'plain.whsec_test' },
    entry: newEntry(),
  })
}

/** The calls of loops in a single session, so a test knows its plans and counters. */
function deliveriesOf(sql: Sql): DeliveryStore {
  const row: Database['row'] = async (build) => {
    const [answer] = await sql`${build(sql, sql`'x'::text`)}`.values()
    return answer as string[]
  }
  const rowFor: Database['rowFor'] = (_, build) => row(build)
  return createDeliveryStore({ row, rowFor, wakeUp: { signal() {} } } as unknown as Database)
}

/** Inserts delivered deliveries with one event each, without updating the table statistics. */
async function insertDelivered(sql: Sql, count: number): Promise<void> {
  await sql`
    with event as (
      insert into business_api.events (organization_id, id, type, body, delivery_prefix)
      select ${organizationOf(0)}, 'evt_' || lpad(number::text, 26, '0'), 'project.completed', '{}', ${TODAY} || lpad(number::text, 16, '0')
      from generate_series(1, ${count}::int) as number
    )
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, attempts, finished_at)
    select
      ${organizationOf(0)}, ${TODAY} || lpad(number::text, 16, '0'), 'evt_' || lpad(number::text, 26, '0'), 'project.completed', 'we_1',
      'delivered', now(), 1, now()
    from generate_series(1, ${count}::int) as number`
}
