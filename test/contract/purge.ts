import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PurgeReport, SharedPurgeReport } from '../../lib/webhooks/deliveries.ts'
import { toEventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from './audit-entry.ts'
import {
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  getDelivery,
  lastFailure,
  onlyDelivery,
  storeTime,
  success,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { newEvent, claim as reserveKey, type Tenant, WEEK_MS } from './tenant.ts'

/** Tests which rows a purge deletes, how many at once, and which it must keep. */
export function testPurge(harness: StoreHarness): void {
  testEvents(harness)
  testBounds(harness)
  testCursor(harness)
  testSharedPurge(harness)
  testIdempotencyKeys(harness)
  testEndpoints(harness)
  testEntries(harness)
}

const DAY_MS = 24 * 3_600_000
const EVENTS_AFTER_MS = 30 * DAY_MS

/** Creates an organization after everything that can be purged in other organizations is gone. */
async function createPurged(harness: StoreHarness, test: ContractTest): Promise<Tenant> {
  const tenant = await createPublisher(harness, test)
  // If time passes for all organizations, the events of other tests become old as well.
  await age(tenant)
  await purgeAll(tenant)
  return tenant
}

/** Makes the events of an organization old. The ids of deliveries may change. */
function age(tenant: Tenant): Promise<void> {
  return tenant.letTimePass(EVENTS_AFTER_MS + 10 * DAY_MS)
}

async function purgeAll(tenant: Tenant): Promise<void> {
  const { events, idempotencyKeys } = await purge(tenant)
  if (events + idempotencyKeys > 0) await purgeAll(tenant)
}

function purge({ store }: Tenant, limit = 1000) {
  return store.deliveries.purge({ eventsAfterMs: EVENTS_AFTER_MS, limit })
}

function testEvents(harness: StoreHarness): void {
  harness.test(
    'purge() deletes old events with all deliveries and attempts, in any final state',
    async (t) => {
      const tenant = await createPurged(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      for (let event = 0; event < 2; event++) await tenant.publish()
      const [one, other] = (await claim(tenant)).deliveries
      assert.ok(one && other, 'one or other is missing')
      await writeResults(tenant, [success(one), lastFailure(other)])
      await tenant.store.endpoints.setState({
        organizationId: tenant.id,
        endpointId,
        state: 'disabled',
        from: ['enabled'],
        entry: newEntry(),
      })
      await tenant.publish()
      await tenant.publish({ type: 'lead.created' })
      await age(tenant)
      const logged = await deliveriesOf(tenant)
      assert.equal(logged.length, 4)

      assert.equal((await purge(tenant)).events, 4)
      assert.deepEqual(await tenant.events(), [])
      assert.deepEqual(await deliveriesOf(tenant), [])
      for (const { id } of logged) assert.equal(await tenant.store.deliveries.get(tenant.id, id), null)
    },
  )

  harness.test('purge() deletes an old event without deliveries', async (t) => {
    const tenant = await createPurged(harness, t)
    await tenant.publish()
    await age(tenant)
    assert.equal((await purge(tenant)).events, 1)
    assert.deepEqual(await tenant.events(), [])
  })

  harness.test('purge() keeps an old event with a delivery that is still to be sent', async (t) => {
    const tenant = await createPurged(harness, t)
    await tenant.insertEndpoint()
    await tenant.insertEndpoint()
    const event = await tenant.publish()
    await age(tenant)
    const [one, other] = (await claim(tenant)).deliveries
    assert.ok(one && other, 'one or other is missing')
    await writeResults(tenant, [success(one)])
    assert.equal((await purge(tenant)).events, 0, 'one is in flight')
    await writeResults(tenant, [failure(other, { delayMs: 0 })])
    assert.equal((await purge(tenant)).events, 0, 'one is pending')
    assert.deepEqual(await tenant.events(), [event])
    assert.equal((await getDelivery(tenant, one.id)).attemptLog.length, 1)

    const last = await claimOne(tenant)
    assert.equal(last.body, event.body)
    await writeResults(tenant, [success(last)])
    assert.equal((await purge(tenant)).events, 1)
  })

  harness.test('purge() uses the age of the event by the store’s clock', async (t) => {
    const tenant = await createPurged(harness, t)
    await tenant.publish()
    await tenant.letTimePass(2 * DAY_MS)
    const younger = await tenant.publish()
    await tenant.letTimePass(EVENTS_AFTER_MS - DAY_MS)
    const young = await tenant.publish()
    assert.equal((await purge(tenant)).events, 1)
    const left = (await tenant.events()).map(({ id }) => id)
    assert.deepEqual(left, [younger.id, young.id])
  })

  harness.test(
    'purge() keeps an event for the whole retention, whatever its publisher’s clock says',
    async (t) => {
      const tenant = await createPurged(harness, t)
      const now = await storeTime(tenant)
      for (const days of [-40, 0, 40]) {
        const { id, type } = newEvent()
        await tenant.publish(toEventRecord(id, type, {}, now + days * DAY_MS))
      }
      assert.equal((await purge(tenant)).events, 0)
      await tenant.letTimePass(EVENTS_AFTER_MS - DAY_MS)
      assert.equal((await purge(tenant)).events, 0)
      await tenant.letTimePass(2 * DAY_MS)
      assert.equal((await purge(tenant)).events, 3)
    },
  )
}

function testBounds(harness: StoreHarness): void {
  harness.test('purge() deletes up to limit events, and reports when no event is left', async (t) => {
    const tenant = await createPurged(harness, t)
    await tenant.insertEndpoint()
    for (let event = 0; event < 5; event++) await tenant.publish()
    await age(tenant)
    const { deliveries } = await claim(tenant)
    await writeResults(
      tenant,
      deliveries.map((delivery) => success(delivery)),
    )
    const counts: number[] = []
    for (let part = 0; part < 4; part++) {
      counts.push((await purge(tenant, 2)).events)
      const left = new Set((await tenant.events()).map(({ id }) => id))
      const logged = new Set((await deliveriesOf(tenant)).map(({ eventId }) => eventId))
      assert.deepEqual(logged, left, 'an event and its deliveries go together')
    }
    assert.deepEqual(counts, [2, 2, 1, 0])
  })

  harness.test('events that cannot be deleted yet do not count towards the limit', async (t) => {
    const tenant = await createPurged(harness, t)
    const { id } = await tenant.insertEndpoint()
    const waiting = [await tenant.publish(), await tenant.publish()]
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    await tenant.publish()
    await age(tenant)
    assert.equal((await purge(tenant, 1)).events, 1)
    assert.deepEqual(await tenant.events(), waiting)
  })
}

function testCursor(harness: StoreHarness): void {
  harness.test(
    'a purge continues after the cursor, skips events that must be kept, and reports the end',
    async (t) => {
      const tenant = await createPurged(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint({ types: ['lead.created'] })
      const events = []
      for (const type of [
        'lead.created',
        'project.completed',
        'lead.created',
        'project.completed',
      ] as const) {
        events.push(await tenant.publish({ type }))
      }
      await age(tenant)
      const waiting = events.filter(({ type }) => type === 'lead.created')
      const request = { eventsAfterMs: EVENTS_AFTER_MS, limit: 1 }
      let purged = 0
      let cursor: string | null = null
      let parts = 0
      do {
        const report: PurgeReport = await tenant.store.deliveries.purge({ ...request, cursor })
        assert.ok(report.events <= 1, `${report.events} events`)
        purged += report.events
        cursor = report.next
      } while (cursor !== null && ++parts < 10)
      assert.equal(cursor, null)
      assert.equal(purged, 2)
      assert.deepEqual(await tenant.events(), waiting)

      // A later purge starts with the oldest again, because it may be possible to delete old events by now.
      await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId, entry: newEntry() })
      await claim(tenant)
      assert.equal((await purge(tenant)).events, 2)
    },
  )
}

function testSharedPurge(harness: StoreHarness): void {
  harness.test(
    'continuePurge() purges part by part until nothing is left, for all processes together',
    async (t) => {
      const tenant = await createPurged(harness, t)
      await tenant.insertEndpoint({ types: ['lead.created'] })
      const waiting = await tenant.publish({ type: 'lead.created' })
      for (let event = 0; event < 5; event++) await tenant.publish()
      await age(tenant)
      const stores = [tenant.store, tenant.secondStore]
      const reports: SharedPurgeReport[] = []
      let isDone = false
      while (!isDone && reports.length < 50) {
        const { deliveries } = stores[reports.length % 2] ?? tenant.store
        const report = await deliveries.continuePurge({
          eventsAfterMs: EVENTS_AFTER_MS,
          limit: 2,
          share: 0.5,
        })
        reports.push(report)
        assert.ok(report.events <= 4, 'of the first pass and of the second')
        isDone = report.isDone
        if (!isDone) await sleep(report.waitMs)
      }
      assert.ok(isDone, 'the purge is not done')
      assert.equal(
        reports.reduce((sum, { events }) => sum + events, 0),
        5,
      )
      assert.equal(reports.at(-1)?.lagMs, 0)
      assert.deepEqual(await tenant.events(), [waiting])
    },
  )
}

function testIdempotencyKeys(harness: StoreHarness): void {
  harness.test('purge() only deletes expired idempotency entries, up to limit', async (t) => {
    const tenant = await createPurged(harness, t)
    const kept = reserveKey()
    await kinds.projects.create(tenant, { idempotency: kept })
    await purgeAll(tenant)
    await expectReplay(tenant, kept)
    for (let key = 0; key < 2; key++) await kinds.projects.create(tenant, { idempotency: reserveKey() })
    await tenant.letTimePass(WEEK_MS + 1)
    const live = reserveKey()
    await kinds.projects.create(tenant, { idempotency: live })
    assert.equal((await purge(tenant, 2)).idempotencyKeys, 2)
    // Entries of other tests, which moved their clocks to a minute before the expiry, may have expired in the meantime.
    assert.ok((await purge(tenant, 2)).idempotencyKeys >= 1, 'the third key is left')
    await purgeAll(tenant)
    await expectReplay(tenant, live)
  })
}

async function expectReplay(tenant: Tenant, idempotency: ReturnType<typeof reserveKey>): Promise<void> {
  const { outcome } = await kinds.projects.create(tenant, { idempotency })
  assert.deepEqual(outcome, { outcome: 'replayed', reply: idempotency.reply })
}

function testEndpoints(harness: StoreHarness): void {
  harness.test(
    'purge() deletes a removed endpoint once its log is gone, and no other endpoint',
    async (t) => {
      const tenant = await createPurged(harness, t)
      const { endpoints } = tenant.store
      const kept = await tenant.insertEndpoint({ types: ['lead.created'] })
      const removed = await tenant.insertEndpoint()
      for (let event = 0; event < 2; event++) await tenant.publish()
      await age(tenant)
      const [one, other] = (await claim(tenant)).deliveries
      assert.ok(one && other, 'one or other is missing')
      await writeResults(tenant, [success(one)])
      await endpoints.remove({ organizationId: tenant.id, endpointId: removed.id, entry: newEntry() })
      await purgeTwice(tenant)
      assert.equal((await onlyDelivery(tenant)).endpointId, removed.id)
      await endpoints.insert({ organizationId: tenant.id, limit: 1000, endpoint: removed, entry: newEntry() })
      assert.deepEqual(await idsOf(tenant), [kept.id], 'a part of its log is left')

      await writeResults(tenant, [success(other)])
      await purgeTwice(tenant)
      await endpoints.insert({ organizationId: tenant.id, limit: 1000, endpoint: removed, entry: newEntry() })
      assert.deepEqual(await idsOf(tenant), [removed.id, kept.id], 'its id is free again')
    },
  )

  /** Once for the events, and once more for rows that no longer have any events. */
  async function purgeTwice(tenant: Tenant): Promise<void> {
    await purge(tenant)
    await purge(tenant)
  }

  async function idsOf({ store, id }: Tenant): Promise<string[]> {
    return (await store.endpoints.list(id)).map((endpoint) => endpoint.id)
  }
}

function testEntries(harness: StoreHarness): void {
  const details = { olderThanMs: EVENTS_AFTER_MS }

  harness.test(
    'purge() writes an audit entry in each organization that loses events, with the total number',
    async (t) => {
      const one = await createPurged(harness, t)
      const other = await createPublisher(harness, t)
      const untouched = await createPublisher(harness, t)
      for (let event = 0; event < 3; event++) await one.publish()
      await other.publish()
      for (const tenant of [one, other]) await age(tenant)
      await untouched.publish()
      const { subjectId: _, ...entry } = newEntry({ action: 'events.purged', actor: 'olga', details })
      // Two events at a time, so that an organization's entry counts the events of several purges.
      for (const { store } of [one, one, other, one, other]) {
        await store.deliveries.purge({ eventsAfterMs: EVENTS_AFTER_MS, limit: 2, entry })
      }
      for (const [tenant, events] of [
        [one, 3],
        [other, 1],
      ] as const) {
        const [{ at: _at, ...left } = assert.fail(), ...more] = await listEntries(tenant)
        assert.deepEqual(left, { ...entry, subjectId: tenant.id, details: { ...details, events } })
        assert.deepEqual(more, [])
      }
      assert.deepEqual(await listEntries(untouched), [])
    },
  )

  harness.test('purge() without an entry writes none', async (t) => {
    const tenant = await createPurged(harness, t)
    await tenant.publish()
    await age(tenant)
    assert.equal((await purge(tenant)).events, 1)
    assert.deepEqual(await listEntries(tenant), [])
  })

  function listEntries({ store, id }: Tenant) {
    return store.audit.list(id, { subjectId: id }, 10, null)
  }
}
