import { ATTEMPT_MAX_MS, INTERRUPT_MAX_MS } from '../attempt.ts'
import type { Backlog, RecordReport } from '../deliveries.ts'
import { isStoreUnavailable } from '../errors.ts'
import { createSecretSealer } from '../secret-sealing.ts'
import type { BusinessStore } from '../store.ts'
import { traceStore } from '../tracing.ts'
import type { WebhookSender } from '../webhook-sender.ts'
import { createAlarm } from './alarm.ts'
import { createAnnouncer, ofDeadLetters, ofEndpoints } from './announcer.ts'
import { createChores } from './chores.ts'
import { type ClaimAnswer, createClaimer } from './claimer.ts'
import { createCourier, type DeliveryCounts, refOf } from './courier.ts'
import { createExpiryWatch } from './expiry.ts'
import { createLanes } from './lanes.ts'
import { type DeliveryLoopOptions, readLoopOptions } from './loop-options.ts'
import { createOverdueMarking } from './overdue.ts'
import { createRecorder, type UntimedResult } from './recorder.ts'
import { createPurge } from './retention.ts'

// The loop is `stopped`, `running` (from start), `running once`, or `stopping` (from stop, until what is under way has
// ended).
//
// While it runs it claims what there is room for, and then waits: for an event of this process or another one, for an
// attempt that has made room, or for the next poll. `running once` claims in the same way until nothing is left.
//
// A delivery that was claimed goes through these states here:
//
//   waiting    in its endpoint's lane; back to the store if its lease has become too short for an attempt, if its secret
//              cannot be opened, or when the loop stops
//   in flight  signed and sent; ends with an answer, at the deadline, or when a stop does not wait any longer
//   ended      its result waits to be written, together with others; written, it is the store's again
//
// A process that dies leaves its claims to their leases: each counts as an attempt, `interrupted`, and is due again.

/** How deliveries stand, of all processes, and what this one has done since it was created. */
export interface DeliveryStats extends Backlog {
  readonly attempts: DeliveryCounts
}

/** Delivers what is due. Any number of processes may run one at once. */
export interface DeliveryLoop extends AsyncDisposable {
  /**
   * Begins to deliver, at once and until it is stopped. The process stays alive for it.
   *
   * @throws `TypeError` while it is stopping or running once
   */
  start(): void
  /**
   * Claims nothing any more, gives back what has not been begun, and waits for the attempts in flight.
   *
   * @param options.timeoutMs how long to wait for them; those left then are ended and made again later, by any process.
   *   Default 12,000: longer than any attempt
   */
  stop(options?: { timeoutMs?: number | undefined }): Promise<void>
  /**
   * Delivers what is due now, tells of what will expire, forgets what is old, and ends: for a scheduler, and for tests.
   * What there is too much of to be forgotten is left to the next time.
   *
   * @throws `TypeError` while the loop runs
   */
  runOnce(): Promise<DeliveryCounts>
  stats(): Promise<DeliveryStats>
}

/** What a loop needs of a store: the invoices only to mark those that are overdue. */
export type LoopStore = Pick<BusinessStore, 'deliveries' | 'notices'> &
  Partial<Pick<BusinessStore, 'invoices'>>

/**
 * How long a backlog is left alone after a claim, in multiples of what the claim took. With a flood of 50,000 on two busy
 * cores, p99 of everybody else was 150 ms without rests, 30 with 2, 20 with 6.
 */
const REST_FACTOR = 6
/** A claim that took seconds, as the database did, is no reason to leave a backlog alone for the longer. */
const REST_MAX_MS = 200
/** After the store has failed. */
const FAILED_PAUSE_MS = 250
const FAILED_PAUSE_MAX_MS = 5000
/** For what has ended to be written when the loop stops. */
const SETTLE_MS = 5000
const SWEEP_EVERY_MS = 10_000

/**
 * Delivers the events that are recorded in a store (specification, section 6). Opens nothing and sets no timer before it
 * is started, and never touches the process's signals.
 *
 * @param sender makes the attempts: `createWebhookSender()`; stays open when the loop stops
 * @throws `TypeError` or `RangeError` for an option that cannot be used
 */
