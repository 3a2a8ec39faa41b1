import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import {
  BusinessApiError,
  type ErrorCode,
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
} from '../../lib/base/errors.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createDeveloperSettings, type DeliveryQuery } from '../../lib/settings.ts'
import type { Delivery } from '../../lib/webhooks/deliveries.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

/** Asserts that a call is refused with a code and a text that says what was done and what is wrong. */
async function assertRefused(
  call: Promise<unknown>,
  code: ErrorCode,
  action: string,
  about: RegExp,
): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, code)
    assert.ok(error.message.startsWith(`${action} as `), error.message)
    assert.match(error.message, about)
    assert.doesNotMatch(error.message, /s3cret|Invalid|Expected|but received|undefined/)
    return true
  })
}

/** A value that the compiler would not let through, as JavaScript hosts pass them. */
function untyped<T>(value: unknown): T {
  return value as T
}

function idsOf(deliveries: readonly { readonly id: string }[]): string[] {
  return deliveries.map(({ id }) => id)
}

describeOnEveryStore((open) => {
  /** An organization with one endpoint for every type. */
  async function setUp(wrap: (store: BusinessApiStore) => BusinessApiStore = (store) => store) {
    const store = wrap(open())
    const { endpoints, deliveries } = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
    })
    const organizationId = newOrganization()
    const register = async () => (await endpoints.register(organizationId, { url: 'https://x.example/' })).id
    return { store, endpoints, deliveries, organizationId, register, endpointId: await register() }
  }

  type SetUp = Awaited<ReturnType<typeof setUp>>

  /** Publishes events one after another, so that the order of their deliveries is known. */
  async function publishSeveral({ store, organizationId }: SetUp, count: number): Promise<string[]> {
    const eventIds: string[] = []
    while (eventIds.length < count) {
      eventIds.push(await publish(store, organizationId))
      await nextMillisecond()
    }
    return eventIds
  }

  /** Delivery ids of two events are in the order of the events from one millisecond to the next. */
  async function nextMillisecond(): Promise<void> {
    const now = Date.now()
    while (Date.now() === now) await new Promise((resolve) => setImmediate(resolve))
  }

  /** Makes skipped deliveries, of each event to each endpoint; gives the endpoints. */
  async function skipMany(given: SetUp, events: number, endpoints: number): Promise<string[]> {
    const { store, organizationId, register } = given
    const endpointIds = [given.endpointId]
    while (endpointIds.length < endpoints) endpointIds.push(await register())
    for (const endpointId of endpointIds) await given.endpoints.disable(organizationId, endpointId)
    await Promise.all(Array.from({ length: events }, () => publish(store, organizationId)))
    return endpointIds
  }

  /** One delivery of each kind: by how its attempt ended, or `skipped`. */
  async function makeOfEachState(given: SetUp): Promise<Record<Delivery['state'], string>> {
    const { store, organizationId, endpoints, endpointId, deliveries } = given
    const made: Partial<Record<Delivery['state'], string>> = {}
    const newest = async () => (await deliveries.list(organizationId)).data[0]?.id ?? ''
    for (const outcome of ['delivered', 'dead_lettered'] as const) {
      await publishSeveral(given, 1)
      await record(store, await claim(store, organizationId), outcome)
      made[outcome] = await newest()
    }
    await endpoints.disable(organizationId, endpointId)
    await publishSeveral(given, 1)
    made.skipped = await newest()
    await endpoints.enable(organizationId, endpointId)
    await publishSeveral(given, 1)
    await claim(store, organizationId)
    made.in_flight = await newest()
    await publishSeveral(given, 1)
    made.pending = await newest()
    const { delivered = '', dead_lettered = '', skipped = '', in_flight = '', pending = '' } = made
    return { delivered, dead_lettered, skipped, in_flight, pending, cancelled: '' }
  }

  describe('deliveries.list()', () => {
    test('deliveries.list() shows what became of each delivery, the newest first', async () => {
      const given = await setUp()
      const { deliveries, organizationId, endpointId } = given
      const made = await makeOfEachState(given)
      const { data, next } = await deliveries.list(organizationId)
      assert.equal(next, null)
      assert.deepEqual(
        data.map(({ id, state, attempts, reason }) => ({ id, state, attempts, reason })),
        [
          { id: made.pending, state: 'pending', attempts: 0, reason: null },
          { id: made.in_flight, state: 'in_flight', attempts: 1, reason: null },
          { id: made.skipped, state: 'skipped', attempts: 0, reason: 'endpoint_disabled' },
          { id: made.dead_lettered, state: 'dead_lettered', attempts: 1, reason: 'http_500' },
          { id: made.delivered, state: 'delivered', attempts: 1, reason: null },
        ],
      )
      for (const { eventId, type, endpointId: endpoint, state, createdAt, dueAt, finishedAt } of data) {
        assert.match(eventId, /^evt_/)
        assert.deepEqual([type, endpoint], ['client.created', endpointId])
        assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
        assert.equal(dueAt !== null, state === 'pending')
        assert.equal(finishedAt !== null, !['pending', 'in_flight'].includes(state))
      }
    })

    test('deliveries.list() filters by endpoint, type and states, alone and together', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId, endpointId, register } = given
      const made = await makeOfEachState(given)
      const other = await register()
      await publish(store, organizationId, 'invoice.paid')
      const list = async (query: DeliveryQuery) => (await deliveries.list(organizationId, query)).data

      assert.deepEqual(
        (await list({ type: 'invoice.paid' })).map((delivery) => delivery.endpointId).sort(),
        [endpointId, other].sort(),
      )
      assert.equal((await list({ endpointId })).length, 6)
      assert.deepEqual(idsOf(await list({ states: ['delivered'] })), [made.delivered])
      assert.deepEqual(idsOf(await list({ states: ['skipped', 'dead_lettered', 'cancelled'] })), [
        made.skipped,
        made.dead_lettered,
      ])
      assert.equal((await list({ endpointId: other, type: 'invoice.paid', states: ['pending'] })).length, 1)
      assert.deepEqual(await list({ endpointId: other, type: 'client.created' }), [])
      for (const unknown of ['we_unknown', '', 'nul \0', '\ud800', 'x'.repeat(1000)]) {
        assert.deepEqual(await list({ endpointId: unknown }), [])
      }
    })

    test('deliveries.list() takes since and until as Date and as ISO 8601, the one inclusive, the other not', async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      await publishSeveral(given, 3)
      const { data } = await deliveries.list(organizationId)
      const [newest, middle, oldest] = data
      assert.ok(newest && middle && oldest)
      const moment = new Date(middle.createdAt)
      const inIndia = moment.toISOString().replace('Z', '+00:00')
      for (const since of [moment, moment.toISOString(), inIndia]) {
        const page = await deliveries.list(organizationId, { since })
        assert.deepEqual(idsOf(page.data), [newest.id, middle.id])
        assert.deepEqual(idsOf((await deliveries.list(organizationId, { until: since })).data), [oldest.id])
      }
      const none = { since: moment, until: moment }
      assert.deepEqual((await deliveries.list(organizationId, none)).data, [])
      const all = { since: new Date(0), until: '9999-12-31T23:59:59.999Z' }
      assert.equal((await deliveries.list(organizationId, all)).data.length, 3)
    })

    test('deliveries.list() gives pages that hold every delivery once, and null after the last', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const eventIds = await publishSeveral(given, 7)
      const newestFirst = eventIds.toReversed()
      for (const limit of [1, 2, 3, 7]) {
        const seen: string[] = []
        let before: string | null = null
        let pages = 0
        do {
          const page: Awaited<ReturnType<typeof deliveries.list>> = await deliveries.list(organizationId, {
            limit,
            before,
          })
          seen.push(...page.data.map(({ eventId }) => eventId))
          before = page.next
          pages++
        } while (before !== null)
        assert.deepEqual(seen, newestFirst)
        assert.equal(pages, Math.ceil(7 / limit))
      }
      const first = await deliveries.list(organizationId, { limit: 3 })
      await publish(store, organizationId)
      const second = await deliveries.list(organizationId, { limit: 3, before: first.next })
      assert.deepEqual(
        second.data.map(({ eventId }) => eventId),
        newestFirst.slice(3, 6),
      )
    })

    test('deliveries.list() gives 50 unless told otherwise, and 200 at most', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      await Promise.all(Array.from({ length: 201 }, () => publish(store, organizationId)))
      const { data, next } = await deliveries.list(organizationId, { limit: undefined })
      assert.equal(data.length, 50)
      assert.equal(next, data.at(-1)?.id)
      const largest = await deliveries.list(organizationId, { limit: 200 })
      assert.equal(largest.data.length, 200)
      assert.ok(largest.next)
    })

    test('deliveries.list() names everything of a query that cannot be used, each once', async () => {
      const { deliveries, organizationId } = await setUp()
      const refused: [string, unknown[], RegExp][] = [
        [
          'limit',
          [0, 201, 1.5, -1, Number.NaN, '50', null],
          / as limit must be a whole number from 1 to 200$/,
        ],
        ['type', ['s3cret', '', null, 7], / as type must be one of client\.created, /],
        ['states', [[], ['s3cret'], 'pending', null, [null]], / as states must be one or more of pending, /],
        ['endpointId', [7, null, {}], / as endpointId must be a string$/],
        [
          'before',
          [
            7,
            {},
            '',
            'foo',
            'nul \0',
            'dlv_',
            'dlv_unknown',
            `aud_${'0'.repeat(26)}`,
            `dlv_${'0'.repeat(27)}`,
          ],
          / as before must be null, or the next of a page before: dlv_ and 26 letters and digits$/,
        ],
        ...['since', 'until'].map((name): [string, unknown[], RegExp] => [
          name,
          ['s3cret', '', '2026-03-14', '2026-02-30T00:00:00Z', new Date(-1), new Date(Number.NaN), 7, null],
          new RegExp(` as ${name} must be a Date, or ISO 8601 with a time zone, from 1970 to 9999$`),
        ]),
      ]
      for (const [name, values, about] of refused) {
        for (const value of values) {
          const call = deliveries.list(organizationId, untyped({ [name]: value }))
          await assertRefused(call, INVALID_INPUT, 'Cannot list deliveries', about)
        }
      }
      const call = deliveries.list('', untyped({ limit: 0, type: 's3cret', organizationId }))
      const about = / as organizationId must [^;]*; type must [^;]*; limit must [^;]*$/
      await assertRefused(call, INVALID_INPUT, 'Cannot list deliveries', about)
    })
  })

  describe('deliveries.get()', () => {
    test('deliveries.get() shows what was sent and every attempt, oldest first', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const [eventId] = await publishSeveral(given, 1)
      const failed = { delayMs: 0, startedAgoMs: 1000, endedAgoMs: 500 }
      await record(store, await claim(store, organizationId), 'retry', failed)
      const refused = { status: null, error: 'connection_refused', tlsMs: null, firstByteMs: null }
      await record(store, await claim(store, organizationId), 'dead_lettered', refused)
      const { data } = await deliveries.list(organizationId)
      const [{ id = '', ...shown } = {}] = data
      const { body, attemptLog, ...delivery } = await deliveries.get(organizationId, id)
      assert.deepEqual(delivery, { id, ...shown })
      assert.deepEqual([delivery.state, delivery.attempts, delivery.reason], ['dead_lettered', 2, 'http_500'])
      assert.equal(JSON.parse(body).id, eventId)
      const [one, two, ...others] = attemptLog
      assert.ok(one && two && others.length === 0)
      const { startedAt, ...first } = one
      assert.match(startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.ok(Math.abs(Date.now() - 1000 - Date.parse(startedAt)) < 60_000)
      const measured = { durationMs: 20, dnsMs: 1, connectMs: 2, tlsMs: 3, firstByteMs: 4 }
      assert.deepEqual(first, { number: 1, ...measured, status: 500, error: null, bodyExcerpt: 'no' })
      const { startedAt: _, ...second } = two
      assert.deepEqual(second, { number: 2, ...measured, ...refused, bodyExcerpt: 'no' })
    })

    test('deliveries.get(), redeliver() and cancel() throw not_found alike for an id that is unknown, another’s or none', async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      const theirs = await setUp()
      await publishSeveral(theirs, 1)
      const other = createDeveloperSettings(theirs.store).deliveries
      const [foreign] = (await other.list(theirs.organizationId)).data
      for (const id of [foreign?.id ?? '', 'dlv_unknown', '', 'nul \0', '\ud800', 's3cret']) {
        const about = /^Cannot (show|redeliver|cancel) a delivery as the organization has none of that id$/
        await assertRefused(deliveries.get(organizationId, id), NOT_FOUND, 'Cannot show a delivery', about)
        const call = deliveries.redeliver(organizationId, id)
        await assertRefused(call, NOT_FOUND, 'Cannot redeliver a delivery', about)
        const cancel = deliveries.cancel(organizationId, id)
        await assertRefused(cancel, NOT_FOUND, 'Cannot cancel a delivery', about)
      }
      for (const id of [null, 7, undefined]) {
        const about = / as deliveryId must be a string$/
        const get = deliveries.get(organizationId, untyped(id))
        await assertRefused(get, INVALID_INPUT, 'Cannot show a delivery', about)
        const redeliver = deliveries.redeliver(organizationId, untyped(id))
        await assertRefused(redeliver, INVALID_INPUT, 'Cannot redeliver a delivery', about)
        const cancel = deliveries.cancel(organizationId, untyped(id))
        await assertRefused(cancel, INVALID_INPUT, 'Cannot cancel a delivery', about)
      }
    })
  })

  describe('deliveries.redeliver()', () => {
    for (const state of ['delivered', 'dead_lettered', 'skipped'] as const) {
      test(`deliveries.redeliver() has a ${state} delivery sent again: same event, a new round of attempts`, async () => {
        const given = await setUp()
        const { deliveries, store, organizationId } = given
        const made = await makeOfEachState(given)
        // What was pending before is out of the way.
        await record(store, await claim(store, organizationId), 'delivered')
        const before = await deliveries.get(organizationId, made[state])
        const again = await deliveries.redeliver(organizationId, made[state])
        assert.deepEqual(
          [again.id, again.eventId, again.body, again.state, again.reason, again.finishedAt],
          [before.id, before.eventId, before.body, 'pending', null, null],
        )
        assert.equal(again.attempts, before.attempts)
        const claimed = await claim(store, organizationId)
        assert.deepEqual(idsOf(claimed), [made[state]])
        assert.deepEqual([claimed[0]?.eventId, claimed[0]?.attempt], [before.eventId, 1])
        await record(store, claimed, 'delivered')
        const after = await deliveries.get(organizationId, made[state])
        assert.deepEqual([after.state, after.attempts], ['delivered', before.attempts + 1])
        assert.deepEqual(
          after.attemptLog.map(({ number }) => number),
          Array.from({ length: after.attempts }, (_, index) => index + 1),
        )
      })
    }

    test('deliveries.redeliver() refuses a delivery that is still to be sent, and changes nothing', async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      const made = await makeOfEachState(given)
      for (const [state, text] of [
        ['pending', 'pending'],
        ['in_flight', 'in flight'],
      ] as const) {
        const before = await deliveries.get(organizationId, made[state])
        const call = deliveries.redeliver(organizationId, made[state])
        const about = new RegExp(` as it is ${text}$`)
        await assertRefused(call, INVALID_STATE, 'Cannot redeliver a delivery', about)
        assert.deepEqual(await deliveries.get(organizationId, made[state]), before)
      }
    })

    test('deliveries.redeliver() refuses a delivery whose endpoint has been removed', async () => {
      const given = await setUp()
      const { deliveries, endpoints, organizationId, endpointId } = given
      const { delivered } = await makeOfEachState(given)
      await endpoints.remove(organizationId, endpointId)
      const call = deliveries.redeliver(organizationId, delivered)
      const about = / as its endpoint has been removed$/
      await assertRefused(call, INVALID_STATE, 'Cannot redeliver a delivery', about)
      assert.equal((await deliveries.get(organizationId, delivered)).state, 'delivered')
    })
  })

  describe('deliveries.cancel()', () => {
    test('deliveries.cancel() has a pending delivery not sent, and shows it as it is then', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const [eventId] = await publishSeveral(given, 1)
      await record(store, await claim(store, organizationId), 'retry')
      const [{ id = '' } = {}] = (await deliveries.list(organizationId)).data
      const cancelled = await deliveries.cancel(organizationId, id)
      assert.deepEqual(
        [cancelled.id, cancelled.eventId, cancelled.state, cancelled.reason, cancelled.dueAt],
        [id, eventId, 'cancelled', null, null],
      )
      assert.deepEqual([cancelled.attempts, cancelled.attemptLog.length], [1, 1])
      assert.ok(cancelled.finishedAt)
      assert.deepEqual(await deliveries.get(organizationId, id), cancelled)
    })

    test('what deliveries.cancel() has cancelled is not recovered, and can be redelivered', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      await publishSeveral(given, 1)
      const [{ id = '' } = {}] = (await deliveries.list(organizationId)).data
      await deliveries.cancel(organizationId, id)
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 0 })
      assert.deepEqual(await claim(store, organizationId), [])
      await deliveries.redeliver(organizationId, id)
      assert.deepEqual(idsOf(await claim(store, organizationId)), [id])
    })

    test('deliveries.cancel() refuses what is in flight or in a final state, and changes nothing', async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      const made = await makeOfEachState(given)
      await deliveries.cancel(organizationId, made.pending)
      for (const [id, text] of [
        [made.in_flight, 'in flight'],
        [made.delivered, 'delivered'],
        [made.dead_lettered, 'dead-lettered'],
        [made.skipped, 'skipped'],
        [made.pending, 'cancelled'],
      ] as const) {
        const before = await deliveries.get(organizationId, id)
        const about = new RegExp(` as it is ${text}$`)
        const call = deliveries.cancel(organizationId, id)
        await assertRefused(call, INVALID_STATE, 'Cannot cancel a delivery', about)
        assert.deepEqual(await deliveries.get(organizationId, id), before)
      }
    })
  })

  describe('deliveries.recover()', () => {
    test('deliveries.recover() has the dead-lettered and the skipped sent again, and nothing else', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const made = await makeOfEachState(given)
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 2 })
      const states = new Map((await deliveries.list(organizationId)).data.map(({ id, state }) => [id, state]))
      assert.equal(states.get(made.dead_lettered), 'pending')
      assert.equal(states.get(made.skipped), 'pending')
      assert.equal(states.get(made.delivered), 'delivered')
      assert.equal(states.get(made.in_flight), 'in_flight')
      const claimed = idsOf(await claim(store, organizationId))
      assert.deepEqual(claimed.sort(), [made.dead_lettered, made.skipped, made.pending].sort())
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 0 })
    })

    test('deliveries.recover() goes by endpoint, type and time', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId, endpointId, register } = given
      await register()
      await publish(store, organizationId, 'invoice.paid')
      await nextMillisecond()
      await publish(store, organizationId, 'client.created')
      const claimed = await claim(store, organizationId)
      await record(store, claimed, 'dead_lettered')
      assert.equal(claimed.length, 4)
      const { data } = await deliveries.list(organizationId, { type: 'client.created' })
      const since = data[0]?.createdAt
      assert.ok(since)
      const recovered = async (filter: Parameters<typeof deliveries.recover>[1]) =>
        (await deliveries.recover(organizationId, filter)).recovered

      assert.equal(await recovered({ endpointId: 'we_unknown' }), 0)
      assert.equal(await recovered({ type: 'lead.created' }), 0)
      assert.equal(await recovered({ endpointId, type: 'invoice.paid', since }), 0)
      assert.equal(await recovered({ endpointId, until: since }), 1)
      assert.equal(await recovered({ type: 'invoice.paid' }), 1)
      assert.equal(await recovered({ endpointId, since: new Date(since) }), 1)
      assert.equal(await recovered({}), 1)
      assert.equal(await recovered({}), 0)
    })

    test('deliveries.recover() passes over removed endpoints and other organizations', async () => {
      const given = await setUp()
      const { deliveries, endpoints, store, organizationId, endpointId, register } = given
      const kept = await register()
      await publish(store, organizationId)
      await record(store, await claim(store, organizationId), 'dead_lettered')
      await endpoints.remove(organizationId, endpointId)
      assert.deepEqual(await deliveries.recover(newOrganization()), { recovered: 0 })
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 1 })
      const [delivery] = await claim(store, organizationId)
      assert.equal(delivery?.endpointId, kept)
    })

    test('deliveries.recover() goes on in batches of 1000 until none is left', async () => {
      const batches: number[] = []
      const given = await setUp((store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          recover: (request) => {
            batches.push(request.ids?.length ?? request.limit)
            return store.deliveries.recover(request)
          },
        },
      }))
      const { deliveries, endpoints, store, organizationId } = given
      const endpointIds = await skipMany(given, 87, 23)
      for (const endpointId of endpointIds) await endpoints.enable(organizationId, endpointId)
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 2001 })
      assert.deepEqual(batches, [1000, 1000, 1])
      assert.equal((await claim(store, organizationId)).length, 2001)
    })

    test('deliveries.recoverPart() recovers a part, says where the next begins, and count() what is left', async () => {
      const given = await setUp()
      const { deliveries, endpoints, organizationId } = given
      for (const id of await skipMany(given, 4, 1)) await endpoints.enable(organizationId, id)
      const left = () => deliveries.count(organizationId, { states: ['skipped'] })
      const all = await left()
      const first = await deliveries.recoverPart(organizationId, { limit: 3 })
      assert.equal(first.recovered, 3)
      assert.ok(first.next)
      assert.equal(await left(), all - 3)
      const second = await deliveries.recoverPart(organizationId, { before: first.next })
      assert.deepEqual(second, { recovered: all - 3, next: null })
      assert.equal(await left(), 0)
      await assert.rejects(deliveries.recoverPart(organizationId, { limit: 5001 }), { code: INVALID_INPUT })
    })

    test('deliveries.recover() ends, also while all it recovers is skipped again and new ones come in', async () => {
      let recoveries = 0
      const given = await setUp((store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          async recover(request) {
            const recovered = await store.deliveries.recover(request)
            const { organizationId } = request
            assert.ok(recoveries++ < 5, 'has no end')
            // The claims of a delivery loop skip what waits for a disabled endpoint.
            while (
              (await store.deliveries.list(organizationId, { states: ['pending'] }, 1, null)).length > 0
            ) {
              await claim(store, organizationId)
            }
            await publish(store, organizationId)
            return recovered
          },
        },
      }))
      const { deliveries, organizationId } = given
      await skipMany(given, 77, 13)
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 1001 })
      assert.equal(recoveries, 2)
    })

    test('deliveries.recover() names everything of a filter that cannot be used', async () => {
      const { deliveries } = await setUp()
      const call = deliveries.recover(
        '',
        untyped({ type: 's3cret', since: 's3cret', until: 7, endpointId: 7 }),
      )
      const about =
        / as organizationId must [^;]*; endpointId must [^;]*; type must [^;]*; since must [^;]*; until must [^;]*$/
      await assertRefused(call, INVALID_INPUT, 'Cannot recover deliveries', about)
    })
  })
})
