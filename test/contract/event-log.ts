import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import { backfillTemplate } from '../../lib/resources/backfill.ts'
import { newBusiness } from '../../lib/resources/businesses.ts'
import type { EventNote } from '../../lib/webhooks/event-log.ts'
import { type EventRecord, toEventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from './audit-entry.ts'
import { claim, createPublisher, storeTime, success, TIMESTAMP, writeResults } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { events, ids, newEvent, type Tenant } from './tenant.ts'

/** Tests the events of an organization, including those without an endpoint. */
export function testEventLog(harness: StoreHarness): void {
  testLists(harness)
  testNotes(harness)
}

/** The earliest possible time. */
const BEGINNING = '1970-01-01T00:00:00.000Z'

/** Publishes events at different times, with ids that sort differently. @returns the events, oldest first */
async function publishSome(tenant: Tenant): Promise<EventRecord[]> {
  const published: EventRecord[] = []
  for (const [index, id] of ['m', 'z', 'a', 'evt_1', 'b'].entries()) {
    await goOn(tenant)
    const type = index % 2 === 0 ? 'invoice.paid' : 'client.created'
    published.push(await tenant.publish({ id: `${id}-${tenant.id}`, type }))
  }
  return published
}

/** Moves the store's clock forward by at least a millisecond. */
async function goOn(tenant: Tenant): Promise<void> {
  await tenant.letTimePass(1000)
  await setTimeout(2)
}

const idsOf = (events: readonly { readonly id: string }[]): string[] => events.map(({ id }) => id)

function testLists(harness: StoreHarness): void {
  harness.test(
    'list() returns the newest events by time of publishing, page by page, each event once',
    async (t) => {
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
    },
  )

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
    const [newest, , third, fourth] = (await list(tenant.id, {}, 10, null)).events
    assert.ok(newest && third && fourth, 'events are missing')
    const period = { since: fourth.createdAt, until: newest.createdAt }
    const { events: some } = await list(tenant.id, period, 10, null)
    assert.deepEqual(idsOf(some), [`evt_1-${tenant.id}`, `a-${tenant.id}`, `z-${tenant.id}`])
    const later = await list(tenant.id, period, 10, third.id)
    assert.deepEqual(idsOf(later.events), [`z-${tenant.id}`])
  })

  harness.test('list() finds the events of a record, page by page, with or without a type', async (t) => {
    const tenant = await createPublisher(harness, t)
    const about: EventRecord[] = []
    for (const type of ['invoice.issued', 'payment.received', 'payment.received', 'invoice.paid']) {
      about.unshift(await tenant.publish({ type, subjectId: 'inv_1' }))
      await tenant.publish({ type, subjectId: 'inv_2' })
      await tenant.publish({ type })
      await goOn(tenant)
    }
    const { list, read } = tenant.store.eventLog
    for (const type of [undefined, 'payment.received']) {
      const filter = { subjectId: 'inv_1', ...(type && { type }) }
      const found: string[] = []
      let before: string | null = null
      do {
        const page: Awaited<ReturnType<typeof list>> = await list(tenant.id, filter, 1, before)
        found.push(...idsOf(page.events))
        before = page.next
      } while (before !== null)
      assert.deepEqual(found, idsOf(about.filter((event) => type === undefined || event.type === type)))
    }
    assert.deepEqual(await list(tenant.id, { subjectId: 'inv_3' }, 10, null), { events: [], next: null })
    const { id = '', type, body } = about[0] ?? {}
    assert.deepEqual(await read(tenant.id, [id]), [{ id, type, body }])
  })

  harness.test('list() returns the events of one write in reverse order', async (t) => {
    const tenant = await createPublisher(harness, t)
    const written = events(3)
    await kinds.clients.create(tenant, { events: written })
    const { events: listed } = await tenant.store.eventLog.list(tenant.id, {}, 10, null)
    assert.deepEqual(idsOf(listed), idsOf(written).reverse())
  })

  harness.test('the time in the log is when the event was published by the store’s clock', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id, type } = newEvent()
    const before = Math.floor(await storeTime(tenant))
    await tenant.publish(toEventRecord(id, type, {}, before - 40 * 24 * 3_600_000))
    const event = await tenant.store.eventLog.get(tenant.id, id)
    assert.ok(Math.abs(Date.parse(event?.createdAt ?? '') - before) < 60_000, event?.createdAt)
    assert.equal(Date.parse(JSON.parse(event?.body ?? '').createdAt), before - 40 * 24 * 3_600_000)
  })

  harness.test(
    'list() and get() count the deliveries in each state, and include events without an endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { list, get } = tenant.store.eventLog
      const alone = await tenant.publish()
      await tenant.insertEndpoint()
      await tenant.insertEndpoint()
      const sent = await tenant.publish({ subjectId: 'inv_1' })
      const { deliveries } = await claim(tenant)
      await writeResults(tenant, [success(deliveries[0] ?? assert.fail())])
      const counts = { delivered: 1, sending: 1 }
      const { events: listed } = await list(tenant.id, {}, 10, null)
      const shown = listed.map(({ createdAt, ...event }) => {
        assert.match(createdAt, TIMESTAMP)
        return event
      })
      assert.deepEqual(shown, [
        { id: sent.id, type: sent.type, subjectId: 'inv_1', onlyEndpointId: null, deliveries: counts },
        { id: alone.id, type: alone.type, subjectId: null, onlyEndpointId: null, deliveries: {} },
      ])
      assert.deepEqual(await get(tenant.id, sent.id), { ...listed[0], body: sent.body })
      assert.equal(await get(tenant.id, 'unknown'), null)
    },
  )

  harness.test('the event log only returns events of its organization', async (t) => {
    const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
    await tenant.insertEndpoint()
    await tenant.publish({ id: 'the-same' })
    await other.publish({ id: 'the-same' })
    const [event] = (await other.store.eventLog.list(other.id, {}, 10, null)).events
    assert.deepEqual([event?.id, event?.deliveries], ['the-same', {}])
    assert.deepEqual((await other.store.eventLog.get(other.id, 'the-same'))?.deliveries, {})
    const { list } = tenant.store.eventLog
    assert.equal((await list(tenant.id, {}, 10, null)).events.length, 1)
    assert.equal((await tenant.store.eventLog.read(tenant.id, ['the-same', 'unknown'])).length, 1)
    assert.equal((await tenant.store.eventLog.listSince(tenant.id, BEGINNING, 10, null)).length, 1)
  })
}