export function createDeliveryLoop(
  store: LoopStore,
  sender: WebhookSender,
  options: DeliveryLoopOptions = {},
): DeliveryLoop {
  const { deliveries, notices, invoices } = traceStore(store)
  const settings = readLoopOptions(options)
  const { concurrency, leaseMs, retryDelaysMs, retentionMs, expiryTimes } = settings
  const { announce, fail } = createAnnouncer(settings)
  const lanes = createLanes(concurrency)
  const recorder = createRecorder(deliveries, settings.failureLimit, {
    onRecorded(results, report) {
      lookAgain(results)
      tellOf(report)
    },
    onError: fail,
  })
  const courier = createCourier(sender, lanes, recorder, createSecretSealer(options), settings, {
    onRoom: () => {
      if (!resting) alarm.ring()
    },
    onError: fail,
  })
  const { counts } = courier
  const claimer = createClaimer(deliveries, { leaseMs, maxAttempts: retryDelaysMs.length + 1 })
  const alarm = createAlarm()
  const chores = createChores(
    [
      ...(settings.markOverdue ? [createOverdueMarking(invoices)] : []),
      createExpiryWatch(notices, expiryTimes, announce),
      createPurge(deliveries, retentionMs),
    ],
    fail,
  )
  let taken = 0
  let resting: NodeJS.Timeout | undefined
  /** By results that wait to be written. */
  let isHeldUp = false
  let state: 'stopped' | 'running' | 'running once' | 'stopping' = 'stopped'
  let running: Promise<unknown> = Promise.resolve()

  /** For what a store must not throw. */
  function guard<T>(work: () => T, otherwise: T): T {
    try {
      return work()
    } catch (error) {
      fail(error)
      return otherwise
    }
  }

  function tellOf({ deadLetters, endpoints }: RecordReport): void {
    announce(ofDeadLetters(deadLetters))
    announce(ofEndpoints(endpoints))
  }

  // --- Claiming ---

  /** @returns whether there may be more to claim at once */
  async function claim(): Promise<boolean> {
    const { limit, room } = lanes.room()
    isHeldUp = recorder.pending > concurrency * 4
    if (limit <= 0 || isHeldUp) return false
    const sentAt = performance.now()
    const claims = await claimer.claim(limit, room)
    courier.setClock(claims.storeOffset)
    taken += claims.deliveries.length
    take(claims)
    if (state === 'running') rest(Math.min(REST_MAX_MS, (performance.now() - sentAt) * REST_FACTOR))
    return claims.hasMore
  }

  /** A backlog gives way: without rests it would keep the database and this process busy, and everybody else waiting. */
  function rest(ms: number): void {
    if (!lanes.rest(ms)) return
    clearTimeout(resting)
    resting = setTimeout(() => {
      resting = undefined
      alarm.ring()
    }, Math.ceil(ms) + TIMER_EARLY_MS)
  }

  function take({ deliveries: claimed, deadLetters }: ClaimAnswer): void {
    for (const delivery of claimed) {
      if (state === 'stopping') recorder.release(refOf(delivery))
      else lanes.add(delivery)
    }
    courier.dispatch()
    announce(ofDeadLetters(deadLetters))
  }

  /** A retry is looked for when it is due, and not only at the next poll. */
  function lookAgain(results: readonly UntimedResult[]): void {
    const retries = results.filter(({ outcome }) => outcome === 'retry')
    for (const delayMs of new Set(retries.map((retry) => retry.delayMs))) {
      setTimeout(() => alarm.ring(), delayMs + TIMER_EARLY_MS).unref()
    }
    if (isHeldUp) alarm.ring()
  }

  // --- Life ---

  async function run(): Promise<void> {
    const unwatch = guard(
      () => deliveries.watch(() => alarm.ring()),
      () => {},
    )
    const sweeping = setInterval(() => lanes.sweep(), SWEEP_EVERY_MS)
    let failures = 0
    while (state === 'running') {
      try {
        const hasMore = await claim()
        failures = 0
        if (!hasMore) await alarm.wait(settings.pollIntervalMs)
      } catch (error) {
        fail(error)
        const pauseMs = Math.min(FAILED_PAUSE_MAX_MS, FAILED_PAUSE_MS * 2 ** failures++)
        // Whoever publishes shows that the store is back; a bug stays one.
        if (isStoreUnavailable(error)) await alarm.wait(pauseMs)
        else await pause(pauseMs)
      }
    }
    clearInterval(sweeping)
    clearTimeout(resting)
    resting = undefined
    guard(unwatch, undefined)
  }

  async function pause(ms: number): Promise<void> {
    const endsAt = performance.now() + ms
    for (let leftMs = ms; state === 'running' && leftMs > 0; leftMs = endsAt - performance.now()) {
      await alarm.wait(leftMs)
    }
  }

  async function runOnce(): Promise<void> {
    try {
      await claimAll()
      if (state === 'running once') await chores.doOnce()
    } finally {
      while (state === 'running once' && lanes.inFlight > 0) await alarm.wait(IDLE_CHECK_MS)
      await recorder.settle(SETTLE_MS)
      if (state === 'running once') state = 'stopped'
    }
  }

  /** Until a claim has brought nothing although nothing was under way when it was sent. */
  async function claimAll(): Promise<void> {
    let isDone = false
    while (state === 'running once' && !isDone) {
      const wasIdle = lanes.inFlight + lanes.waiting === 0
      if (wasIdle) await recorder.settle(SETTLE_MS)
      const takenBefore = taken
      const hasMore = await claim()
      isDone = wasIdle && !hasMore && taken === takenBefore
      if (!hasMore && lanes.inFlight > 0) await alarm.wait(IDLE_CHECK_MS)
    }
  }

  async function stop(timeoutMs: number): Promise<void> {
    const endsAt = performance.now() + timeoutMs
    alarm.ring()
    chores.end()
    for (const delivery of lanes.drain()) recorder.release(refOf(delivery))
    const claimsEnded = running.then(async () => {
      if (claimer.hasLost) await claimLost()
    })
    // A store that does not answer is not waited for: what it may have claimed has its lease.
    await Promise.race([claimsEnded, pauseFor(timeoutMs + SETTLE_MS)])
    await waitUntilIdle(endsAt)
    courier.interrupt()
    await waitUntilIdle(performance.now() + INTERRUPT_MAX_MS * 2)
    await recorder.settle(SETTLE_MS)
    state = 'stopped'
  }

  /** So that it is given back. */
  async function claimLost(): Promise<void> {
    try {
      take(await claimer.claim(0, lanes.room().room))
    } catch (error) {
      fail(error)
    }
  }

  /** Attempts tell by the alarm that they have ended. */
  async function waitUntilIdle(endsAt: number): Promise<void> {
    while (lanes.inFlight > 0 && performance.now() < endsAt) await alarm.wait(IDLE_CHECK_MS)
  }

  const loop: DeliveryLoop = {
    start() {
      if (state === 'running') return
      if (state !== 'stopped') throw new TypeError(`Cannot start the loop as it is ${state}`)
      state = 'running'
      courier.begin()
      running = Promise.all([run(), chores.keepDoing()])
    },

    async stop({ timeoutMs = ATTEMPT_MAX_MS } = {}) {
      if (state === 'running' || state === 'running once') {
        state = 'stopping'
        running = stop(timeoutMs)
      }
      await running
    },

    async runOnce() {
      if (state !== 'stopped') throw new TypeError(`Cannot run the loop once as it is ${state}`)
      state = 'running once'
      courier.begin()
      const before = { ...counts }
      const run = runOnce()
      running = run.catch(() => {})
      await run
      // A stop that has ended it waits for its attempts.
      await running
      return {
        delivered: counts.delivered - before.delivered,
        retried: counts.retried - before.retried,
        deadLettered: counts.deadLettered - before.deadLettered,
      }
    },

    async stats() {
      return { ...(await deliveries.measure()), attempts: { ...counts } }
    },

    [Symbol.asyncDispose]: () => loop.stop(),
  }
  return loop
}

function pauseFor(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}

/** What a timer may be early by. */
const TIMER_EARLY_MS = 2
/** Between two looks whether the attempts have ended. */
const IDLE_CHECK_MS = 20
