import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import {
  addEndpoint,
  countIn,
  createGate,
  createTestLog,
  createTestSender,
  deliveriesOf,
  describeOnMemory,
  describeOnStores,
  NO_POLL,
  onlyDelivery,
  publish,
  publishMany,
  sleep,
  until,
  untyped,
  withDeliveries,
} from './_loop.ts'

// Stores that fail or are slow.

describeOnStores('A store that fails for a while', (under) => {
  /** Makes the next call of a method fail, either before it does anything or afterwards, so only the result is lost. */
  function failing(verb: 'claim' | 'writeResults' | 'release', when: 'before' | 'after') {
    let hasFailed = false
    const { deliveries } = under.store
    async function call<T>(work: () => Promise<T>): Promise<T> {
      const isFailing = !hasFailed
      hasFailed = true
      if (isFailing && when === 'before') throw storeUnavailable('The store is away')
      const answer = await work()
      if (isFailing) throw storeUnavailable('The answer was lost')
      return answer
    }
    return withDeliveries(under.store, {
      ...(verb === 'claim' ? { claim: (request) => call(() => deliveries.claim(request)) } : {}),
      ...(verb === 'writeResults'
        ? { writeResults: (...args) => call(() => deliveries.writeResults(...args)) }
        : {}),
      ...(verb === 'release' ? { release: (claims) => call(() => deliveries.release(claims)) } : {}),
    })
  }

  for (const verb of ['claim', 'writeResults'] as const) {
    test(`${verb}() runs but its result is lost: the loop continues, and each event is sent once, in one attempt`, async () => {
      await addEndpoint(under.store)
      const events = await publishMany(under.store, 3)
      const errors: unknown[] = []
      const sender = createTestSender()
      const options = { ...NO_POLL, onError: (error: unknown) => errors.push(error) }
      const loop = under.loop(sender, options, failing(verb, 'after'))
      loop.start()
      await until('all are delivered', async () => (await countIn(under.store, 'delivered')) === 3)
      await loop.stop()
      assert.deepEqual(new Set(sender.eventIds), new Set(events.map(({ id }) => id)))
      assert.equal(sender.requests.length, 3)
      for (const { attempts, attemptLog } of await deliveriesOf(under.store)) {
        assert.deepEqual([attempts, attemptLog.length], [1, 1])
      }
      assert.equal(errors.length, 1)
    })
  }

  test('release() fails: the deliveries are still released when the loop stops', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 30)
    const gate = createGate()
    const sender = createTestSender(async (_request, number) => {
      if (number > 8) await gate.opened
      return {}
    })
    const loop = under.loop(sender, NO_POLL, failing('release', 'before'))
    loop.start()
    await sender.sent(12)
    const stopping = loop.stop()
    gate.open()
    await stopping
    const deliveries = await deliveriesOf(under.store)
    assert.deepEqual(
      deliveries.filter(({ state }) => state === 'sending'),
      [],
    )
    assert.equal(deliveries.filter(({ attempts }) => attempts === 1).length, sender.requests.length)
  })
})

describeOnMemory('A store that is slow', (under) => {
  test('to write results gets no more of them, and nothing is claimed until it has caught up', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 20)
    const gate = createGate()
    const store = withDeliveries(under.store, {
      async writeResults(...results) {
        await gate.opened
        return under.store.deliveries.writeResults(...results)
      },
    })
    const sender = createTestSender()
    under.loop(sender, { ...NO_POLL, concurrency: 2 }, store).start()
    await sender.sent(9)
    await sleep(20)
    assert.ok(sender.requests.length <= 10, `${sender.requests.length} sent`)
    gate.open()
    await sender.sent(20)
  })

  test('to respond to a claim gets back the deliveries not sent within the lease, and returns them again', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    let claims = 0
    let released = 0
    const store = withDeliveries(under.store, {
      async claim(request) {
        const answer = await under.store.deliveries.claim(request)
        if (++claims === 1) await sleep(350)
        return answer
      },
      async release(given) {
        released += given.length
        return under.store.deliveries.release(given)
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, { leaseMs: 600 }, store)
    assert.deepEqual(await loop.runOnce(), { delivered: 1, retried: 0, failed: 0 })
    assert.deepEqual(
      [sender.requests.length, released, (await onlyDelivery(under.store)).attempts],
      [1, 1, 1],
    )
  })
})

describeOnMemory('A store with a bug', (under) => {
  test('in claim() is reported and retried with increasing pauses, however much is published', async (t) => {
    await addEndpoint(under.store)
    const bug = new TypeError('a bug')
    const times: number[] = []
    const store = withDeliveries(under.store, {
      claim: () => {
        times.push(performance.now())
        throw bug
      },
    })
    const { logger, lines } = createTestLog()
    const errors: unknown[] = []
    const loop = under.loop(
      createTestSender(),
      { ...NO_POLL, logger, onError: (error) => errors.push(error) },
      store,
    )
    loop.start()
    t.after(() => loop.stop())
    await until('it was asked three times', async () => {
      await publish(under.store)
      return times.length === 3
    })
    assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 245)
    assert.ok((times[2] ?? 0) - (times[1] ?? 0) >= 495)
    assert.ok(errors.length >= 2 && errors.every((error) => error === bug))
    assert.deepEqual([lines[0]?.level, lines[0]?.message], ['warn', 'Webhook deliveries held up'])
  })

  test('that returns nonsense is reported, and the loop continues after the next valid result', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    let claims = 0
    const store = withDeliveries(under.store, {
      claim: (request) =>
        ++claims === 1 ? Promise.resolve(untyped(undefined)) : under.store.deliveries.claim(request),
    })
    const errors: unknown[] = []
    const sender = createTestSender()
    under.loop(sender, { ...NO_POLL, onError: (error) => errors.push(error) }, store).start()
    await sender.sent(1)
    assert.equal(errors.length, 1)
    assert.ok(errors[0] instanceof TypeError)
  })

  test('in watch() means that the loop only polls', async () => {
    await addEndpoint(under.store)
    const errors: unknown[] = []
    const bug = new TypeError('a bug')
    const fail = (): never => {
      throw bug
    }
    const sender = createTestSender()
    for (const watch of [fail, () => ({ setIdle: async () => false, end: fail })]) {
      const store = withDeliveries(under.store, { watch })
      const options = { pollIntervalMs: 5, onError: (error: unknown) => errors.push(error) }
      const loop = under.loop(sender, options, store)
      loop.start()
      await publish(under.store)
      await sender.sent(watch === fail ? 1 : 2)
      await loop.stop()
    }
    assert.deepEqual(errors, [bug, bug])
  })

  test('in writeResults() delays neither the stop nor the process', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const store = withDeliveries(under.store, {
      writeResults: () => {
        throw new TypeError('a bug')
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL, store)
    loop.start()
    await sender.sent(1)
    const stoppedAt = performance.now()
    await loop.stop()
    assert.ok(performance.now() - stoppedAt < 6000)
  })
})

describeOnMemory('A store that is slow', (under) => {
  test("doesn't delay a backlog for many times as long as a claim took", async () => {
    await addEndpoint(under.store)
    await addEndpoint(under.store, {}, 'org_other')
    await publishMany(under.store, 40)
    await publish(under.store, {}, 'org_other')
    const store = withDeliveries(under.store, {
      async claim(request) {
        await sleep(400)
        return under.store.deliveries.claim(request)
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL, store)
    loop.start()
    await sender.sent(41)
    await loop.stop()
  })
})
