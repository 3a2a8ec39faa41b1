import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import { programArguments } from '../_program.ts'
import {
  addEndpoint,
  countIn,
  createGate,
  createTestSender,
  deliveriesOf,
  describeOnMemory,
  describeOnStores,
  hang,
  NO_POLL,
  onlyDelivery,
  publish,
  publishMany,
  until,
  withDeliveries,
} from './_loop.ts'

// The start and end of a loop and of its process, and tasks other than delivering.

// --- Stopping ---

describeOnStores('stop()', (under) => {
  test('waits for attempts in flight and releases the rest without counting them', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 60)
    const gate = createGate()
    // Responds quickly at first, so that more is claimed than can be sent at once.
    const sender = createTestSender(async (_request, number) => {
      if (number > 10) await gate.opened
      return {}
    })
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(16)
    await until('some have been claimed ahead', async () => {
      return (await countIn(under.store, 'sending')) > sender.inFlight
    })
    let isStopped = false
    const stopping = loop.stop().then(() => {
      isStopped = true
    })
    await until('the rest is given back', async () => {
      return (await countIn(under.store, 'sending')) === sender.inFlight
    })
    assert.equal(isStopped, false)
    const sent = sender.requests.length
    gate.open()
    await stopping
    assert.equal(sender.requests.length, sent)
    const deliveries = await deliveriesOf(under.store)
    assert.equal(
      deliveries.filter(({ state, attempts }) => state === 'delivered' && attempts === 1).length,
      sent,
    )
    assert.equal(
      deliveries.filter(({ state, attempts }) => state === 'pending' && attempts === 0).length,
      60 - sent,
    )
  })

  test('interrupts attempts that take longer than timeoutMs. They are logged, counted and due again', async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(1)
    const stoppedAt = performance.now()
    await loop.stop({ timeoutMs: 30 })
    assert.ok(performance.now() - stoppedAt < 5000)
    const { state, attempts, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts], ['pending', 1])
    assert.deepEqual(
      attemptLog.map(({ number, status, error }) => [number, status, error]),
      [[1, null, 'interrupted']],
    )
    const other = createTestSender()
    await under.loop(other).runOnce()
    assert.deepEqual(other.eventIds, [id])
  })

  test('releases the deliveries of a claim that was in progress', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const gate = createGate()
    const asked = createGate()
    const store = withDeliveries(under.store, {
      async claim(request) {
        const claims = await under.store.deliveries.claim(request)
        asked.open()
        await gate.opened
        return claims
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL, store)
    loop.start()
    await asked.opened
    const stopping = loop.stop()
    gate.open()
    await stopping
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, sender.requests.length], ['pending', 0, 0])
  })

  test('releases the deliveries of a claim whose result was lost', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const failed = createGate()
    let isDown = true
    const store = withDeliveries(under.store, {
      async claim(request) {
        const claims = await under.store.deliveries.claim(request)
        if (!isDown) return claims
        failed.open()
        throw storeUnavailable('The answer was lost')
      },
    })
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL, store)
    loop.start()
    await failed.opened
    assert.equal((await onlyDelivery(under.store)).state, 'sending')
    isDown = false
    await loop.stop()
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, sender.requests.length], ['pending', 0, 0])
  })
})

