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

// The loop can be `stopped`, `running` (after `start`), `running once` or `stopping` (after `stop`, until all
// attempts have ended).
//
// While running, it claims as much as the queues can take and then waits for an event from this or another process, for
// an attempt that frees up capacity, or for the next poll. If `running once`, it claims until nothing is left.
//
// In this process, a claimed delivery can be in one of these states:
//
//   waiting    in its endpoint's queue. Released if the remaining lease is too short for an attempt, if the secret
//              can't be opened, or if the loop stops
//   in flight  signed and sent. Ends with a response, at the deadline, or if `stop` doesn't wait any longer
//   ended      waiting for the result to be written with the next batch. After that it's up to the store again
//
// The claims of a dead process end with their leases. Each counts as an `interrupted` attempt and is due again.

/** The current queue of all processes and the attempts of this loop since it was created. */
export interface DeliveryStats extends QueueCounts {
  readonly attempts: DeliveryCounts
}

/** Delivers due events. Any number of processes can run a loop at the same time. */
export interface DeliveryLoop extends AsyncDisposable {
  /**
   * Starts delivering and continues until `stop` is called. Keeps the process alive.
   *
   * @throws `TypeError` if the loop is stopping or running once
   */
  start(): void
  /**
   * Stops claiming, releases deliveries that haven't been attempted yet, and waits for attempts in flight.
   *
   * @param options.timeoutMs how long to wait for attempts, in milliseconds. After that they are interrupted and any
   * process can repeat them later. Defaults to 12,000, which is longer than any attempt. Stopping takes up to a second
   * longer than this, even if the store doesn't respond
   */
  stop(options?: { timeoutMs?: number | undefined }): Promise<void>
  /**
   * Delivers due events, sends notices about expiries, purges old events and then returns. Useful for schedulers and
   * tests. If there are lots of events to purge, the next call continues.
   *
   * @throws `TypeError` if the loop is running, `BusinessApiError` with code `invalid_state` if the database belongs to
   * another installation, and errors of the store
   */
  runOnce(): Promise<DeliveryCounts>
  /** Returns the number of unfinished deliveries of all organizations and the attempts of this loop. */
  stats(): Promise<DeliveryStats>
  /** Returns the current health of this loop without accessing the store. */
  health(): LoopHealth
}

/**
 * Creates a loop that delivers the events of a store (specification, section 6). It doesn't open anything or set timers
 * before `start`, and it never handles process signals.
 *
 * @param sender makes the attempts, for example `createWebhookSender()`. It isn't closed when the loop stops
 * @throws `TypeError` or `RangeError` if an option is invalid
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
  /** Resolves when the last stop is complete. */
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
      // `stop` waits for attempts in flight, but it doesn't wait for a store that isn't responding.
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
