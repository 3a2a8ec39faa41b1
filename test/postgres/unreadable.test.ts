import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createIds } from '../../lib/base/ids.ts'
import { createDeliveryLoop, type DeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import type { Delivery } from '../../lib/webhooks/deliveries.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import type { WebhookRequest } from '../../lib/webhooks/webhook-sender.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// Rows that PostgreSQL can't return at all or not in time, and rows that are much larger than events can be. A row with
// damaged TOAST data only fails when it's read, and so does the poisoned row here.

const STATEMENT_TIMEOUT_MS = 1000
const POISON = 'evt_poison'

describe('A delivery loop on PostgreSQL', () => {
  let database: TestDatabase
  let sql: Sql
  let store: PostgresStore
  /** Has the default timeout, for the host's own calls. */
  let patient: PostgresStore
  let loop: DeliveryLoop
  let sent: { eventId: string; at: number }[] = []
  let errors: unknown[] = []
  const ids = createIds()

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
    store = createPostgresStore(database.url, { statementTimeoutMs: STATEMENT_TIMEOUT_MS })
    patient = createPostgresStore(database.url)
  })
  after(async () => {
    await Promise.all([store.close(), patient.close()])
    await database.drop()
  })
  beforeEach(() => {
    sent = []
    errors = []
    loop = createLoop(store)
  })
  afterEach(() => loop.stop({ timeoutMs: 0 }))

  function createLoop(from: PostgresStore): DeliveryLoop {
    const sender = {
      async send({ headers }: WebhookRequest) {
        sent.push({ eventId: headers['X-SERVICE-Event-Id'] ?? '', at: performance.now() })
        return { status: 200, error: null, bodyExcerpt: '', durationMs: 1 }
      },
      async close() {},
    }
    const options = {
      logger: false,
      pollIntervalMs: 20,
      onError: (error: unknown) => errors.push(error),
    } as const
    return createDeliveryLoop(from, sender, options)
  }

  let organizations = 0
  const newOrganization = (): string => `org_${++organizations}`

  async function addEndpoint(organizationId: string): Promise<void> {
    const endpoint = {
      id: ids('we'),
      url: 'https://subscriber.test/hook',
      ...ENDPOINT_DEFAULTS,
      headerNames: [],
      sealedHeaders: null,
      createdAt: toTimestamp(Date.now()),
      sealedSecret: 'plain.whsec_test',
    }
    await store.endpoints.insert({ organizationId, limit: 50, endpoint, entry: newEntry() })
  }

  async function publish(organizationId: string, id = ids('evt')): Promise<string> {
    await patient.events.publish(organizationId, { id, type: 'project.completed', body: '{}' })
    return id
  }

  /**
   * Publishes an event every 50 ms until a condition is met. Returns how long each one took to arrive, in milliseconds.
   */
  async function publishUntil(
    organizationId: string,
    isDone: () => Promise<boolean>,
    timeoutMs: number,
  ): Promise<readonly number[]> {
    const published = new Map<string, number>()
    const endsAt = performance.now() + timeoutMs
    while (!(await isDone())) {
      assert.ok(performance.now() < endsAt, `it takes too long: ${sent.length} sent, ${errors}`)
      published.set(await publish(organizationId), performance.now())
      await sleep(50)
    }
    await until(() => [...published.keys()].every((id) => sent.some(({ eventId }) => eventId === id)))
    return [...published].map(([id, at]) => (sent.find(({ eventId }) => eventId === id)?.at ?? 0) - at)
  }

  async function deliveryOf(organizationId: string, id: string): Promise<Delivery | undefined> {
    const found = await patient.deliveries.list(organizationId, {}, 1000, null)
    return found.find(({ eventId }) => eventId === id)
  }

  /** @param failure PL/pgSQL statements to run instead of returning the body of the poisoned event */
  async function poison(failure: string): Promise<void> {
    await sql.unsafe(`
      alter function business_api.read_deliveries(text[], text[]) rename to read_stored_deliveries;
      create function business_api.read_deliveries(organizations text[], ids text[]) returns json language plpgsql as $$
      begin
        if exists (
          select 1 from unnest($1, $2) as claim (organization_id, id)
            join business_api.open_deliveries d on d.organization_id = claim.organization_id and d.id = claim.id
           where d.event_id = '${POISON}'
        ) then
          ${failure}
        end if;
        return business_api.read_stored_deliveries($1, $2);
      end $$`)
  }

  async function heal(): Promise<void> {
    await sql.unsafe(`
      drop function business_api.read_deliveries(text[], text[]);
      alter function business_api.read_stored_deliveries(text[], text[]) rename to read_deliveries`)
  }

  const failures = {
    'raises an error':
      "raise exception 'missing chunk number 0 for toast value 16432' using errcode = 'XX001';",
    'takes longer than a statement may': 'perform pg_sleep(60);',
  }

  for (const [what, failure] of Object.entries(failures)) {
    test(`sets a row aside whose body ${what}, and delivers all other events in the meantime`, async () => {
      const [poisoned, other] = [newOrganization(), newOrganization()]
      await addEndpoint(poisoned)
      await addEndpoint(other)
      await publish(poisoned, POISON)
      const behind = await publish(poisoned)
      await poison(failure)
      try {
        loop.start()
        const isSetAside = async (): Promise<boolean> =>
          (await deliveryOf(poisoned, POISON))?.state === 'failed'
        const latencies = await publishUntil(other, isSetAside, 60_000)
        assert.equal((await deliveryOf(poisoned, POISON))?.reason, 'unreadable')
        await until(() => sent.some(({ eventId }) => eventId === behind))
        assert.ok(errors.length > 0 && errors.length < 12, `${errors.length} errors`)
        // The first claim includes the poisoned row and may hang until the statement timeout, but no later claim does.
        const late = latencies.filter((ms) => ms > STATEMENT_TIMEOUT_MS * 3)
        assert.deepEqual(late, [], `${latencies.length} events`)
      } finally {
        await heal()
      }
      assert.equal((await store.endpoints.list(poisoned))[0]?.failures, 0)
      const { id = '' } = (await deliveryOf(poisoned, POISON)) ?? {}
      const recovery = { organizationId: poisoned, ids: [id], filter: {}, limit: 1, entry: newEntry() }
      assert.deepEqual(await store.deliveries.recover(recovery), [id])
      await until(() => sent.some(({ eventId }) => eventId === POISON))
      await sql`delete from business_api.open_deliveries where event_id = ${POISON}`
      await sql`delete from business_api.finished_deliveries where event_id = ${POISON}`
      await sql`delete from business_api.events where id = ${POISON}`
    })
  }

  test('delivers existing rows of 16 MB without delaying other organizations', async () => {
    const [large, other] = [newOrganization(), newOrganization()]
    const ENDPOINTS = 4
    const EVENTS = 2
    for (let number = 0; number < ENDPOINTS; number++) await addEndpoint(large)
    await addEndpoint(other)
    await sql`
      insert into business_api.events (organization_id, id, type, body, delivery_prefix)
      select
        ${large}, 'evt_large_' || number, 'project.completed', repeat('x', 16 * 1024 * 1024),
        left(business_api.new_id('dlv'), -4)
      from generate_series(1, ${EVENTS}::int) as number`
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      select
        ${large}, event.delivery_prefix || lpad((row_number() over ())::text, 4, '0'), event.id, event.type, endpoint.id, now()
      from business_api.events event
      join business_api.webhook_endpoints endpoint on endpoint.organization_id = ${large}
      where event.organization_id = ${large}`
    loop = createLoop(patient)
    loop.start()
    const isDelivered = async (): Promise<boolean> =>
      sent.filter(({ eventId }) => eventId.startsWith('evt_large_')).length === ENDPOINTS * EVENTS
    const latencies = await publishUntil(other, isDelivered, 60_000)
    assert.deepEqual(errors, [])
    const median = latencies.toSorted((one, another) => one - another)[Math.floor(latencies.length / 2)] ?? 0
    assert.ok(median < 1000, `${median} ms`)
  })
})

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

async function until(isSo: () => Promise<boolean> | boolean): Promise<void> {
  const endsAt = performance.now() + 15_000
  while (!(await isSo())) {
    assert.ok(performance.now() < endsAt, 'waited in vain')
    await sleep(20)
  }
}
