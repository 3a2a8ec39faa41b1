import { isStoreUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { DeliveryWatch } from '../webhooks/claims.ts'
import { refOf } from './dispatcher.ts'
import type { LoopParts } from './loop-parts.ts'
import { createPollPace } from './poll-pace.ts'
import type { Run } from './prefetcher.ts'

// Runs a loop. Claims until the run is ended or nothing is due anymore, and then waits for the attempts to end.

/** Pause after the store has failed, in milliseconds. Doubles with each consecutive failure. */
const FAILED_PAUSE_MS = 250
const FAILED_PAUSE_MAX_MS = 5000
/** How long to wait for results to be written at the end of a run, in milliseconds. */
const SETTLE_MS = 5000
/**
 * Additional time after the `timeoutMs` of `stop`, in milliseconds. Interrupted attempts end within 500 ms, and the
 * rest is for writing results. This way stopping takes at most a second longer than `timeoutMs`, even if neither the
 * store nor a subscriber responds.
 */
const STOP_GRACE_MS = 800
/** Pause while the database belongs to another installation, in milliseconds. */
const HELD_PAUSE_MS = 1000
const SWEEP_EVERY_MS = 10_000
/** How long `runOnce` waits for a delivery's turn, in milliseconds. Slower endpoints are left for the next run. */
const TURN_MS = 2000
/** How often to check whether the attempts in flight have ended, in milliseconds. */
const IDLE_CHECK_MS = 20

/** Watches the store and sweeps the queues until the watch is ended. */
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

/** Calls a store function that must not throw. */
function callStore<T>({ notifier }: LoopParts, call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    notifier.reportFailure(error)
    return undefined
  }
}

/** Claims after each wake-up and poll until the run is ended. */
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
      // If the store was unreachable, a wake-up means that it's back. A bug wouldn't go away.
      if (!isStoreUnavailable(error)) await pause(parts, run, pauseMs)
      else if (!run.isEnding) await wakeUp.wait(pauseMs)
    }
  }
}

/** Waits until the time is up or the run is ended. Wake-ups are ignored. */
async function pause({ wakeUp }: LoopParts, run: Run, ms: number): Promise<void> {
  const endsAt = performance.now() + ms
  for (let leftMs = ms; !run.isEnding && leftMs > 0; leftMs = endsAt - performance.now()) {
    await wakeUp.wait(leftMs)
  }
}

/**
 * Delivers everything that is due and then runs maintenance.
 *
 * @throws `invalid_state` if the database belongs to another installation, and errors of the store after waiting for
 * the attempts in flight
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

/** Claims until a claim returns nothing, nothing was in progress before it, and no delivery gets its turn soon. */
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
    // In tests, the store's clock may stand still.
    const isInTime = performance.now() - receivedAt <= TURN_MS + IDLE_CHECK_MS
    const hasTurn = nextInMs !== null && nextInMs <= TURN_MS && isInTime
    isDone = wasIdle && !hasMore && !hasTurn && received === receivedBefore
    if (!hasMore && (hasTurn || !isIdle(parts))) await wakeUp.wait(IDLE_CHECK_MS)
  }
}

function isIdle({ queues }: LoopParts): boolean {
  return queues.inFlight + queues.waiting === 0
}

/** Promises of a run. If the store doesn't respond, they may settle late or never. */
export interface UnderWay {
  /** Settles when the run won't make any more claims. */
  readonly claims: Promise<unknown>
  /** Settles when no maintenance task is running. */
  readonly maintenance: Promise<unknown>
}

/**
 * Ends a run. Releases everything that hasn't started, and waits for attempts in flight.
 *
 * @param timeoutMs how long to wait for attempts before interrupting them
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

/** Releases the deliveries of a claim that got no response. If the store stays silent, only the lease ends it. */
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

/** The loop is woken whenever an attempt ends. */
async function waitUntilIdle(parts: LoopParts, endsAt: number): Promise<void> {
  for (let leftMs = endsAt - performance.now(); leftMs > 0; leftMs = endsAt - performance.now()) {
    if (isIdle(parts)) return
    await parts.wakeUp.wait(Math.min(IDLE_CHECK_MS, leftMs))
  }
}
