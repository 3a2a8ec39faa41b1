import type { Capacity } from '../webhooks/claims.ts'
import type { WebhookSender } from '../webhooks/webhook-sender.ts'
import { type Dispatcher, type DispatcherParts, refOf } from './dispatcher.ts'
import type { Notifier } from './notifier.ts'
import type { ClaimAnswer, Poller } from './poller.ts'
import type { Reader } from './reader.ts'
import type { ResultWriter } from './result-writer.ts'
import { TIMER_EARLY_MS, type WakeUp } from './wake-up.ts'

/** Claims as many deliveries as the queues have capacity for, and hands the deliveries to the dispatcher. */
export interface Prefetcher {
  /** Deliveries that claims have brought since the loop was created. */
  readonly received: number
  /** True if the last claim was not made, because too many results wait to be written. */
  readonly isHeldUp: boolean
  /** Milliseconds from the last claim until an endpoint's rate allows its next delivery; null: none waits. */
  readonly nextInMs: number | null
  /** True while endpoints with a backlog are throttled. */
  readonly isThrottling: boolean
  /**
   * Makes one claim. Deliveries that arrive when the run is ending are released.
   *
   * @returns whether there may be more to claim at once
   * @throws the error of the store
   */
  claim(run: Run): Promise<boolean>
  stopThrottling(): void
}

/** A run of a loop: begins with `start` or `runOnce`. */
export interface Run {
  readonly isOnce: boolean
  /** True from the call of `stop`. */
  isEnding: boolean
}

/** The parts that a prefetcher works with. */
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
 * Time for which a backlog is throttled after a claim, in multiples of the claim's duration. Beside a flood of 50,000 on two busy
 * cores, p99 of all other endpoints was 150 ms without throttling, 30 ms with 2, 20 ms with 6.
 */
const THROTTLE_FACTOR = 6
/** Maximum time for which a backlog is throttled, in ms: a claim of several seconds is the database's fault. */
const THROTTLE_MAX_MS = 200
/** Maximum number of results that wait to be written, in multiples of the concurrency. */
const PENDING_FACTOR = 4
/** Maximum total size of a claim's bodies, in bytes: 16 of the largest that are allowed by default. */
const CLAIM_BYTES = 4 * 1024 * 1024
/**
 * A claim that failed after this long may still hold the locks of its deliveries, because the database gives up later than
 * this process. Other claims skip locked deliveries meanwhile, so the prefetcher stays careful.
 */
const HANGING_MS = 1000
const CAREFUL_MS = 30_000
/** Maximum time until the loop is woken for a turn, in ms: no limit but that of timers. */
const TURN_MAX_MS = 60_000

/**
 * Creates the prefetcher of a loop. After a failed claim the prefetcher is careful: it claims deliveries without content, and the
 * reader reads each separately, so an unreadable delivery is found and stops no other. The prefetcher is no longer careful when all
 * deliveries of a careful claim have been read and no delivery is suspected; after a claim that hung, 30 seconds later at the earliest.
 *
 * @param concurrency attempts in flight at once
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

  /** Without throttling, a backlog would keep the database and this process busy, and all other deliveries waiting. */
  function throttle(ms: number): void {
    if (!queues.throttle(ms)) return
    clearTimeout(throttling)
    throttling = setTimeout(() => {
      throttling = undefined
      wakeUp.wake()
    }, Math.ceil(ms) + TIMER_EARLY_MS)
  }

  /** Wakes the loop for a delivery that waits for its turn by its endpoint's rate: ahead of the next poll. */
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
      // Before anything is claimed, because an incomplete sender would use up the attempts. A stop needs no sender.
      if (!run.isEnding) await sender.prepare?.()
      const plan = queues.planClaim()
      queues.adoptPlan(plan)
      isHeldUp = resultWriter.pending > concurrency * PENDING_FACTOR
      // An ending run makes no new claim and only repeats an unanswered claim.
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
