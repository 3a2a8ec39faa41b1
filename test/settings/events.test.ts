import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import {
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
  STORE_UNAVAILABLE,
  storeUnavailable,
} from '../../lib/base/errors.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import type { EventLogStore, EventRecord } from '../../lib/store.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { createSetUp, URL } from './_endpoints.ts'
import { untyped } from './_refusals.ts'
import { describeOnEveryStore, newOrganization, publish } from './_stores.ts'

/** The earliest time. */
const BEGINNING = '1970-01-01T00:00:00.000Z'

/** Collects what a feed yields after it has started. */
function collect(feed: AsyncIterable<EventRecord>): {
  readonly ids: string[]
  readonly ended: Promise<void>
} {
  const ids: string[] = []
  const ended = (async () => {
    for await (const { id } of feed) ids.push(id)
  })()
  return { ids, ended }
}

async function until(isDone: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 60_000
  while (!isDone()) {
    assert.ok(Date.now() < deadline, what)
    await sleep(20)
  }
}

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  test('events.list() and events.get() return an event without endpoints, and the deliveries of others', async () => {
    const { store, settings, organizationId } = setUp()
    const alone = await publish(store, organizationId)
    await sleep(2)
    const { id: endpointId } = await settings.endpoints.register(organizationId, { url: URL })
    const sent = await publish(store, organizationId, 'invoice.paid')
    const page = await settings.events.list(organizationId, { limit: 1 })
    assert.deepEqual([page.data.map(({ id }) => id), page.next], [[sent], sent])
    const rest = await settings.events.list(organizationId, { limit: 1, before: page.next })
    assert.deepEqual([rest.data.map(({ id }) => id), rest.next], [[alone], null])
    const { data } = await settings.events.list(organizationId, { type: 'invoice.paid' })
    assert.deepEqual(data[0]?.deliveries, { pending: 1 })
    const { body, deliveryLog } = await settings.events.get(organizationId, sent)
    assert.equal(JSON.parse(body).id, sent)
    assert.deepEqual(
      deliveryLog.map((delivery) => delivery.endpointId),
      [endpointId],
    )
    assert.deepEqual((await settings.events.get(organizationId, alone)).deliveryLog, [])
  })

  test('event calls reject unknown events and invalid input', async () => {
    const { settings, organizationId } = setUp()
    await assert.rejects(settings.events.get(organizationId, 'evt_unknown'), { code: NOT_FOUND })
    await assert.rejects(settings.events.list(organizationId, { limit: 201 }), { code: INVALID_INPUT })
    await assert.rejects(settings.events.list(organizationId, { type: 'x' as never }), {
      code: INVALID_INPUT,
    })
    assert.throws(() => settings.events.follow(organizationId, { intervalMs: 1 }), { code: INVALID_INPUT })
    assert.throws(() => settings.events.follow(organizationId, { types: [] }), { code: INVALID_INPUT })
  })

  test('events.follow() yields each new event of the given types once, and none of a backfill', async () => {
    const { store, settings, organizationId } = setUp()
    await publish(store, organizationId)
    const stopping = new AbortController()
    let begun = 0
    const onBegin = (): void => {
      begun++
    }
    const options = { intervalMs: 100, signal: stopping.signal, onBegin }
    const all = collect(settings.events.follow(organizationId, options))
    const paid = collect(settings.events.follow(organizationId, { ...options, types: ['invoice.paid'] }))
    await until(() => begun === 2, 'the feeds have begun')
    const { id: endpointId } = await settings.endpoints.register(organizationId, { url: URL })
    const first = await publish(store, organizationId)
    await until(() => all.ids.length === 1, 'the first event')
    await createPlatform(store).businesses.create(organizationId, { name: 'Atlas' })
    await settings.endpoints.update(organizationId, endpointId, { types: ['proposal.created'] })
    const second = await publish(store, organizationId, 'invoice.paid')
    await settings.endpoints.update(organizationId, endpointId, { types: null })
    await settings.endpoints.backfill(organizationId, endpointId)
    await until(() => all.ids.length === 3 && paid.ids.length === 1, 'the other events')
    // Anything that must not be yielded would have been before the last one.
    const last = await publish(store, organizationId, 'invoice.paid')
    await until(() => all.ids.includes(last) && paid.ids.includes(last), 'the last event')
    stopping.abort()
    await Promise.all([all.ended, paid.ended])
    assert.deepEqual([all.ids[0], all.ids.includes(second), all.ids.length], [first, true, 4])
    assert.deepEqual(paid.ids, [second, last])
  })

  test('events.list() with withBody returns each event with what was sent', async () => {
    const { store, settings, organizationId } = setUp()
    const ids = [await publish(store, organizationId), await publish(store, organizationId)]
    const { data } = await settings.events.list(organizationId, { withBody: true })
    assert.deepEqual(data.map(({ body }) => JSON.parse(body ?? '{}').id).toSorted(), ids.toSorted())
    const [plain] = (await settings.events.list(organizationId)).data
    assert.ok(plain && !('body' in plain))
    const call = settings.events.list(organizationId, { withBody: untyped<boolean>('yes') })
    await assert.rejects(call, { code: INVALID_INPUT, message: /withBody must be true or false/ })
  })

  test("events.redeliver() sends an event to one endpoint, or says why it can't", async () => {
    const { store, settings, organizationId } = setUp()
    const eventId = await publish(store, organizationId)
    const { id: endpointId } = await settings.endpoints.register(organizationId, { url: URL })
    const { state, body, ...delivery } = await settings.events.redeliver(organizationId, eventId, {
      endpointId,
      actor: 'ada',
    })
    assert.deepEqual([state, delivery.endpointId, JSON.parse(body).id], ['pending', endpointId, eventId])
    const { data } = await settings.audit.list(organizationId, { action: 'delivery.redelivered' })
    assert.deepEqual(
      data.map(({ actor, subjectId, details }) => [actor, subjectId, details]),
      [['ada', delivery.id, { eventId, endpointId, recovered: 1 }]],
    )
    const again = (event: string, endpoint: string) =>
      settings.events.redeliver(organizationId, event, { endpointId: endpoint })
    await assert.rejects(again(eventId, endpointId), {
      code: INVALID_STATE,
      message: /is pending or sending/,
    })
    await assert.rejects(again('evt_none', endpointId), { code: NOT_FOUND, message: /no event with this id/ })
    await assert.rejects(again(eventId, 'we_none'), { code: NOT_FOUND, message: /no endpoint with this id/ })
  })

  test('events.follow() continues after the store was unavailable without losing events', async () => {
    const { store, organizationId } = setUp()
    let isDown = false
    const triedAt: number[] = []
    const eventLog = {
      ...store.eventLog,
      mark: async (owner: string) => {
        if (!isDown) return store.eventLog.mark(owner)
        triedAt.push(performance.now())
        // Like a statement without a response.
        await sleep(1000)
        throw storeUnavailable('down')
      },
    }
    const settings = createDeveloperSettings({ ...store, eventLog })
    const stopping = new AbortController()
    const errors: unknown[] = []
    let hasBegun = false
    const followed = collect(
      settings.events.follow(organizationId, {
        intervalMs: 100,
        signal: stopping.signal,
        onBegin: () => {
          hasBegun = true
        },
        onError: (error) => errors.push((error as { code: string }).code),
      }),
    )
    await until(() => hasBegun, 'the feed has begun')
    isDown = true
    const id = await publish(store, organizationId)
    await until(() => errors.length > 1, 'errors')
    isDown = false
    const [first = 0, second = 0] = triedAt
    assert.ok(
      second - first < 1900,
      'the feed tries again after the interval, without pausing for as long as it had waited',
    )
    await until(() => followed.ids.length === 1, 'the event')
    stopping.abort()
    await followed.ended
    assert.deepEqual([followed.ids, new Set(errors)], [[id], new Set([STORE_UNAVAILABLE])])
    isDown = true
    await assert.rejects(collect(settings.events.follow(organizationId)).ended, { code: STORE_UNAVAILABLE })
  })
})

