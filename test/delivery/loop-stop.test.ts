import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeliveryStore } from '../../lib/webhooks/deliveries.ts'
import {
  addEndpoint,
  createGate,
  createTestSender,
  describeOnMemory,
  describeOnStores,
  hang,
  NO_POLL,
  onlyDelivery,
  publish,
  type StoreUnderTest,
  sleep,
  until,
  withDeliveries,
} from './_loop.ts'

// stop({ timeoutMs }) takes up to timeoutMs and a second, whichever side doesn't respond.

const TIMEOUT_MS = 100
/** A side that doesn't respond never will. The rest of the limit is for busy machines. */
const STOPPED_WITHIN_MS = TIMEOUT_MS + 10_000

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

const never = (): Promise<never> => new Promise(() => {})

describeOnMemory('stop() of a loop whose store never answers', (under) => {
  const silent: Record<string, { verbs: Partial<DeliveryStore>; isReached: () => boolean }> = {}
  for (const verb of ['claim', 'writeResults', 'release', 'continuePurge', 'read'] as const) {
    let isReached = false
    const verbs = {
      [verb]: () => {
        isReached = true
        return never()
      },
    }
    silent[verb] = { verbs, isReached: () => isReached }
  }

  for (const [verb, { verbs, isReached }] of Object.entries(silent)) {
    test(`${verb}() ends within a second of its timeoutMs`, async () => {
      await startWith(under, verb, verbs, isReached)
    })
  }

  async function startWith(
    { store, loop: create }: StoreUnderTest,
    verb: string,
    verbs: Partial<DeliveryStore>,
    isReached: () => boolean,
  ): Promise<void> {
    await addEndpoint(store)
    await publish(store)
    // A delivery is in flight and hangs, unless the store already doesn't respond before that.
    const sender = createTestSender((_request, _number, signal) =>
      verb === 'writeResults' ? {} : hang(signal),
    )
    const unread: Partial<DeliveryStore> =
      verb === 'read' ? { claim: (request) => store.deliveries.claim({ ...request, maxBytes: 0 }) } : {}
    const loop = create(sender, NO_POLL, withDeliveries(store, { ...unread, ...verbs }))
    loop.start()
    // release() is only called by the stop, if at all.
    if (verb !== 'release') await until(`${verb}() is called`, isReached)
    const tookMs = await timeOf(() => loop.stop({ timeoutMs: TIMEOUT_MS }))
    assert.ok(tookMs < STOPPED_WITHIN_MS, `${tookMs} ms`)
  }

  test('also ends runOnce(), and the loop can be started again', async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    let claims = 0
    const answered = createGate()
    const store = withDeliveries(under.store, {
      async claim(request) {
        if (++claims === 1) await answered.opened
        return under.store.deliveries.claim(request)
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL, store)
    const running = loop.runOnce()
    await until('it has claimed', () => claims === 1)
    const tookMs = await timeOf(() => Promise.all([loop.stop({ timeoutMs: TIMEOUT_MS }), running]))
    assert.ok(tookMs < STOPPED_WITHIN_MS, `${tookMs} ms`)
    assert.deepEqual(await running, { delivered: 0, retried: 0, failed: 0 })

    loop.start()
    await sender.sent(1)
    await until('it is delivered', async () => (await onlyDelivery(under.store)).state === 'delivered')
    // The deliveries returned late by the first claim belong to no loop. They are released and sent once more at most.
    await publish(under.store)
    await sender.sent(2)
    answered.open()
    await sleep(20)
    assert.deepEqual([sender.requests.length, sender.eventIds[0]], [2, id])
    await loop.stop()
  })

  test('releases deliveries returned by a claim after the stop', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const answered = createGate()
    let claims = 0
    const store = withDeliveries(under.store, {
      async claim(request) {
        const answer = await under.store.deliveries.claim(request)
        claims++
        await answered.opened
        return answer
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL, store)
    loop.start()
    await until('it has claimed', () => claims === 1)
    await loop.stop({ timeoutMs: 0 })
    assert.equal((await onlyDelivery(under.store)).state, 'sending')
    answered.open()
    await until('it is given back', async () => (await onlyDelivery(under.store)).state === 'pending')
    assert.deepEqual([sender.requests.length, (await onlyDelivery(under.store)).attempts], [0, 0])
  })
})

describeOnStores('stop() of a loop whose subscribers are silent', (under) => {
  test('ends within a second of timeoutMs even if a sender ignores the signal', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const sender = createTestSender(never)
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(1)
    const tookMs = await timeOf(() => loop.stop({ timeoutMs: TIMEOUT_MS }))
    assert.ok(tookMs >= TIMEOUT_MS - 5 && tookMs < STOPPED_WITHIN_MS, `${tookMs} ms`)
    const { state, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attemptLog[0]?.error], ['pending', 'interrupted'])
  })
})

describeOnStores('stats().attempts', (under) => {
  test('counts results that the store has accepted, but not those of a lost claim', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const gate = createGate()
    const sender = createTestSender(async (_request, number) => {
      if (number === 1) await gate.opened
      return { durationMs: number * 1.5 }
    })
    // Nothing wakes the loop, because it must not take the delivery back itself.
    const unwatched = withDeliveries(under.store, {
      watch: () => ({ setIdle: async () => false, end() {} }),
    })
    const loop = under.loop(sender, NO_POLL, unwatched)
    loop.start()
    await sender.sent(1)
    assert.deepEqual((await loop.stats()).attempts, { delivered: 0, retried: 0, failed: 0 })
    // Another process takes the delivery because its lease has ended.
    await under.letTimePass(60_000)
    const other = under.loop(sender)
    assert.deepEqual(await other.runOnce(), { delivered: 1, retried: 0, failed: 0 })
    gate.open()
    await loop.stop()
    assert.deepEqual((await loop.stats()).attempts, { delivered: 0, retried: 0, failed: 0 })
    assert.deepEqual((await other.stats()).attempts, { delivered: 1, retried: 0, failed: 0 })
  })
})