describeOnMemory('start() and stop()', (under) => {
  test('stop() works even if a sender ignores the signal', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const sender = createTestSender(() => new Promise(() => {}))
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(1)
    const stoppedAt = performance.now()
    await loop.stop({ timeoutMs: 0 })
    assert.ok(performance.now() - stoppedAt < 5000)
    const { state, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attemptLog[0]?.error], ['pending', 'interrupted'])
  })

  test('stop() of a loop that was never started and a second stop() do nothing', async () => {
    const loop = under.loop(createTestSender())
    await loop.stop()
    loop.start()
    await loop.stop()
    await loop.stop()
  })

  test('two concurrent stops end together', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const gate = createGate()
    const sender = createTestSender(async () => {
      await gate.opened
      return {}
    })
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(1)
    const ended: number[] = []
    const stops = [1, 2].map((number) => loop.stop().then(() => ended.push(number)))
    await turn()
    assert.deepEqual(ended, [])
    gate.open()
    await Promise.all(stops)
    assert.deepEqual(ended, [1, 2])
    assert.equal((await onlyDelivery(under.store)).state, 'delivered')
  })

  test('start() twice runs one loop', async () => {
    let claims = 0
    let hasClaimed = (): void => {}
    const claimed = new Promise<void>((resolve) => {
      hasClaimed = resolve
    })
    const store = withDeliveries(under.store, {
      claim(request) {
        claims++
        hasClaimed()
        return under.store.deliveries.claim(request)
      },
    })
    const loop = under.loop(createTestSender(), NO_POLL, store)
    loop.start()
    loop.start()
    await claimed
    await loop.stop()
    assert.equal(claims, 1)
  })

  test('a loop can be started again after it was stopped', async () => {
    await addEndpoint(under.store)
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL)
    for (let round = 1; round <= 3; round++) {
      loop.start()
      await publish(under.store)
      await sender.sent(round)
      await loop.stop()
    }
    assert.deepEqual((await loop.stats()).attempts, { delivered: 3, retried: 0, failed: 0 })
  })

  test("start() and runOnce() are rejected while it's stopping", async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(1)
    const stopping = loop.stop({ timeoutMs: 20 })
    assert.throws(() => loop.start(), { name: 'TypeError', message: /stopping/ })
    await assert.rejects(loop.runOnce(), { name: 'TypeError', message: /stopping/ })
    await stopping
    loop.start()
  })

  test('`await using` stops the loop', async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    const gate = createGate()
    const sender = createTestSender(async () => {
      await gate.opened
      return {}
    })
    {
      await using loop = createDeliveryLoop(under.store, sender, { ...NO_POLL, logger: false })
      loop.start()
      await sender.sent(1)
      setImmediate(gate.open)
    }
    assert.deepEqual(sender.eventIds, [id])
    assert.equal((await onlyDelivery(under.store)).state, 'delivered')
    await publish(under.store)
    await turn()
    assert.equal(sender.requests.length, 1)
  })

  test('a store is watched until the loop has stopped', async () => {
    let watchers = 0
    const store = withDeliveries(under.store, {
      watch: () => {
        watchers++
        return {
          setIdle: async () => false,
          end() {
            watchers--
          },
        }
      },
    })
    const loop = under.loop(createTestSender(), NO_POLL, store)
    assert.equal(watchers, 0)
    loop.start()
    assert.equal(watchers, 1)
    await loop.stop()
    assert.equal(watchers, 0)
  })
})

describe('A process', { concurrency: true }, () => {
  const PROGRAM = join(import.meta.dirname, '_loop-process.ts')

  /** Runs the program until it exits. */
  async function run(...args: string[]): Promise<{ code: number | null; lines: string[] }> {
    const child = spawn(process.execPath, [...programArguments(PROGRAM), ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 20_000,
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    const [code] = await once(child, 'close')
    return { code, lines: output.trim().split('\n') }
  }

  test('stays alive while its loop is running, can exit after that, and gets no signal listeners', async () => {
    assert.deepEqual(await run(), { code: 0, lines: ['alive', 'listeners: none', 'stopped'] })
  })

  test('exits by itself if its loop was never started or has run once', async () => {
    assert.deepEqual(await run('once'), { code: 0, lines: ['ran once'] })
  })
})

// --- Numbers ---

describeOnStores('stats()', (under) => {
  test("counts due deliveries, the oldest age, deliveries in flight, and the loop's attempts", async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 6)
    await under.letTimePass(5000)
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender, NO_POLL)
    const before = await loop.stats()
    assert.deepEqual([before.due, before.sending], [6, 0])
    assert.ok(before.oldestDueMs >= 5000 && before.oldestDueMs < 10_000)
    loop.start()
    await sender.sent(4)
    const during = await loop.stats()
    assert.deepEqual([during.due, during.sending], [2, 4])
    await loop.stop({ timeoutMs: 0 })
    const { due, sending, attempts } = await loop.stats()
    assert.deepEqual([due, sending], [6, 0])
    assert.deepEqual(attempts, { delivered: 0, retried: 4, failed: 0 })
  })
})
