import { isStoreUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { DeliveryWatch } from '../webhooks/claims.ts'
import { refOf } from './dispatcher.ts'
import type { LoopParts } from './loop-parts.ts'
import { createPollPace } from './poll-pace.ts'
import type { Run } from './prefetcher.ts'

// The course of a run: claims until the run is ended, or until nothing is due any longer; then the end of the attempts.

/** Pause after the store has failed, doubled with each further failure. */
const FAILED_PAUSE_MS = 250
const FAILED_PAUSE_MAX_MS = 5000
/** Time for results to be written at the end of a run. */
const SETTLE_MS = 5000
/**
 * Time after the `timeoutMs` of a stop: interrupted attempts end within 500 ms, and the rest is for writing the results.
 * A stop takes at most a second longer than `timeoutMs`, also when neither the store nor a subscriber answers.
 */
const STOP_GRACE_MS = 800
/** Pause of a loop that waits because the database belongs to another installation. */
const HELD_PAUSE_MS = 1000
const SWEEP_EVERY_MS = 10_000
/** Maximum time for which a run once waits for the turn of a delivery, in ms: an endpoint with a lower rate is left to the next run. */
const TURN_MS = 2000
/** Interval between checks whether the attempts in flight have ended, in ms. */
const IDLE_CHECK_MS = 20

/** Watches the store and sweeps the queues. The end of the watch ends both. */
export function watchStore(parts: LoopParts): DeliveryWatch {
  const { deliveries, queues, wakeUp } = parts
  const watch = callStore(parts, () => deliveries.watch(wakeUp.wake))
  const sweeping = setInterval(queues.sweep, SWEEP_EVERY_MS)
  return {
    setIdle: async (isIdle) => watch?.setIdle(isIdle) ?? false,
    end() {
      clearInterval(sweeping)
      if (watch) callStore(parts, watch.end)
    },
  }
}

/** Calls a function of the store that must not throw. */
function callStore<T>({ notifier }: LoopParts, call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    notifier.reportFailure(error)
    return undefined
  }
}

/** Claims until the run is ended: after a wake-up, and at each poll. */
export async function keepDelivering(parts: LoopParts, run: Run, watch: DeliveryWatch): Promise<void> {
  const { options, prefetcher, wakeUp, notifier, installation } = parts
  const pollInMs = createPollPace(options.pollIntervalMs, watch.setIdle)
  let failures = 0
  while (!run.isEnding) {
    try {
      const mayWork = await installation.mayWork()
      const hasMore = mayWork && !run.isEnding && (await prefetcher.claim(run))
      failures = 0
      if (!mayWork) await pause(parts, run, HELD_PAUSE_MS)
      else if (!hasMore && !run.isEnding) await wakeUp.wait(await pollInMs(prefetcher.received))
    } catch (error) {
      notifier.reportFailure(error)
      const pauseMs = Math.min(FAILED_PAUSE_MAX_MS, FAILED_PAUSE_MS * 2 ** failures++)
      // A wake-up shows that an unreachable store is back; a bug is there still.
      if (!isStoreUnavailable(error)) await pause(parts, run, pauseMs)
      else if (!run.isEnding) await wakeUp.wait(pauseMs)
    }
  }
}

/** Waits in spite of wake-ups, until the run is ended. */
async function pause({ wakeUp }: LoopParts, run: Run, ms: number): Promise<void> {
  const endsAt = performance.now() + ms
  for (let leftMs = ms; !run.isEnding && leftMs > 0; leftMs = endsAt - performance.now()) {
    await wakeUp.wait(leftMs)
  }
}

/**
 * Delivers everything that is due, then runs the maintenance.
 *
 * @throws `invalid_state` on another installation's database; the store's errors, once the attempts in flight have ended
 */
export async function deliverOnce(parts: LoopParts, run: Run): Promise<void> {
  const { maintenance, resultWriter, wakeUp, notifier } = parts
  try {
    await parts.installation.demand()
    await claimAll(parts, run)
    if (!run.isEnding) await maintenance.runOnce()
  } finally {
    while (!run.isEnding && !isIdle(parts)) await wakeUp.wait(IDLE_CHECK_MS)
    if (!run.isEnding) await resultWriter.settle(SETTLE_MS)
    notifier.flush()
  }
}

