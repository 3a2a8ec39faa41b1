import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'
import { newEntry } from '../_audit.ts'
import {
  addEndpoint,
  countIn,
  createTestSender,
  deliveriesOf,
  describeOnStores,
  type LoopStore,
  NO_POLL,
  ORG,
  onlyDelivery,
  publish,
  publishMany,
  until,
  withDeliveries,
} from './_loop.ts'

// Deliveries that can't be read don't block others. The arithmetic is in reader.test.ts, and real broken rows
// are in test/postgres/unreadable.test.ts.

describeOnStores('A delivery that cannot be read', (under) => {
  /**
   * A store that fails every call that returns the content of a given event, like a transaction that is rolled back.
   */
  function failingFor(eventId: string, calls = { whole: 0, single: 0 }): LoopStore {
    const { deliveries } = under.store
    return withDeliveries(under.store, {
      async claim(request) {
        const claims = await deliveries.claim(request)
        if (!claims.deliveries.some((delivery) => delivery.eventId === eventId)) return claims
        calls.whole++
        const { token } = request
        const claimed = [...claims.deliveries, ...claims.unread]
        await deliveries.release(
          claimed.map(({ organizationId, id }) => ({ organizationId, deliveryId: id, token })),
        )
        throw storeUnavailable('The statement had no answer')
      },
      async read(claims) {
        const read = await deliveries.read(claims)
        if (!read.some((delivery) => delivery.eventId === eventId)) return read
        calls.single++
        throw storeUnavailable('The statement had no answer')
      },
    })
  }

  test('fails as unreadable with a notice, while all others arrive', async () => {
    await addEndpoint(under.store)
    await addEndpoint(under.store, {}, 'org_2')
    const poison = await publish(under.store)
    const notices: Notice[] = []
    const errors: unknown[] = []
    const calls = { whole: 0, single: 0 }
    const sender = createTestSender()
    const options = {
      pollIntervalMs: 20,
      onNotice: (notice: Notice) => notices.push(notice),
      onError: (error: unknown) => errors.push(error),
    }
    const loop = under.loop(sender, options, failingFor(poison.id, calls))
    loop.start()
    const published = [await publish(under.store), ...(await publishMany(under.store, 5, 'org_2'))]
    await sender.sent(6)
    // While the delivery is suspected, others are read and arrive.
    await until(
      'it is set aside',
      async () => {
        published.push(await publish(under.store, {}, 'org_2'))
        await sender.sent(published.length)
        return (await countIn(under.store, 'failed')) === 1
      },
      15_000,
    )
    const events = [await publish(under.store), ...(await publishMany(under.store, 5, 'org_2'))]
    published.push(...events)
    await sender.sent(published.length)
    await until('the results are written', async () => {
      return (await loop.stats()).attempts.delivered === published.length
    })
    await loop.stop()

    assert.deepEqual(new Set(sender.eventIds), new Set(published.map(({ id }) => id)))
    assert.equal(sender.requests.length, published.length)
    const found = await deliveriesOf(under.store)
    const delivery = found.find(({ eventId }) => eventId === poison.id)
    assert.deepEqual([delivery?.state, delivery?.reason, delivery?.attempts], ['failed', 'unreadable', 1])
    assert.deepEqual(
      delivery?.attemptLog.map(({ number, status, error }) => [number, status, error]),
      [[1, null, 'unreadable']],
    )
    for (const { eventId, state, attempts } of found) {
      if (eventId !== poison.id) assert.deepEqual([state, attempts], ['delivered', 1])
    }
    const { endpointId = '', id: deliveryId = '' } = delivery ?? {}
    assert.deepEqual(notices, [
      {
        kind: 'delivery_failed',
        organizationId: ORG,
        endpointId,
        deliveryId,
        eventId: poison.id,
        type: poison.type,
        reason: 'unreadable',
        count: 1,
      },
    ])
    assert.deepEqual((await loop.stats()).attempts.failed, 1)
    assert.equal((await under.store.endpoints.list(ORG))[0]?.failures, 0)
    // At first a claim failed as a whole, then only the delivery.
    assert.ok(calls.whole >= 1 && calls.whole <= 2, `${calls.whole} claims failed`)
    assert.ok(calls.single >= 3 && calls.single <= 5, `${calls.single} reads failed`)
    assert.ok(errors.length <= 8, `${errors.length} errors`)

    // After a recovery, the delivery has a new round.
    await under.store.deliveries.recover({
      organizationId: ORG,
      ids: [deliveryId],
      filter: {},
      limit: 1,
      entry: newEntry(),
    })
    assert.deepEqual(await under.loop(createTestSender()).runOnce(), {
      delivered: 1,
      retried: 0,
      failed: 0,
    })
  })

  test("doesn't fail while no other delivery can be read, because the database may be slow", async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    const calls = { whole: 0, single: 0 }
    let isSlow = true
    const failing = failingFor(id, calls)
    const store = withDeliveries(under.store, {
      claim: (request) => (isSlow ? failing : under.store).deliveries.claim(request),
      read: (claims) => (isSlow ? failing : under.store).deliveries.read(claims),
    })
    const sender = createTestSender()
    const loop = under.loop(sender, { pollIntervalMs: 20 }, store)
    loop.start()
    await until('it has failed alone three times', () => calls.single >= 3, 15_000)
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state === 'failed', attempts <= 1], [false, true])
    isSlow = false
    await sender.sent(1)
    assert.deepEqual(sender.eventIds, [id])
    // Claims include content again.
    const before = calls.single
    await publish(under.store)
    await sender.sent(2)
    assert.equal(calls.single, before)
    await loop.stop()
  })

  test('is released by a stop', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    let isAsked = false
    const store = withDeliveries(under.store, {
      // Every body is larger than a claim.
      claim: (request) => under.store.deliveries.claim({ ...request, maxBytes: 0 }),
      read: () => {
        isAsked = true
        return new Promise(() => {})
      },
    })
    const loop = under.loop(createTestSender(), NO_POLL, store)
    loop.start()
    await until('it is being read', () => isAsked)
    assert.equal((await onlyDelivery(under.store)).state, 'sending')
    await loop.stop()
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts], ['pending', 0])
  })
})

describeOnStores('Deliveries that are larger than a claim', (under) => {
  test("are read separately and delivered, including by runOnce(), up to the endpoint's capacity", async () => {
    await addEndpoint(under.store)
    const events = await publishMany(under.store, 20)
    let most = 0
    let now = 0
    const store = withDeliveries(under.store, {
      claim: (request) =>
        under.store.deliveries.claim({ ...request, maxBytes: Math.min(1, request.maxBytes) }),
      async read(claims) {
        most = Math.max(most, ++now)
        const read = await under.store.deliveries.read(claims)
        now--
        return read
      },
    })
    const sender = createTestSender()
    const counts = await under.loop(sender, {}, store).runOnce()
    assert.deepEqual(counts, { delivered: 20, retried: 0, failed: 0 })
    assert.deepEqual(new Set(sender.eventIds), new Set(events.map(({ id }) => id)))
    // An organization can only have one read at a time.
    assert.equal(most, 1)
  })
})
