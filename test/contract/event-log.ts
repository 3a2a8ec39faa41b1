import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import { backfillTemplate } from '../../lib/resources/backfill.ts'
import { newBusiness } from '../../lib/resources/businesses.ts'
import type { EventPlace } from '../../lib/webhooks/event-log.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from './audit-entry.ts'
import { claim, createPublisher, success, writeResults } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** The events of an organization, also events without an endpoint. */
export function testEventLog(harness: StoreHarness): void {
  testLists(harness)
  testNotes(harness)
}

const DAY = '2026-03-14'
const timeAt = (second: number): string => `${DAY}T09:00:${String(second).padStart(2, '0')}.000Z`

/** Publishes events with ids whose order is not that of the times; the last one has the time of the one before it. */
async function publishSome(tenant: Tenant): Promise<EventRecord[]> {
  const published: EventRecord[] = []
  for (const [index, id] of ['m', 'z', 'a', 'evt_1', 'b'].entries()) {
    const type = index % 2 === 0 ? 'invoice.paid' : 'client.created'
    const createdAt = timeAt(Math.min(index, 3))
    published.push(await tenant.publish({ id: `${id}-${tenant.id}`, type, createdAt }))
  }
  // At the same time the greater id is the newer.
  const [first, second, third, fourth, fifth] = published
  return [first, second, third, fifth, fourth].map((event) => event ?? assert.fail())
}

const idsOf = (events: readonly { readonly id: string }[]): string[] => events.map(({ id }) => id)

function testLists(harness: StoreHarness): void {
  harness.test('list() gives the newest events by time, page by page, each event once', async (t) => {
    const tenant = await createPublisher(harness, t)
    const newestFirst = idsOf(await publishSome(tenant)).reverse()
    const { list } = tenant.store.eventLog
    for (const limit of [1, 2, 3, 5]) {
      const found: string[] = []
      let before: string | null = null
      do {
        const page: Awaited<ReturnType<typeof list>> = await list(tenant.id, {}, limit, before)
        assert.ok(page.events.length <= limit, `${page.events.length} events`)
        found.push(...idsOf(page.events))
        before = page.next
      } while (before !== null)
      assert.deepEqual(found, newestFirst)
    }
    assert.deepEqual(await list(tenant.id, {}, 5, 'unknown'), { events: [], next: null })
  })

  harness.test('list() filters by type and period', async (t) => {
    const tenant = await createPublisher(harness, t)
    const all = (await publishSome(tenant)).reverse()
    const { list } = tenant.store.eventLog
    const { events } = await list(tenant.id, { type: 'invoice.paid' }, 10, null)
    assert.deepEqual(idsOf(events), idsOf(all.filter(({ type }) => type === 'invoice.paid')))
    const paged = await list(tenant.id, { type: 'invoice.paid' }, 2, null)
    assert.deepEqual([paged.events.length, paged.next], [2, paged.events[1]?.id])
    const rest = await list(tenant.id, { type: 'invoice.paid' }, 2, paged.next)
    assert.deepEqual([idsOf(rest.events), rest.next], [[`m-${tenant.id}`], null])
    const period = await list(tenant.id, { since: timeAt(1), until: timeAt(3) }, 10, null)
    assert.deepEqual(idsOf(period.events), [`a-${tenant.id}`, `z-${tenant.id}`])
  })

  harness.test(
    'list() and get() count the deliveries in each state, and show events that no endpoint wanted',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { list, get } = tenant.store.eventLog
      const alone = await tenant.publish({ createdAt: timeAt(1) })
      await tenant.insertEndpoint()
      await tenant.insertEndpoint()
      const sent = await tenant.publish({ createdAt: timeAt(2) })
      const { deliveries } = await claim(tenant)
      await writeResults(tenant, [success(deliveries[0] ?? assert.fail())])
      const counts = { delivered: 1, sending: 1 }
      const { events } = await list(tenant.id, {}, 10, null)
      assert.deepEqual(events, [
        { id: sent.id, type: sent.type, createdAt: timeAt(2), onlyEndpointId: null, deliveries: counts },
        { id: alone.id, type: alone.type, createdAt: timeAt(1), onlyEndpointId: null, deliveries: {} },
      ])
      assert.deepEqual(await get(tenant.id, sent.id), { ...events[0], body: sent.body })
      assert.equal(await get(tenant.id, 'unknown'), null)
    },
  )

  harness.test('the event log shows events of its organization only', async (t) => {
    const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
    await tenant.insertEndpoint()
    await tenant.publish({ id: 'the-same', createdAt: timeAt(1) })
    await other.publish({ id: 'the-same', createdAt: timeAt(1) })
    const [event] = (await other.store.eventLog.list(other.id, {}, 10, null)).events
    assert.deepEqual([event?.id, event?.deliveries], ['the-same', {}])
    assert.deepEqual((await other.store.eventLog.get(other.id, 'the-same'))?.deliveries, {})
    const { list } = tenant.store.eventLog
    assert.equal((await list(tenant.id, {}, 10, null)).events.length, 1)
    assert.equal((await tenant.store.eventLog.read(tenant.id, ['the-same', 'unknown'])).length, 1)
    assert.equal((await tenant.store.eventLog.listSince(tenant.id, timeAt(0), 10, null)).length, 1)
  })
}

