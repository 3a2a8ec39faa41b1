import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { INVALID_INPUT, INVALID_STATE } from '../../lib/base/errors.ts'
import {
  createSetUp,
  idsOf,
  makeOfEachState,
  nextMillisecond,
  publishSeveral,
  skipMany,
} from './_deliveries.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('deliveries.redeliver()', () => {
    for (const state of ['delivered', 'failed', 'skipped'] as const) {
      test(`deliveries.redeliver() sends a ${state} delivery again with the same event and a new round of attempts`, async () => {
        const given = await setUp()
        const { deliveries, store, organizationId } = given
        const made = await makeOfEachState(given)
        // Delivers earlier pending deliveries first.
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

    test('deliveries.redeliver() rejects a delivery that has yet to be sent, and changes nothing', async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      const made = await makeOfEachState(given)
      for (const state of ['pending', 'sending'] as const) {
        const before = await deliveries.get(organizationId, made[state])
        const call = deliveries.redeliver(organizationId, made[state])
        const about = new RegExp(
          ` because the state of the delivery is ${state}: wait until it has completed$`,
        )
        await assertRefused(call, INVALID_STATE, 'Cannot redeliver a delivery', about)
        assert.deepEqual(await deliveries.get(organizationId, made[state]), before)
      }
    })

    test('deliveries.redeliver() makes a delivery that is backing off due now in a new round', async () => {
      const { store, deliveries, organizationId } = await setUp()
      await publish(store, organizationId)
      await record(store, await claim(store, organizationId), 'retry')
      const [before] = (await deliveries.list(organizationId)).data
      const id = before?.id ?? ''
      assert.ok(Date.parse(before?.dueAt ?? '') > Date.now() + 10_000, `due at ${before?.dueAt}`)
      const { state, dueAt, attempts } = await deliveries.redeliver(organizationId, id)
      assert.deepEqual([state, attempts], ['pending', 1])
      assert.ok(Date.parse(dueAt ?? '') <= Date.now() + 1000, `due at ${dueAt}`)
      const [claimed] = await claim(store, organizationId)
      assert.deepEqual([claimed?.id, claimed?.attempt], [id, 1])
    })

    test('deliveries.redeliver() rejects a delivery of a removed endpoint', async () => {
      const given = await setUp()
      const { deliveries, endpoints, organizationId, endpointId } = given
      const { delivered } = await makeOfEachState(given)
      await endpoints.remove(organizationId, endpointId)
      const call = deliveries.redeliver(organizationId, delivered)
      const about = / because the endpoint of the delivery has been removed$/
      await assertRefused(call, INVALID_STATE, 'Cannot redeliver a delivery', about)
      assert.equal((await deliveries.get(organizationId, delivered)).state, 'delivered')
    })

    test('deliveries.redeliver() rejects a pending delivery of a removed endpoint for that reason, as waiting is no use', async () => {
      const { store, deliveries, endpoints, organizationId, endpointId } = await setUp()
      await publish(store, organizationId)
      await record(store, await claim(store, organizationId), 'retry')
      const [{ id = '' } = {}] = (await deliveries.list(organizationId)).data
      await endpoints.remove(organizationId, endpointId)
      assert.equal((await deliveries.get(organizationId, id)).state, 'pending')
      const about = / because the endpoint of the delivery has been removed$/
      await assertRefused(
        deliveries.redeliver(organizationId, id),
        INVALID_STATE,
        'Cannot redeliver a delivery',
        about,
      )
    })
  })

  describe('deliveries.cancel()', () => {
    test('deliveries.cancel() cancels a pending delivery and returns the new state', async () => {
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

    test("a cancelled delivery isn't recovered but can be redelivered", async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      await publishSeveral(given, 1)
      const [{ id = '' } = {}] = (await deliveries.list(organizationId)).data
      await deliveries.cancel(organizationId, id)
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 0, next: null })
      assert.deepEqual(await claim(store, organizationId), [])
      await deliveries.redeliver(organizationId, id)
      assert.deepEqual(idsOf(await claim(store, organizationId)), [id])
    })

    test('deliveries.cancel() rejects a delivery that is being sent or finished, and changes nothing', async () => {
      const given = await setUp()
      const { deliveries, organizationId } = given
      const made = await makeOfEachState(given)
      await deliveries.cancel(organizationId, made.pending)
      for (const [id, text] of [
        [made.sending, 'sending'],
        [made.delivered, 'delivered'],
        [made.failed, 'failed'],
        [made.skipped, 'skipped'],
        [made.pending, 'cancelled'],
      ] as const) {
        const before = await deliveries.get(organizationId, id)
        const about = new RegExp(` because the state of the delivery is ${text}$`)
        const call = deliveries.cancel(organizationId, id)
        await assertRefused(call, INVALID_STATE, 'Cannot cancel a delivery', about)
        assert.deepEqual(await deliveries.get(organizationId, id), before)
      }
    })
  })

  describe('deliveries.recover()', () => {
    test('deliveries.recover() sends failed and skipped deliveries again, and no others', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId } = given
      const made = await makeOfEachState(given)
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 2, next: null })
      const states = new Map((await deliveries.list(organizationId)).data.map(({ id, state }) => [id, state]))
      assert.equal(states.get(made.failed), 'pending')
      assert.equal(states.get(made.skipped), 'pending')
      assert.equal(states.get(made.delivered), 'delivered')
      assert.equal(states.get(made.sending), 'sending')
      const claimed = idsOf(await claim(store, organizationId))
      assert.deepEqual(claimed.sort(), [made.failed, made.skipped, made.pending].sort())
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 0, next: null })
    })

    test('deliveries.recover() filters by endpoint, type and time', async () => {
      const given = await setUp()
      const { deliveries, store, organizationId, endpointId, register } = given
      await register()
      await publish(store, organizationId, 'invoice.paid')
      await nextMillisecond()
      await publish(store, organizationId, 'client.created')
      const claimed = await claim(store, organizationId)
      await record(store, claimed, 'failed')
      assert.equal(claimed.length, 4)
      const { data } = await deliveries.list(organizationId, { endpointId, type: 'client.created' })
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

    test('deliveries.recover() ignores removed endpoints and other organizations', async () => {
      const given = await setUp()
      const { deliveries, endpoints, store, organizationId, endpointId, register } = given
      const kept = await register()
      await publish(store, organizationId)
      await record(store, await claim(store, organizationId), 'failed')
      await endpoints.remove(organizationId, endpointId)
      assert.deepEqual(await deliveries.recover(newOrganization()), { recovered: 0, next: null })
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 1, next: null })
      const [delivery] = await claim(store, organizationId)
      assert.equal(delivery?.endpointId, kept)
    })

    test('deliveries.recover() continues in batches of 1000 until the end', async () => {
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
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 2001, next: null })
      assert.deepEqual(batches, [1000, 1000, 1])
      assert.equal((await claim(store, organizationId)).length, 2001)
    })

    test('deliveries.recover() with a limit recovers a part and returns the start of the next, and count() returns the rest', async () => {
      const given = await setUp()
      const { deliveries, endpoints, organizationId } = given
      for (const id of await skipMany(given, 4, 1)) await endpoints.enable(organizationId, id)
      const left = () => deliveries.count(organizationId, { states: ['skipped'] })
      const all = await left()
      const first = await deliveries.recover(organizationId, { limit: 3 })
      assert.equal(first.recovered, 3)
      assert.ok(first.next)
      assert.equal(await left(), all - 3)
      const second = await deliveries.recover(organizationId, { before: first.next })
      assert.deepEqual(second, { recovered: all - 3, next: null })
      assert.equal(await left(), 0)
      await assert.rejects(deliveries.recover(organizationId, { limit: 0 }), { code: INVALID_INPUT })
    })

    test('deliveries.recover() ends even if recovered deliveries are skipped again and new ones arrive', async () => {
      let recoveries = 0
      const given = await setUp((store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          async recover(request) {
            const recovered = await store.deliveries.recover(request)
            const { organizationId } = request
            assert.ok(recoveries++ < 5, 'has no end')
            // The claims of a delivery loop skip the pending deliveries of a disabled endpoint.
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
      assert.deepEqual(await deliveries.recover(organizationId), { recovered: 1001, next: null })
      assert.equal(recoveries, 2)
    })

    test('deliveries.recover() names everything that is invalid in a filter', async () => {
      const { deliveries } = await setUp()
      const call = deliveries.recover(
        '',
        untyped({ type: 's3cret', since: 's3cret', until: 7, endpointId: 7 }),
      )
      const about =
        / because organizationId must [^;]*; endpointId must [^;]*; type must [^;]*; since must [^;]*; until must [^;]*$/
      await assertRefused(call, INVALID_INPUT, 'Cannot recover deliveries', about)
    })
  })
})
