import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { INVALID_INPUT, NOT_FOUND } from '../../lib/base/errors.ts'
import { createDeveloperSettings, type DeliveryQuery } from '../../lib/settings.ts'
import type { AttemptResult } from '../../lib/webhooks/claims.ts'
import { createSetUp, idsOf, makeOfEachState, publishSeveral } from './_deliveries.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, publish, record } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('deliveries.list()', () => {
    test('deliveries.list() returns the state of each delivery, newest first', async () => {
      const given = await setUp()
      const { deliveries, organizationId, endpointId } = given
      const made = await makeOfEachState(given)
      const { data, next } = await deliveries.list(organizationId)
      assert.equal(next, null)
      assert.deepEqual(
        data.map(({ id, state, attempts, reason }) => ({ id, state, attempts, reason })),
        [
          { id: made.pending, state: 'pending', attempts: 0, reason: null },
          { id: made.sending, state: 'sending', attempts: 1, reason: null },
          { id: made.skipped, state: 'skipped', attempts: 0, reason: 'endpoint_disabled' },
          { id: made.failed, state: 'failed', attempts: 1, reason: 'http_500' },
          { id: made.delivered, state: 'delivered', attempts: 1, reason: null },
        ],
      )
      for (const { eventId, type, endpointId: endpoint, state, createdAt, dueAt, finishedAt } of data) {
        assert.match(eventId, /^evt_/)
        assert.deepEqual([type, endpoint], ['client.created', endpointId])
        assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
        assert.equal(dueAt !== null, state === 'pending')
        assert.equal(finishedAt !== null, !['pending', 'sending'].includes(state))
      }
    })

    test('deliveries.list() filters by endpoint, type and states, also combined', async () => {
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
      assert.deepEqual(idsOf(await list({ states: ['skipped', 'failed', 'cancelled'] })), [
        made.skipped,
        made.failed,
      ])
      assert.equal((await list({ endpointId: other, type: 'invoice.paid', states: ['pending'] })).length, 1)
      assert.deepEqual(await list({ endpointId: other, type: 'client.created' }), [])
      for (const unknown of ['we_unknown', '', 'nul \0', '\ud800', 'x'.repeat(1000)]) {
        assert.deepEqual(await list({ endpointId: unknown }), [])
      }
    })

    test('deliveries.list() filters by the response to the last attempt in every state', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId, endpointId } = given
      await publishSeveral(given, 8)
      const claimed = await claim(store, organizationId)
      const answers: readonly [AttemptResult['outcome'], Partial<AttemptResult>][] = [
        ['delivered', {}],
        ['retry', { status: 404 }],
        ['failed', { status: 410, reason: 'gone' }],
        ['retry', { status: 302 }],
        ['failed', {}],
        ['failed', { status: null, error: 'timeout', reason: 'timeout' }],
        // Treated as 5xx, see RFC 9110, section 15.
        ['failed', { status: 999, reason: 'http_999' }],
      ]
      for (const [place, [outcome, changes]] of answers.entries()) {
        await record(store, claimed.slice(place, place + 1), outcome, changes)
      }
      const list = async (query: DeliveryQuery) => idsOf((await deliveries.list(organizationId, query)).data)
      const idOf = (...places: number[]) => places.map((place) => claimed[place]?.id)
      assert.deepEqual(await list({ response: '2xx' }), idOf(0))
      assert.deepEqual(await list({ response: '3xx' }), idOf(3))
      assert.deepEqual(await list({ response: '4xx' }), idOf(2, 1))
      assert.deepEqual(await list({ response: '5xx' }), idOf(6, 4))
      assert.deepEqual(await list({ response: 'none' }), idOf(5))
      assert.deepEqual(await list({ response: '4xx', states: ['pending'], endpointId }), idOf(1))
      assert.deepEqual(await list({ response: '4xx', states: ['delivered'] }), [])
      const { data, next } = await deliveries.list(organizationId, { response: '4xx', limit: 1 })
      assert.deepEqual([idsOf(data), next], [idOf(2), claimed[2]?.id])
      assert.deepEqual(await list({ response: '4xx', limit: 1, before: next }), idOf(1))
      const call = deliveries.list(organizationId, untyped({ response: '1xx' }))
      await assertRefused(call, INVALID_INPUT, 'Cannot list deliveries', /response must be one of 2xx/)
    })

    test('deliveries.list() with a response inspects 5000 deliveries and continues from there', async () => {
      const delivery = { lastStatus: 500, lastError: null }
      let listed = 0
      const { deliveries, organizationId } = await setUp((store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          list: async (_, __, limit) =>
            Array.from({ length: limit }, () => untyped({ ...delivery, id: `dlv_${listed++}` })),
        },
      }))
      const { data, next } = await deliveries.list(organizationId, { response: '4xx' })
      assert.deepEqual([data, next, listed], [[], 'dlv_4999', 5000])
    })

    test('deliveries.list() accepts since (inclusive) and until (exclusive) as Date and ISO 8601', async () => {
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

    test('deliveries.list() returns pages with every delivery once, and null after the last', async () => {
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

    test('deliveries.list() returns 50 by default and up to 200', async () => {
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

    test('deliveries.list() names everything that is invalid in a query, each once', async () => {
      const { deliveries, organizationId } = await setUp()
      const refused: [string, unknown[], RegExp][] = [
        [
          'limit',
          [0, 201, 1.5, -1, Number.NaN, '50', null],
          / because limit must be a whole number from 1 to 200$/,
        ],
        ['type', ['s3cret', '', null, 7], / because type must be one of client\.created, /],
        [
          'states',
          [[], ['s3cret'], 'pending', null, [null]],
          / because states must be one or more of pending, /,
        ],
        ['endpointId', [7, null, {}], / because endpointId must be a string$/],
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
          / because before must be null, or the next of an earlier page: dlv_ and 26 letters and digits$/,
        ],
        ...['since', 'until'].map((name): [string, unknown[], RegExp] => [
          name,
          ['s3cret', '', '2026-03-14', '2026-02-30T00:00:00Z', new Date(-1), new Date(Number.NaN), 7, null],
          new RegExp(` because ${name} must be a Date, or ISO 8601 with a time zone, from 1970 to 9999$`),
        ]),
      ]
      for (const [name, values, about] of refused) {
        for (const value of values) {
          const call = deliveries.list(organizationId, untyped({ [name]: value }))
          await assertRefused(call, INVALID_INPUT, 'Cannot list deliveries', about)
        }
      }
      const call = deliveries.list('', untyped({ limit: 0, type: 's3cret' }))
      const about = / because organizationId must [^;]*; type must [^;]*; limit must [^;]*$/
      await assertRefused(call, INVALID_INPUT, 'Cannot list deliveries', about)
    })
  })

  describe('deliveries.get()', () => {
    test('deliveries.get() returns the request body and every attempt, oldest first', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const [eventId] = await publishSeveral(given, 1)
      const failed = { delayMs: 0, startedAgoMs: 1000, endedAgoMs: 500 }
      await record(store, await claim(store, organizationId), 'retry', failed)
      const refused = { status: null, error: 'connection_refused', tlsMs: null, firstByteMs: null }
      await record(store, await claim(store, organizationId), 'failed', refused)
      const { data } = await deliveries.list(organizationId)
      const [{ id = '', ...shown } = {}] = data
      const { body, attemptLog, ...delivery } = await deliveries.get(organizationId, id)
      assert.deepEqual(delivery, { id, ...shown })
      assert.deepEqual([delivery.state, delivery.attempts, delivery.reason], ['failed', 2, 'http_500'])
      assert.equal(JSON.parse(body).id, eventId)
      const [one, two, ...others] = attemptLog
      assert.ok(one && two && others.length === 0)
      const { startedAt, headers, ...first } = one
      assert.match(startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.ok(Math.abs(Date.now() - 1000 - Date.parse(startedAt)) < 60_000)
      const measured = { durationMs: 20, dnsMs: 1, connectMs: 2, tlsMs: 3, firstByteMs: 4 }
      assert.deepEqual(first, {
        number: 1,
        ...measured,
        status: 500,
        error: null,
        bodyExcerpt: 'no',
        location: null,
      })
      assert.deepEqual(headers?.response, {})
      const { startedAt: _, ...second } = two
      assert.deepEqual(second, {
        number: 2,
        ...measured,
        ...refused,
        bodyExcerpt: 'no',
        location: null,
        headers: null,
      })
    })

    test('deliveries.get() returns the headers of an attempt as sent, with the signature after its tolerance', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const [eventId] = await publishSeveral(given, 1)
      const signed = { 'X-SERVICE-Signature': 't=1,v1=ab' }
      const headers = { request: { 'X-Key': '(hidden)' }, signed, response: { server: 'nginx' } }
      await record(store, await claim(store, organizationId), 'retry', { status: 401, headers, delayMs: 0 })
      const old = { status: 401, headers, startedAgoMs: 600_000, endedAgoMs: 599_000 }
      await record(store, await claim(store, organizationId), 'failed', old)
      const { data } = await deliveries.list(organizationId)
      const { attemptLog } = await deliveries.get(organizationId, data[0]?.id ?? '')
      const request = {
        'Content-Type': 'application/json',
        'X-SERVICE-Event-Id': eventId,
        'X-SERVICE-Event-Type': 'client.created',
        'X-SERVICE-Signature': '(hidden)',
        'X-Key': '(hidden)',
      }
      assert.deepEqual(
        attemptLog.map((attempt) => attempt.headers),
        [
          { request, response: { server: 'nginx' } },
          { request: { ...request, ...signed }, response: { server: 'nginx' } },
        ],
      )
      const endpointId = data[0]?.endpointId ?? ''
      const again = await createDeveloperSettings(store).events.redeliver(organizationId, eventId ?? '', {
        endpointId,
      })
      assert.deepEqual(again.attemptLog, attemptLog, 'events.redeliver() shows them alike')
    })

    test('deliveries.get() returns the headers of a 2xx without its signature, and none if the process died', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const [eventId] = await publishSeveral(given, 1)
      const died = { status: null, error: 'interrupted', delayMs: 0 }
      await record(store, await claim(store, organizationId), 'retry', died)
      await record(store, await claim(store, organizationId), 'delivered', { status: 204 })
      const { data } = await deliveries.list(organizationId)
      const { attemptLog } = await deliveries.get(organizationId, data[0]?.id ?? '')
      const request = {
        'Content-Type': 'application/json',
        'X-SERVICE-Event-Id': eventId,
        'X-SERVICE-Event-Type': 'client.created',
        'X-SERVICE-Signature': '(hidden)',
      }
      assert.deepEqual(
        attemptLog.map((attempt) => attempt.headers),
        [null, { request, response: {} }],
      )
    })

    test("deliveries.get(), redeliver() and cancel() throw the same not_found for an unknown id, another organization's id and an invalid id", async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      const theirs = await setUp()
      await publishSeveral(theirs, 1)
      const other = createDeveloperSettings(theirs.store).deliveries
      const [foreign] = (await other.list(theirs.organizationId)).data
      for (const id of [foreign?.id ?? '', 'dlv_unknown', '', 'nul \0', '\ud800', 's3cret']) {
        const about =
          /^Cannot (show|redeliver|cancel) a delivery because the organization has no such record$/
        await assertRefused(deliveries.get(organizationId, id), NOT_FOUND, 'Cannot show a delivery', about)
        const call = deliveries.redeliver(organizationId, id)
        await assertRefused(call, NOT_FOUND, 'Cannot redeliver a delivery', about)
        const cancel = deliveries.cancel(organizationId, id)
        await assertRefused(cancel, NOT_FOUND, 'Cannot cancel a delivery', about)
      }
      for (const id of [null, 7, undefined]) {
        const about =
          id === undefined ? / because deliveryId must be given$/ : / because deliveryId must be a string$/
        const get = deliveries.get(organizationId, untyped(id))
        await assertRefused(get, INVALID_INPUT, 'Cannot show a delivery', about)
        const redeliver = deliveries.redeliver(organizationId, untyped(id))
        await assertRefused(redeliver, INVALID_INPUT, 'Cannot redeliver a delivery', about)
        const cancel = deliveries.cancel(organizationId, untyped(id))
        await assertRefused(cancel, INVALID_INPUT, 'Cannot cancel a delivery', about)
      }
    })
  })
})
