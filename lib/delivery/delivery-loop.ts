import { readTimeout } from '../base/options.ts'
import { ATTEMPT_MAX_MS } from '../webhooks/attempt.ts'
import type { LoopHealth } from '../webhooks/loop-health.ts'
import type { QueueCounts } from '../webhooks/queue-counts.ts'
import type { WebhookSender } from '../webhooks/webhook-sender.ts'
import type { DeliveryLoopOptions } from './loop-options.ts'
import { createLoopParts, type LoopStore } from './loop-parts.ts'
import { deliverOnce, endRun, keepDelivering, type UnderWay, watchStore } from './loop-run.ts'
import type { Run } from './prefetcher.ts'
import type { DeliveryCounts } from './result-writer.ts'

// The loop is `stopped`, `running` (from start), `running once`, or `stopping` (from stop, until the attempts have ended).
//
// A running loop claims as much as the queues have capacity for, and then waits: for an event of this or another process,
// for an attempt that has freed capacity, or for the next poll. `running once` claims until nothing is left.
//
// The states of a claimed delivery in this process:
//
//   waiting    in the endpoint's queue; released to the store when the lease has become too short for an attempt, when
//              the secret cannot be opened, and when the loop stops
//   in flight  signed and sent; ends with a response, at the deadline, or when a stop waits no longer
//   ended      the result waits for the next batch; once written, the delivery is the store's again
//
// The claims of a dead process end with the leases: each claim counts as an attempt, `interrupted`, and is due again.

/** The queue of all processes, and the attempts since the loop was created. */
export interface DeliveryStats extends QueueCounts {
  readonly attempts: DeliveryCounts
}

/** Delivers due events. Any number of processes may run a loop at once. */
export interface DeliveryLoop extends AsyncDisposable {
  /**
   * Begins to deliver, at once and until `stop`. Keeps the process alive.
   *
   * @throws `TypeError` while the loop is stopping or running once
   */
  start(): void
  /**
   * Stops claiming, releases deliveries that have not been begun, and waits for the attempts in flight.
   *
   * @param options.timeoutMs how long attempts may take, in milliseconds; attempts left then are interrupted and made
   *   again later, by any process. Default 12,000: longer than any attempt. The stop ends a second after that time at the
   *   latest, also when the store does not respond
   */
  stop(options?: { timeoutMs?: number | undefined }): Promise<void>
  /**
   * Delivers due events, sends notices of expiries, purges old events, and ends: for a scheduler, and for tests. A purge
   * of many events is continued by the next call.
   *
   * @throws `TypeError` while the loop runs; `BusinessApiError` with code `invalid_state` on another installation's database; the
   *   store's errors
   */
  runOnce(): Promise<DeliveryCounts>
  /** Counts the deliveries of all organizations that are not finished, and the attempts of this loop. */
  stats(): Promise<DeliveryStats>
  /** Tells how this loop stands, without a call of the store. */
  health(): LoopHealth
}

/**
 * Creates a loop that delivers a store's events (specification, section 6). Opens nothing and sets no timer before `start`, and never touches the
 * process's signals.
 *
 * @param sender makes the attempts: `createWebhookSender()`. Stays open when the loop stops
 * @throws `TypeError` or `RangeError` for an invalid option
 * @example
 * ```ts
 * const loop = createDeliveryLoop(store, createWebhookSender(), { secretKeys })
 * loop.start()
 * process.once('SIGTERM', () => loop.stop())
 * ```
 */
export function createDeliveryLoop(
  store: LoopStore,
  sender: WebhookSender,
  options: DeliveryLoopOptions = {},
): DeliveryLoop {
  const parts = createLoopParts(store, sender, options)
  const { deliveries, dispatcher, installation, maintenance, queues, resultWriter, steps } = parts
  const { counts } = resultWriter
  let run: Run | undefined
  let underWay: UnderWay = NOTHING
  let unwatch = (): void => {}
  let leaveSlots = (): void => {}
  /** Settles when the last stop has ended. */
  let stopped: Promise<void> = Promise.resolve()
  let endPresentRun = (): void => {}

  function begin(isOnce: boolean): Run {
    dispatcher.begin()
    leaveSlots = queues.join()
    run = { isOnce, isEnding: false }
    return run
  }

  async function end(present: Run, timeoutMs: number): Promise<void> {
    unwatch()
    await endRun(parts, present, underWay, timeoutMs)
    leaveSlots()
    run = undefined
    endPresentRun()
  }

  const loop: DeliveryLoop = {
    start() {
      if (stateOf(run) === 'running') return
      if (run !== undefined) throw new TypeError(`Cannot start the loop because it is ${stateOf(run)}`)
      const present = begin(false)
      const watch = watchStore(parts)
      unwatch = watch.end
      underWay = { claims: keepDelivering(parts, present, watch), maintenance: maintenance.keepRunning() }
    },

    async stop(options) {
      const timeoutMs = readTimeout(options, ATTEMPT_MAX_MS)
      if (run !== undefined && !run.isEnding) stopped = end(run, timeoutMs)
      await stopped
    },

    async runOnce() {
      if (run !== undefined) throw new TypeError(`Cannot run the loop once because it is ${stateOf(run)}`)
      const before = { ...counts }
      const present = begin(true)
      const delivered = deliverOnce(parts, present).finally(() => {
        if (present.isEnding) return
        leaveSlots()
        run = undefined
      })
      underWay = { ...NOTHING, claims: delivered.catch(() => {}) }
      const ended = new Promise<void>((resolve) => {
        endPresentRun = resolve
      })
      // A stop waits for the attempts in flight, and does not wait for a store that does not respond.
      await Promise.race([delivered, ended])
      if (present.isEnding) await ended
      return {
        delivered: counts.delivered - before.delivered,
        retried: counts.retried - before.retried,
        failed: counts.failed - before.failed,
      }
    },

    async stats() {
      return { ...(await deliveries.countQueue(null)), attempts: { ...counts } }
    },

    health() {
      const { succeededAt, failures } = steps.claims
      const lastClaimAgoMs = succeededAt === null ? null : performance.now() - succeededAt
      const { heldBecause } = installation
      return { state: stateOf(run), lastClaimAgoMs, failedClaims: failures, heldBecause }
    },

    [Symbol.asyncDispose]: () => loop.stop(),
  }
  return loop
}

const NOTHING: UnderWay = { claims: Promise.resolve(), maintenance: Promise.resolve() }

function stateOf(run: Run | undefined): LoopHealth['state'] {
  if (run === undefined) return 'stopped'
  if (run.isEnding) return 'stopping'
  return run.isOnce ? 'running once' : 'running'
}
