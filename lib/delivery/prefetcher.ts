import type { Capacity } from '../webhooks/claims.ts'
import type { WebhookSender } from '../webhooks/webhook-sender.ts'
import { type Dispatcher, type DispatcherParts, refOf } from './dispatcher.ts'
import type { Notifier } from './notifier.ts'
import type { ClaimAnswer, Poller } from './poller.ts'
import type { Reader } from './reader.ts'
import type { ResultWriter } from './result-writer.ts'
import { TIMER_EARLY_MS, type WakeUp } from './wake-up.ts'

/** Claims as many deliveries as the queues can take and hands them to the dispatcher. */
export interface Prefetcher {
  /** Number of deliveries received since the loop was created. */
  readonly received: number
  /** `true` if the last claim was skipped because too many results are waiting to be written. */
  readonly isHeldUp: boolean
  /** Milliseconds from the last claim until an endpoint's rate allows its next delivery, or `null` if none waits. */
  readonly nextInMs: number | null
  /** `true` while endpoints with a backlog are being throttled. */
  readonly isThrottling: boolean
  /**
   * Makes one claim. If the run is ending, its deliveries are released.
   *
   * @returns whether more can be claimed right away
   * @throws any store errors
   */
  claim(run: Run): Promise<boolean>
  stopThrottling(): void
}

/** One run of a loop, begun by `start` or `runOnce`. */
export interface Run {
  readonly isOnce: boolean
  /** `true` once `stop` has been called. */
  isEnding: boolean
}

/** The parts a prefetcher needs. */
export interface PrefetcherParts extends Pick<DispatcherParts, 'queues'> {
  readonly sender: Pick<WebhookSender, 'prepare'>
  readonly poller: Poller
  readonly reader: Pick<Reader, 'pending' | 'hasSuspects' | 'add' | 'noteRead'>
  readonly resultWriter: Pick<ResultWriter, 'release' | 'pending'>
  readonly dispatcher: Pick<Dispatcher, 'dispatch' | 'setClock'>
  readonly notifier: Pick<Notifier, 'notifyFailed'>
  readonly wakeUp: Pick<WakeUp, 'wake'>
}

/**
 * How long to throttle backlogs, as a multiple of the claim's duration. With a backlog of 50,000 on two busy cores, the
 * p99 of all other endpoints was 150 ms without throttling, 30 ms with a factor of 2, and 20 ms with 6.
 */
const THROTTLE_FACTOR = 6
/** Maximum throttling in milliseconds. If a claim takes seconds, the problem is the database. */
const THROTTLE_MAX_MS = 200
/** Maximum number of unwritten results, as a multiple of the concurrency. */
const PENDING_FACTOR = 4
/** Maximum combined size of all bodies in a claim, in bytes. Enough for 16 bodies of the default maximum size. */
const CLAIM_BYTES = 4 * 1024 * 1024
/**
 * A claim that failed after this long may still hold locks on its deliveries because our timeout is shorter than the
 * database's. Other claims skip locked deliveries in the meantime, so we stay careful for a while. In milliseconds.
 */
const HANGING_MS = 1000
const CAREFUL_MS = 30_000
/** Maximum delay before waking the loop for a rate-limited endpoint, in milliseconds. Any valid timer delay will do. */
const TURN_MAX_MS = 60_000

/**
 * Creates a loop's prefetcher. After a failed claim, it becomes careful and claims deliveries without content. The
 * reader then reads each delivery separately to identify unreadable deliveries without blocking the rest. This mode
 * ends once a careful claim's deliveries have all been read and there are no suspects, but no sooner than 30 seconds
 * after a claim hung.
 *
 * @param concurrency maximum number of in-flight attempts
 */
export function createPrefetcher(
  { sender, poller, reader, queues, resultWriter, dispatcher, notifier, wakeUp }: PrefetcherParts,
  concurrency: number,
): Prefetcher {
  let received = 0
  let isHeldUp = false
  let hasFailed = false
  let wasCareful = false
  let carefulUntil = 0
  let throttling: NodeJS.Timeout | undefined
  let nextInMs: number | null = null
  let turn: NodeJS.Timeout | undefined

  function accept({ deliveries, unread, failed, storeOffset }: ClaimAnswer, run: Run, sentAt: number): void {
    dispatcher.setClock(storeOffset)
    received += deliveries.length + unread.length
    if (run.isEnding) {
      for (const delivery of [...deliveries, ...unread]) resultWriter.release(refOf(delivery))
    } else {
      for (const delivery of deliveries)
        if (!queues.add(delivery, sentAt)) resultWriter.release(refOf(delivery))
      for (const delivery of unread) {
        queues.addUnread(delivery)
        reader.add(delivery)
      }
    }
    dispatcher.dispatch()
    notifier.notifyFailed(failed)
  }

  /** Without throttling, a backlog keeps the database and this process busy, which delays all other deliveries. */
  function throttle(ms: number): void {
    if (!queues.throttle(ms)) return
    clearTimeout(throttling)
    throttling = setTimeout(() => {
      throttling = undefined
      wakeUp.wake()
    }, Math.ceil(ms) + TIMER_EARLY_MS)
  }

  /** Wakes the loop when a rate-limited endpoint can take its next delivery, instead of waiting for the next poll. */
  function wakeIn(ms: number | null): void {
    nextInMs = ms
    clearTimeout(turn)
    if (ms !== null) turn = setTimeout(wakeUp.wake, Math.min(ms, TURN_MAX_MS) + TIMER_EARLY_MS).unref()
  }

  function mustBeCareful(): boolean {
    const isPending = wasCareful && reader.pending > 0
    return hasFailed || isPending || reader.hasSuspects || carefulUntil > performance.now()
  }

  async function poll(limit: number, capacity: Capacity): Promise<ClaimAnswer> {
    const isCareful = mustBeCareful()
    const sentAt = performance.now()
    hasFailed = true
    try {
      const answer = await poller.claim(limit, isCareful ? 0 : CLAIM_BYTES, capacity)
      hasFailed = false
      wasCareful = isCareful
      return answer
    } finally {
      if (hasFailed && performance.now() - sentAt > HANGING_MS) carefulUntil = performance.now() + CAREFUL_MS
    }
  }

  return {
    get received() {
      return received
    },
    get isHeldUp() {
      return isHeldUp
    },
    get nextInMs() {
      return nextInMs
    },
    get isThrottling() {
      return throttling !== undefined
    },
    async claim(run) {
      // Check the sender first, since claiming with an incomplete one would use up attempts. Not needed when stopping.
      if (!run.isEnding) await sender.prepare?.()
      const plan = queues.planClaim()
      queues.adoptPlan(plan)
      isHeldUp = resultWriter.pending > concurrency * PENDING_FACTOR
      // If the run is ending, only retry an unanswered claim, and don't claim anything new.
      const limit = run.isEnding ? 0 : plan.limit
      if (!run.isEnding && (limit <= 0 || isHeldUp)) return false
      const sentAt = performance.now()
      const answer = await poll(limit, plan.capacity)
      const tookMs = performance.now() - sentAt
      if (answer.deliveries.length > 0) reader.noteRead(tookMs)
      accept(answer, run, sentAt)
      wakeIn(answer.nextInMs)
      if (!run.isOnce && !run.isEnding) throttle(Math.min(THROTTLE_MAX_MS, tookMs * THROTTLE_FACTOR))
      return answer.hasMore
    },
    stopThrottling() {
      clearTimeout(throttling)
      throttling = undefined
    },
  }
}
