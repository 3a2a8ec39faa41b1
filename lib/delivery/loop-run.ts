import { isStoreUnavailable } from '../base/errors.ts'
import { sleep, withDeadline } from '../base/time.ts'
import type { DeliveryWatch } from '../webhooks/claims.ts'
import { refOf } from './dispatcher.ts'
import type { LoopParts } from './loop-parts.ts'
import { createPollPace } from './poll-pace.ts'
import type { Run } from './prefetcher.ts'

// Runs a loop: claims until the run ends or nothing is due anymore, then waits for the attempts to end.

/** Pause after a store failure, in milliseconds. Doubles with each consecutive failure. */
const FAILED_PAUSE_MS = 250
const FAILED_PAUSE_MAX_MS = 5000
/** How long to wait for results to be written at the end of a run, in milliseconds. */
const SETTLE_MS = 5000
/**
 * Extra time after `stop` has timed out, in milliseconds. Interrupted attempts end within 500 ms. The rest is for
 * writing results. With this, stopping takes at most a second longer than `timeoutMs`, even if neither the store nor
 * any subscriber responds.
 */
const STOP_GRACE_MS = 800
/** Pause while the database belongs to another installation, in milliseconds. */
const HELD_PAUSE_MS = 1000
const SWEEP_EVERY_MS = 10_000
/** How long `runOnce` waits for rate-limited endpoints, in milliseconds. Slower ones are left for the next run. */
const TURN_MS = 2000
/** How often to check whether in-flight attempts have ended, in milliseconds. */
const IDLE_CHECK_MS = 20

/** Watches the store and sweeps the queues until the watch ends. */
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

/** Calls a store function that shouldn't throw, but might. */
function callStore<T>({ notifier }: LoopParts, call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    notifier.reportFailure(error)
    return undefined
  }
}

/**
 * How long to wait for more deliveries after a claim of a few, in milliseconds. At 100 events a second, this saves a
 * sixth of the processor time, since a claim of two costs little more than a claim of one, and adds 5 ms to the p50.
 */
const GATHER_MS = 20
const FEW = 4

/** Claims after each wake-up and poll until the run ends. */
export async function keepDelivering(parts: LoopParts, run: Run, watch: DeliveryWatch): Promise<void> {
  const { options, prefetcher, queues, wakeUp, notifier, installation } = parts
  const pollInMs = createPollPace(options.pollIntervalMs, watch.setIdle)
  let failures = 0
  while (!run.isEnding) {
    try {
      const mayWork = await installation.mayWork()
      const receivedBefore = prefetcher.received
      const gathersUntil = performance.now() + GATHER_MS
      const hasMore = mayWork && !run.isEnding && (await prefetcher.claim(run))
      failures = 0
      if (!mayWork) await pause(parts, run, HELD_PAUSE_MS)
      else if (!hasMore && !run.isEnding) {
        const waitMs = await pollInMs(prefetcher.received)
        const claimed = prefetcher.received - receivedBefore
        // A claim may also be small because there was no room for more.
        const hasRoom =
          options.concurrency - queues.inFlight - queues.waiting >= FEW && !prefetcher.isThrottling
        if (claimed > 0 && claimed < FEW && hasRoom)
          await sleep(Math.max(0, gathersUntil - performance.now()))
        if (!run.isEnding) await wakeUp.wait(waitMs)
      }
    } catch (error) {
      notifier.reportFailure(error)
      const pauseMs = Math.min(FAILED_PAUSE_MAX_MS, FAILED_PAUSE_MS * 2 ** failures++)
      // If the store was unreachable, being woken up means it's back. Bugs don't go away, so sleep through wake-ups.
      if (!isStoreUnavailable(error)) await pause(parts, run, pauseMs)
      else if (!run.isEnding) await wakeUp.wait(pauseMs)
    }
  }
}

/** Waits until the timeout or the end of the run. Wake-ups are ignored. */
async function pause({ wakeUp }: LoopParts, run: Run, ms: number): Promise<void> {
  const endsAt = performance.now() + ms
  for (let leftMs = ms; !run.isEnding && leftMs > 0; leftMs = endsAt - performance.now()) {
    await wakeUp.wait(leftMs)
  }
}

/**
 * Delivers everything that's due, then runs maintenance.
 *
 * @throws `invalid_state` if the database belongs to another installation, or any store errors. Waits for in-flight
 * attempts first
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

/** Claims until a claim is empty, nothing was in progress before it, and no rate-limited endpoint is ready soon. */
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
    // The store's clock may be stopped in tests.
    const isInTime = performance.now() - receivedAt <= TURN_MS + IDLE_CHECK_MS
    const hasTurn = nextInMs !== null && nextInMs <= TURN_MS && isInTime
    isDone = wasIdle && !hasMore && !hasTurn && received === receivedBefore
    if (!hasMore && (hasTurn || !isIdle(parts))) await wakeUp.wait(IDLE_CHECK_MS)
  }
}

function isIdle({ queues }: LoopParts): boolean {
  return queues.inFlight + queues.waiting === 0
}

/** A run's promises. These may settle late or never if the store doesn't respond. */
export interface UnderWay {
  /** Settles once the run won't make any more claims. */
  readonly claims: Promise<unknown>
  /** Settles once no maintenance task is running. */
  readonly maintenance: Promise<unknown>
}

/**
 * Ends a run. Releases everything that hasn't started and waits for in-flight attempts.
 *
 * @param timeoutMs how long to wait before interrupting the attempts
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

/** Retries an unanswered claim to release its deliveries. If the store stays silent, their leases have to expire. */
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

/** Resolves when idle or at the deadline. Ending attempts wake the loop. */
async function waitUntilIdle(parts: LoopParts, endsAt: number): Promise<void> {
  for (let leftMs = endsAt - performance.now(); leftMs > 0; leftMs = endsAt - performance.now()) {
    if (isIdle(parts)) return
    await parts.wakeUp.wait(Math.min(IDLE_CHECK_MS, leftMs))
  }
}