/**
 * Claims until a claim brings nothing and no delivery was under way before that claim, nor has a turn soon by the rate of its
 * endpoint.
 */
async function claimAll(parts: LoopParts, run: Run): Promise<void> {
  const { prefetcher, resultWriter, wakeUp } = parts
  let isDone = false
  let receivedAt = performance.now()
  while (!run.isEnding && !isDone) {
    const wasIdle = isIdle(parts)
    if (wasIdle) await resultWriter.settle(SETTLE_MS)
    const receivedBefore = prefetcher.received
    const hasMore = await prefetcher.claim(run)
    const { nextInMs, received } = prefetcher
    if (received > receivedBefore) receivedAt = performance.now()
    // The clock of a store in tests may stand still.
    const isInTime = performance.now() - receivedAt <= TURN_MS + IDLE_CHECK_MS
    const hasTurn = nextInMs !== null && nextInMs <= TURN_MS && isInTime
    isDone = wasIdle && !hasMore && !hasTurn && received === receivedBefore
    if (!hasMore && (hasTurn || !isIdle(parts))) await wakeUp.wait(IDLE_CHECK_MS)
  }
}

function isIdle({ queues }: LoopParts): boolean {
  return queues.inFlight + queues.waiting === 0
}

/** Promises of a run that may settle late or never, when the store does not respond. */
export interface UnderWay {
  /** Settles when the run makes no further claim. */
  readonly claims: Promise<unknown>
  /** Settles when no task of the maintenance runs any longer. */
  readonly maintenance: Promise<unknown>
}

/**
 * Ends a run: releases what has not been begun, and waits for the attempts in flight.
 *
 * @param timeoutMs how long the attempts may take; the attempts left then are interrupted
 */
export async function endRun(
  parts: LoopParts,
  run: Run,
  { claims, maintenance }: UnderWay,
  timeoutMs: number,
): Promise<void> {
  const interruptAt = performance.now() + timeoutMs
  const giveUpAt = interruptAt + STOP_GRACE_MS
  run.isEnding = true
  parts.wakeUp.wake()
  parts.maintenance.stop()
  parts.prefetcher.stopThrottling()
  releaseWaiting(parts)
  const claimsEnded = claims.then(() => releaseUnanswered(parts, run))
  const allEnded = Promise.all([claimsEnded, maintenance])
  const waited = withDeadline(allEnded, giveUpAt - performance.now(), parts.poller.abandon)
  await endAttempts(parts, interruptAt)
  await waited
  await parts.resultWriter.settle(Math.min(SETTLE_MS, Math.max(0, giveUpAt - performance.now())))
  parts.notifier.flush()
}

function releaseWaiting({ queues, reader, resultWriter }: LoopParts): void {
  for (const delivery of queues.drain()) resultWriter.release(refOf(delivery))
  for (const unread of reader.drain()) {
    queues.removeUnread(unread)
    resultWriter.release(refOf(unread))
  }
}

/** Releases the deliveries of an unanswered claim. While the store does not respond, the lease alone ends the claim. */
async function releaseUnanswered({ poller, prefetcher, notifier }: LoopParts, run: Run): Promise<void> {
  if (!poller.hasUnanswered) return
  await prefetcher.claim(run).catch(notifier.reportFailure)
}

async function endAttempts(parts: LoopParts, interruptAt: number): Promise<void> {
  await waitUntilIdle(parts, interruptAt)
  if (isIdle(parts)) return
  parts.dispatcher.interrupt()
  await waitUntilIdle(parts, interruptAt + STOP_GRACE_MS)
}

/** The end of an attempt wakes the loop. */
async function waitUntilIdle(parts: LoopParts, endsAt: number): Promise<void> {
  for (let leftMs = endsAt - performance.now(); leftMs > 0; leftMs = endsAt - performance.now()) {
    if (isIdle(parts)) return
    await parts.wakeUp.wait(Math.min(IDLE_CHECK_MS, leftMs))
  }
}
