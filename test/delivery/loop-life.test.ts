import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import { repeatTask } from '../../lib/delivery/maintenance.ts'
import { createPurge } from '../../lib/delivery/retention.ts'
import type { SharedPurgeReport, SharedPurgeRequest } from '../../lib/webhooks/deliveries.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'
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
  sleep,
  until,
  withDeliveries,
} from './_loop.ts'

// How a loop begins and ends, in a process and by itself, and what it does beside delivering.

// --- Stopping ---

describeOnStores('stop()', (under) => {
  test('waits for the attempts in flight and gives back the rest, uncounted', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 60)
    const gate = createGate()
    // Quick at first, so that more is claimed than can be sent at once.
    const sender = createTestSender(async (_request, number) => {
      if (number > 10) await gate.opened
      return {}
    })
    const loop = under.loop(sender, NO_POLL)
    loop.start()
    await sender.sent(16)
    await until('some have been claimed ahead', async () => {
      return (await countIn(under.store, 'in_flight')) > sender.inFlight
    })
    let isStopped = false
    const stopping = loop.stop().then(() => {
      isStopped = true
    })
    await until('the rest is given back', async () => {
      return (await countIn(under.store, 'in_flight')) === sender.inFlight
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

  test('ends what outlasts timeoutMs: interrupted, logged, counted, and due again at once', async () => {
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

  test('gives back what a claim brings that was under way', async () => {
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

  test('gives back what a claim has brought whose answer was lost', async () => {
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
    assert.equal((await onlyDelivery(under.store)).state, 'in_flight')
    isDown = false
    await loop.stop()
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, sender.requests.length], ['pending', 0, 0])
  })
})

describeOnMemory('start() and stop()', (under) => {
  test('stop() does not depend on a sender that heeds its signal', async () => {
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

  test('stop() of a loop that was never started, and a second stop(), do nothing', async () => {
    const loop = under.loop(createTestSender())
    await loop.stop()
    loop.start()
    await loop.stop()
    await loop.stop()
  })

  test('two stops at once end together', async () => {
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
    const store = withDeliveries(under.store, {
      claim(request) {
        claims++
        return under.store.deliveries.claim(request)
      },
    })
    const loop = under.loop(createTestSender(), NO_POLL, store)
    loop.start()
    loop.start()
    await loop.stop()
    assert.equal(claims, 1)
  })

  test('a loop can be started again after it has stopped, and delivers', async () => {
    await addEndpoint(under.store)
    const sender = createTestSender()
    const loop = under.loop(sender, NO_POLL)
    for (let round = 1; round <= 3; round++) {
      loop.start()
      await publish(under.store)
      await sender.sent(round)
      await loop.stop()
    }
    assert.deepEqual((await loop.stats()).attempts, { delivered: 3, retried: 0, deadLettered: 0 })
  })

  test('start() and runOnce() are refused while it stops', async () => {
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

  test('a store that is watched is watched until the loop has stopped', async () => {
    let watchers = 0
    const store = withDeliveries(under.store, {
      watch: () => {
        watchers++
        return () => {
          watchers--
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

  /** Runs the program to its end. */
  async function run(...args: string[]): Promise<{ code: number | null; lines: string[] }> {
    const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, ...args], {
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

  test('stays alive while its loop runs, can end once it has stopped, and gets no listener for signals', async () => {
    assert.deepEqual(await run(), { code: 0, lines: ['alive', 'listeners: none', 'stopped'] })
  })

  test('ends by itself when its loop was never started, or has run once', async () => {
    assert.deepEqual(await run('once'), { code: 0, lines: ['ran once'] })
  })
})

// --- Running once ---

describeOnStores('runOnce()', (under) => {
  test('delivers everything that is due, also more than fits at once, and tells what it did', async () => {
    for (let number = 0; number < 3; number++) {
      await addEndpoint(under.store, {}, `org_${number}`)
      await publishMany(under.store, 40, `org_${number}`)
    }
    const sender = createTestSender((_request, number) => (number % 10 === 0 ? { status: 500 } : {}))
    const loop = under.loop(sender, { concurrency: 4 })
    assert.deepEqual(await loop.runOnce(), { delivered: 108, retried: 12, deadLettered: 0 })
    assert.equal(new Set(sender.eventIds).size, 120)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 0 })
    const { due, oldestDueMs, inFlight, attempts } = await loop.stats()
    assert.deepEqual([due, oldestDueMs, inFlight], [0, 0, 0])
    assert.deepEqual(attempts, { delivered: 108, retried: 12, deadLettered: 0 })
  })

  test('is refused while the loop is started or runs once already; start() is refused meanwhile', async () => {
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
    assert.deepEqual(await running, { delivered: 1, retried: 0, deadLettered: 0 })
    loop.start()
    await assert.rejects(loop.runOnce(), { name: 'TypeError', message: /running/ })
    await loop.stop()
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 0 })
  })

  test('is ended by stop(), which gives back the rest', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 20)
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender)
    const running = loop.runOnce()
    await sender.sent(4)
    await loop.stop({ timeoutMs: 10 })
    assert.deepEqual(await running, { delivered: 0, retried: 4, deadLettered: 0 })
    const states = (await deliveriesOf(under.store)).map(({ state, attempts }) => `${state} ${attempts}`)
    assert.deepEqual(states.sort(), [...Array(16).fill('pending 0'), ...Array(4).fill('pending 1')])
  })

  test('throws what the store throws, when the attempts in flight have ended and are recorded', async () => {
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

  test('and the running loop rest although hundreds of endpoints have something that is not due yet', async () => {
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
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: ENDPOINTS, deadLettered: 0 })
    claims = 0
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 0 })
    assert.ok(claims >= 1 && claims <= 4, `${claims} claims`)
    claims = 0
    loop.start()
    await sleep(150)
    assert.ok(claims >= 1 && claims <= 7, `${claims} claims`)
    // And it still goes around all of them.
    const lastId = await addEndpoint(under.store, {}, 'org_zzz')
    await publish(under.store, {}, 'org_zzz')
    await sender.sent(ENDPOINTS + 1)
    assert.ok(lastId)
  })
})

// --- Retention ---

describe('repeatTask() of a purge', () => {
  const DONE = { events: 0, idempotencyKeys: 0, isDone: true, waitMs: 0, lagMs: 0 }
  const MORE = { ...DONE, isDone: false, waitMs: 75 }
  const FAILED = undefined
  const HOUR_MS = 3_600_000

  /** Repeats a purge once for each report. @returns what it asked for, waited, notified and reported */
  async function repeatPurge(reports: readonly (SharedPurgeReport | undefined)[], everyMs = 0) {
    const requests: SharedPurgeRequest[] = []
    const waits: number[] = []
    const notices: Notice[] = []
    const errors: unknown[] = []
    const store = {
      async continuePurge(request: SharedPurgeRequest) {
        const report = reports[requests.push(request) - 1]
        if (!report) throw storeUnavailable('Not now')
        return report
      },
    }
    const wakeUp = { wake() {}, wait: async (ms: number) => void waits.push(ms) }
    const task = createPurge(
      store,
      1234,
      (found) => notices.push(...found),
      () => waits.length * everyMs,
    )
    const isEnded = () => waits.length === reports.length
    await repeatTask(task, wakeUp, isEnded, (error) => errors.push(error))
    return { requests, waits, notices, errors }
  }

  test('forgets a little at a time, as soon as the store says for as long as there is more, and goes on when it fails', async () => {
    const { requests, waits, errors } = await repeatPurge([MORE, FAILED, DONE, MORE])
    assert.deepEqual(
      requests.map(({ eventsAfterMs, share }) => [eventsAfterMs, share]),
      Array(4).fill([1234, 0.25]),
    )
    assert.deepEqual(waits, [75, 60_000, 60_000, 75])
    assert.equal(errors.length, 1)
  })

  test('makes smaller parts after one that failed or took more than a second, and larger parts again', async () => {
    const slow = { ...MORE, waitMs: 3001 }
    const { requests } = await repeatPurge([FAILED, FAILED, MORE, slow, MORE])
    const limits = requests.map(({ limit }) => limit)
    assert.deepEqual(limits.slice(0, 5), [1000, 500, 250, 275, 137])
    const larger = await repeatPurge([FAILED, ...Array(20).fill(MORE)])
    assert.equal(larger.requests.at(-1)?.limit, 1000)
    const least = await repeatPurge(Array(20).fill(FAILED))
    assert.equal(least.requests.at(-1)?.limit, 10)
  })

  test('sends a notice when three parts in a row have failed, once until a part succeeds', async () => {
    const failing = Array(5).fill(FAILED)
    const { notices } = await repeatPurge([FAILED, FAILED, DONE, ...failing, DONE, ...failing])
    const notice = {
      kind: 'retention_behind',
      reason: 'failing',
      retentionMs: 1234,
      lagMs: null,
      failures: 3,
    }
    assert.deepEqual(notices, [notice, notice])
  })

  test('sends a notice when it has been an hour behind for ten minutes, once until it has caught up', async () => {
    const behind = { ...MORE, lagMs: HOUR_MS + 1 }
    const resting = { ...MORE, lagMs: null }
    const minute = 60_000
    const short = await repeatPurge([...Array(10).fill(behind), DONE, ...Array(10).fill(behind)], minute)
    assert.deepEqual(short.notices, [])
    const { notices } = await repeatPurge([behind, resting, ...Array(20).fill(behind)], minute)
    assert.deepEqual(notices, [
      { kind: 'retention_behind', reason: 'slow', retentionMs: 1234, lagMs: HOUR_MS + 1, failures: 0 },
    ])
    const again = await repeatPurge([...Array(12).fill(behind), DONE, ...Array(12).fill(behind)], minute)
    assert.equal(again.notices.length, 2)
  })
})

describeOnMemory('A running loop', (under) => {
  test('forgets what is old unless it is told not to, and goes on delivering when that fails', async () => {
    const asked: number[] = []
    const store = withDeliveries(under.store, {
      continuePurge({ eventsAfterMs }) {
        asked.push(eventsAfterMs)
        throw new TypeError('a bug')
      },
    })
    await addEndpoint(under.store)
    const errors: unknown[] = []
    for (const retentionMs of [false, 1000] as const) {
      const sender = createTestSender()
      const options = { ...NO_POLL, retentionMs, onError: (error: unknown) => errors.push(error) }
      const loop = under.loop(sender, options, store)
      loop.start()
      await publish(under.store)
      await sender.sent(1)
      await loop.stop()
    }
    // What expires by itself, an idempotency key's entry, is let go of in any case.
    const [never = 0, ...others] = asked
    assert.ok(never > 100 * 365 * 24 * 60 * 60 * 1000)
    assert.deepEqual(others, [1000])
    assert.equal(errors.length, 2)
  })
})

// --- Numbers ---

describeOnStores('stats()', (under) => {
  test('tells what is due, for how long, what is in flight, and what this loop has done', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 6)
    await under.letTimePass(5000)
    const sender = createTestSender((_request, _number, signal) => hang(signal))
    const loop = under.loop(sender, NO_POLL)
    const before = await loop.stats()
    assert.deepEqual([before.due, before.inFlight], [6, 0])
    assert.ok(before.oldestDueMs >= 5000 && before.oldestDueMs < 10_000)
    loop.start()
    await sender.sent(4)
    const during = await loop.stats()
    assert.deepEqual([during.due, during.inFlight], [2, 4])
    await loop.stop({ timeoutMs: 0 })
    const { due, inFlight, attempts } = await loop.stats()
    assert.deepEqual([due, inFlight], [6, 0])
    assert.deepEqual(attempts, { delivered: 0, retried: 4, deadLettered: 0 })
  })
})
