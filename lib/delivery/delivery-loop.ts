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

// A loop is `stopped`, `running` (after `start`), `running once` or `stopping` (from `stop` until all attempts
// have ended).
//
// While running, it claims whatever the queues can take, then waits for the next poll, an event from any process, or an
// attempt that frees up capacity. With `runOnce`, it claims until there's nothing left.
//
// Within this process, a claimed delivery is in one of these states:
//
//   waiting    in its endpoint's queue. Released if the remaining lease is too short for an attempt, if the secret
//              can't be opened, or if the loop stops
//   in flight  signed and sent. Ends with a response, at the deadline, or when `stop` times out
//   ended      the result is waiting for the next batch. Once written, the delivery is up to the store again
//
// If a process dies, each claim ends when the lease expires, counts as an `interrupted` attempt, and is due again.

/** The queue counts across all processes, and this loop's attempts since it was created. */
export interface DeliveryStats extends QueueCounts {
  readonly attempts: DeliveryCounts
}

/** Delivers events that are due. You can run loops in as many processes as you like. */
export interface DeliveryLoop extends AsyncDisposable {
  /**
   * Starts delivering until `stop` is called. Keeps the process alive.
   *
   * @throws `TypeError` if the loop is stopping or running once
   */
  start(): void
  /**
   * Stops claiming, releases unattempted deliveries, and waits for in-flight attempts.
   *
   * @param options.timeoutMs how long to wait for attempts before interrupting them, in milliseconds. Any process can
   * retry interrupted attempts later. Defaults to 12,000, which is longer than any attempt. Stopping takes up to one
   * second longer than this, even if the store doesn't respond
   */
  stop(options?: { timeoutMs?: number | undefined }): Promise<void>
  /**
   * Delivers everything that's due, sends expiry notices, purges old events and returns. Useful for schedulers and
   * tests. If there are too many events to purge in one call, the next call picks up where this one stopped.
   *
   * @throws `TypeError` if the loop is running, `BusinessApiError` with code `invalid_state` if the database belongs to
   * another installation. Also throws any store errors
   */
  runOnce(): Promise<DeliveryCounts>
  /** Returns the number of unfinished deliveries across all organizations, along with this loop's attempts. */
  stats(): Promise<DeliveryStats>
  /** Returns the loop's current health. Doesn't access the store. */
  health(): LoopHealth
}

/**
 * Creates a loop that delivers a store's events (see section 6 of the spec). Before `start`, it doesn't open any
 * connections or set any timers. It never handles process signals.
 *
 * @param sender makes the attempts, for example `createWebhookSender()`. Stays open when the loop stops
 * @throws `TypeError` or `RangeError` for invalid options
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
  /** Resolves once the last `stop` is complete. */
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
      // `stop` waits for in-flight attempts, but not for a store that isn't responding.
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