describe('events.follow() with open transactions', () => {
  let database: TestDatabase
  let store: PostgresStore
  let sql: Sql
  before(async () => {
    database = await createTestDatabase()
    store = createPostgresStore(database.url)
    sql = database.sql({ max: 4 })
  })
  after(async () => {
    await store.close()
    await database.drop()
  })

  const publishOn = (connection: Sql, org: string, id: string) => connection`
    select business_api.insert_events(${org}, ${JSON.stringify([
      { id, type: 'client.created', body: JSON.stringify({ id }) },
    ])}::text::jsonb)`

  test('yields an event whose transaction commits minutes after newer events', async (t) => {
    const org = newOrganization()
    const settings = createDeveloperSettings(store)
    const stopping = new AbortController()
    t.after(() => stopping.abort())
    // Makes the feed's clock run faster. With each mark a minute passes, including for the times of events.
    const marks: number[] = []
    const feedTime = (at: number): number => at + marks.filter((mark) => mark <= at).length * 60_000
    const eventLog: EventLogStore = {
      ...store.eventLog,
      mark: async (owner) => {
        const mark = await store.eventLog.mark(owner)
        marks.push(mark.at)
        return { ...mark, at: feedTime(mark.at) }
      },
      listSince: async (owner, since, limit, after) => {
        const notes = await store.eventLog.listSince(owner, BEGINNING, limit, after)
        return notes
          .map((note) => ({ ...note, at: new Date(feedTime(Date.parse(note.at))).toISOString() }))
          .filter(({ at }) => at >= since)
      },
    }
    const followed = collect(
      createDeveloperSettings({ ...store, eventLog }).events.follow(org, {
        intervalMs: 100,
        signal: stopping.signal,
      }),
    )
    await until(() => marks.length > 0, 'the feed has begun')
    const held = await sql.reserve()
    await held`begin`
    await publishOn(held as unknown as Sql, org, 'held')
    const rolledBack = await sql.reserve()
    await rolledBack`begin`
    await publishOn(rolledBack as unknown as Sql, org, 'rolled-back')
    await publishOn(sql, org, 'newer')
    await until(() => followed.ids.length === 1, 'the newer event')
    const seenAt = marks.length
    await until(() => marks.length > seenAt + 5, 'five minutes of the feed')
    await publishOn(sql, org, 'newest')
    await until(() => followed.ids.length === 2, 'the newest event')
    assert.equal(followed.ids.includes('held'), false)
    await rolledBack`rollback`
    await held`commit`
    held.release()
    rolledBack.release()
    await until(() => followed.ids.includes('held'), 'the event that was held')
    await publishOn(sql, org, 'last')
    await until(() => followed.ids.includes('last'), 'the last event')
    assert.deepEqual(followed.ids, ['newer', 'newest', 'held', 'last'])
    assert.equal((await settings.events.list(org)).data.length, 4)
  })

  test('yields every event of 200 transactions that commit in any order, once', async (t) => {
    const org = newOrganization()
    const stopping = new AbortController()
    t.after(() => stopping.abort())
    const { events } = createDeveloperSettings(store)
    let hasBegun = false
    const onBegin = (): void => {
      hasBegun = true
    }
    const followed = collect(events.follow(org, { intervalMs: 100, signal: stopping.signal, onBegin }))
    await until(() => hasBegun, 'the feed has begun')
    const expected = ['last']
    await Promise.all(
      Array.from({ length: 4 }, async (_, worker) => {
        for (let round = 0; round < 50; round++) {
          const id = `w${worker}-${round}`
          const isKept = round % 7 !== 3
          if (isKept) expected.push(id)
          await sql
            .begin(async (transaction) => {
              await publishOn(transaction as unknown as Sql, org, id)
              await sleep(Math.random() * 60)
              if (!isKept) throw new Error('rolled back')
            })
            .catch((error) => assert.equal(error.message, 'rolled back'))
        }
      }),
    )
    await until(() => followed.ids.length >= expected.length - 1, 'all events')
    await publishOn(sql, org, 'last')
    await until(() => followed.ids.includes('last'), 'the last event')
    assert.deepEqual(followed.ids.toSorted(), expected.toSorted())
  })
})