/** Milliseconds for which a transaction of another test, also in another database of the server, may stay open. */
const OTHERS_MS = 20_000

function testNotes(harness: StoreHarness): void {
  harness.test('listSince() notes the events from a moment on, oldest first, page by page', async (t) => {
    const tenant = await createPublisher(harness, t)
    const oldestFirst = (await publishSome(tenant)).slice(1)
    const { listSince } = tenant.store.eventLog
    for (const limit of [1, 2, 4, 10]) {
      const found: string[] = []
      let after: EventPlace | null = null
      while (true) {
        const page: readonly EventPlace[] = await listSince(tenant.id, timeAt(1), limit, after)
        found.push(...idsOf(page))
        after = page.at(-1) ?? null
        if (page.length < limit) break
      }
      assert.deepEqual(found, idsOf(oldestFirst))
    }
  })

  harness.test('read() gives events byte for byte', async (t) => {
    const tenant = await createPublisher(harness, t)
    const events = await publishSome(tenant)
    const read = await tenant.store.eventLog.read(tenant.id, [...idsOf(events), 'unknown'])
    const byId = (one: EventRecord, other: EventRecord): number => (one.id < other.id ? -1 : 1)
    assert.deepEqual(read.toSorted(byId), events.toSorted(byId))
  })

  harness.test('mark() tells the store’s clock, and that every write before has ended', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { mark } = tenant.store.eventLog
    const first = await mark(tenant.id)
    await tenant.publish()
    for (const until = performance.now() + OTHERS_MS; ; await setTimeout(20)) {
      const { ended, at } = await mark(tenant.id)
      assert.ok(at >= first.at && at < first.at + 60_000, `${at} after ${first.at}`)
      if (BigInt(first.begun) <= BigInt(ended)) break
      assert.ok(performance.now() < until, 'the writes before have ended')
    }
  })

  harness.test('the event log names the endpoint of an event of a backfill', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { record, events: created } = newBusiness({ name: 'Atlas' }, { ids, now: Date.now() })
    await tenant.store.businesses.create({
      organizationId: tenant.id,
      record,
      events: created,
      idempotency: null,
    })
    const { id: endpointId } = await tenant.insertEndpoint()
    const type = 'business.created'
    const request = { organizationId: tenant.id, endpointId, type, after: null, limit: 10 } as const
    await tenant.store.backfills.backfill({ ...request, template: backfillTemplate(type), entry: newEntry() })
    const { events } = await tenant.store.eventLog.list(tenant.id, {}, 10, null)
    assert.deepEqual(events.map(({ onlyEndpointId }) => onlyEndpointId).sort(), [null, endpointId])
    const notes = await tenant.store.eventLog.listSince(tenant.id, timeAt(0), 10, null)
    assert.deepEqual(notes.map(({ onlyEndpointId }) => onlyEndpointId).sort(), [null, endpointId])
  })
}
