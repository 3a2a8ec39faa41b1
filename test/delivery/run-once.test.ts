import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import {
  addEndpoint,
  createGate,
  createTestSender,
  deliveriesOf,
  describeOnStores,
  hang,
  NO_POLL,
  publish,
  publishMany,
  sleep,
  until,
  withDeliveries,
} from './_loop.ts'

// A loop that runs once, for schedulers.

describeOnStores('runOnce()', (under) => {
  test('delivers everything due, even more than fits at once, and returns the counts', async () => {
    for (let number = 0; number < 3; number++) {
      await addEndpoint(under.store, {}, `org_${number}`)
      await publishMany(under.store, 40, `org_${number}`)
    }
    const sender = createTestSender((_request, number) => (number % 10 === 0 ? { status: 500 } : {}))
    const loop = under.loop(sender, { concurrency: 4 })
    assert.deepEqual(await loop.runOnce(), { delivered: 108, retried: 12, failed: 0 })
    assert.equal(new Set(sender.eventIds).size, 120)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 })
    const { due, oldestDueMs, sending, attempts } = await loop.stats()
    assert.deepEqual([due, oldestDueMs, sending], [0, 0, 0])
    assert.deepEqual(attempts, { delivered: 108, retried: 12, failed: 0 })
  })

  test('is rejected while the loop is started or already running once, and so is start()', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const gate = createGate()
    const sender = createTestSender(async () => {
      await gate.opened
      return {}
    })
    const loop = under.loop(sender)
    const running = loop.runOnce()
    await sender.sent(1)
    await assert.rejects(loop.runOnce(), { name: 'TypeError', message: /running once/ })
    assert.throws(() => loop.start(), { name: 'TypeError', message: /running once/ })
    gate.open()
    assert.deepEqual(await running, { delivered: 1, retried: 0, failed: 0 })
    loop.start()
    await assert.rejects(loop.runOnce(), { name: 'TypeError', message: /running/ })
    await loop.stop()
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 })
  })

  test('is ended by stop(), which releases the rest', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 20)
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender)
    const running = loop.runOnce()
    await sender.sent(4)
    await loop.stop({ timeoutMs: 10 })
    assert.deepEqual(await running, { delivered: 0, retried: 4, failed: 0 })
    const states = (await deliveriesOf(under.store)).map(({ state, attempts }) => `${state} ${attempts}`)
    assert.deepEqual(states.sort(), [...Array(16).fill('pending 0'), ...Array(4).fill('pending 1')])
  })

  test("throws the store's error once the attempts in flight have ended and were recorded", async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 8)
    let claims = 0
    const store = withDeliveries(under.store, {
      async claim(request) {
        if (++claims > 1) throw storeUnavailable('Not now')
        return under.store.deliveries.claim(request)
      },
    })
    const sender = createTestSender(async () => {
      await sleep(40)
      return {}
    })
    const loop = under.loop(sender, {}, store)
    await assert.rejects(loop.runOnce(), { code: 'store_unavailable' })
    const states = (await deliveriesOf(under.store)).map(({ state }) => state)
    assert.deepEqual(states.sort(), [...Array(4).fill('delivered'), ...Array(4).fill('pending')])
  })

  test("and the running loop wait even if hundreds of endpoints have something that isn't due yet", async () => {
    const ENDPOINTS = 230
    await Promise.all(Array.from({ length: ENDPOINTS }, () => addEndpoint(under.store)))
    await publish(under.store)
    let claims = 0
    const store = withDeliveries(under.store, {
      claim(request) {
        claims++
        return under.store.deliveries.claim(request)
      },
    })
    const sender = createTestSender(() => ({ status: 500 }))
    const loop = under.loop(sender, NO_POLL, store)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: ENDPOINTS, failed: 0 })
    claims = 0
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 })
    assert.ok(claims >= 1 && claims <= 4, `${claims} claims`)
    claims = 0
    loop.start()
    await until('the loop claims', () => claims >= 1)
    await sleep(150)
    assert.ok(claims <= 7, `${claims} claims`)
    // The round still visits all endpoints.
    const lastId = await addEndpoint(under.store, {}, 'org_zzz')
    await publish(under.store, {}, 'org_zzz')
    await sender.sent(ENDPOINTS + 1)
    assert.ok(lastId)
  })
})