/**
 * How long a transaction of another test, even in a different database of the server, can stay open, in ms. Longer than
 * PostgreSQL's default `authentication_timeout`, because an unfinished authentication blocks the drop of any database.
 */
const OTHERS_MS = 90_000

function testNotes(harness: StoreHarness): void {
  harness.test('listSince() returns the events since a time, oldest first, page by page', async (t) => {
    const tenant = await createPublisher(harness, t)
    const oldestFirst = (await publishSome(tenant)).slice(1)
    const { list, listSince } = tenant.store.eventLog
    const since = (await list(tenant.id, {}, 10, null)).events.at(-2)?.createdAt ?? ''
    for (const limit of [1, 2, 4, 10]) {
      const found: string[] = []
      let after: string | null = null
      while (true) {
        const page: readonly EventNote[] = await listSince(tenant.id, since, limit, after)
        found.push(...idsOf(page))
        after = page.at(-1)?.place ?? null
        if (page.length < limit) break
      }
      assert.deepEqual(found, idsOf(oldestFirst))
    }
  })

  harness.test('read() returns events byte for byte', async (t) => {
    const tenant = await createPublisher(harness, t)
    const events = await publishSome(tenant)
    const read = await tenant.store.eventLog.read(tenant.id, [...idsOf(events), 'unknown'])
    const byId = (one: EventRecord, other: EventRecord): number => (one.id < other.id ? -1 : 1)
    assert.deepEqual(read.toSorted(byId), events.toSorted(byId))
  })

  harness.test('mark() returns the store’s clock, and that all earlier writes have ended', async (t) => {
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

  harness.test('the event log contains the endpoint of a backfilled event', async (t) => {
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
    const notes = await tenant.store.eventLog.listSince(tenant.id, BEGINNING, 10, null)
    assert.deepEqual(notes.map(({ onlyEndpointId }) => onlyEndpointId).sort(), [null, endpointId])
  })
}
