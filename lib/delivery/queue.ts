import type { ClaimedDelivery, EndpointRef } from '../webhooks/claims.ts'
import type { Verdict } from './verdict.ts'

// The queue of an endpoint in this process: claimed deliveries that wait for an attempt, attempts in flight, and the load
// that the endpoint has proved to take (AIMD). Several of these states hold at once:
//
// | state    | begins                                           | ends                                   | next claim brings at most             |
// |----------|--------------------------------------------------|----------------------------------------|---------------------------------------|
// | idle     | nothing waits, nothing is in flight              | a claim brings a delivery              | the start limit                       |
// | busy     | a claim brings a delivery                        | nothing is read, waits or is in flight | concurrency limit less the deliveries here |
// | backlogged | a claim brought as many as were asked for        | the next plan, unless throttled        | as busy, even when idle               |
// | quick    | a success within 250 ms                          | any other result                       | twice the limit less the deliveries here |
// | unproven | with the queue                                   | the first success                      | within the budget of unproven endpoints |
// | slow     | limit halved below the start; attempts hang 1 s; blocked | success at the start limit or above | within the budget of slow endpoints, by turns |
// | throttled | the backlog is throttled after a claim              | the time has passed                    | nothing                               |
// | blocked  | the secret cannot be opened, the sender fails    | the time has passed                    | nothing                               |
// | held     | the endpoint rejects a delivery                  | the store knows, or 5 s have passed    | nothing                               |

/** A claimed delivery in this process. */
export interface Claimed extends ClaimedDelivery {
  readonly token: string
  /** On the monotonic clock, in milliseconds. */
  readonly leaseEndsAt: number
}

/** The queue of an endpoint in this process. Times are on the monotonic clock, in milliseconds. */
export interface EndpointQueue {
  readonly organizationId: string
  readonly endpointId: string
  /** Claimed deliveries without the content. */
  unread: number
  readonly waiting: Claimed[]
  inFlight: number
  /** Attempts that may be in flight at once: halved when the endpoint is slow, increased by 1 with each success. */
  concurrencyLimit: number
  /** True if the last attempt succeeded quickly, so deliveries claimed ahead do not wait long. */
  isQuick: boolean
  /** True if the endpoint takes less than an unproven endpoint. */
  isSlow: boolean
  /** True after the first successful attempt; until then the endpoint's response time is unknown. */
  isProven: boolean
  /** When the last attempt ended, or when the first attempt in flight began. */
  progressAt: number
  /** True if the queue is in line for the next attempt. */
  isReady: boolean
  /** Deliveries that the last claim asked for, and deliveries that the claim brought: when equal, more may be due. */
  capacity: number
  claimed: number
  blockedUntil: number
  throttledUntil: number
  heldUntil: number
  /** Deliveries of claims sent before this time are released: the store did not know of a rejection. */
  claimsFrom: number
  usedAt: number
}

/** Attempts of an endpoint that may be in flight at once. */
export interface ConcurrencyLimits {
  /** Limit of an unproven endpoint. */
  readonly start: number
  readonly max: number
}

const QUICK_MS = 250
/** Idle time after which an endpoint starts afresh, in ms. */
const IDLE_MS = 1000
/** An endpoint that has answered no attempt for this long is slow, also before any attempt has ended. */
const SLOW_AFTER_MS = 1000
/** Maximum number of an endpoint's deliveries in one claim: a burst, for which other endpoints' deliveries wait. */
const BURST_MAX = 16

/** Creates the queue of an endpoint that this process does not know yet. */
export function createEndpointQueue(
  { organizationId, endpointId }: EndpointRef,
  { start }: ConcurrencyLimits,
): EndpointQueue {
  return {
    organizationId,
    endpointId,
    unread: 0,
    waiting: [],
    inFlight: 0,
    concurrencyLimit: start,
    isQuick: false,
    isSlow: false,
    isProven: false,
    progressAt: 0,
    isReady: false,
    capacity: start,
    claimed: 0,
    blockedUntil: 0,
    throttledUntil: 0,
    heldUntil: 0,
    claimsFrom: 0,
    usedAt: performance.now(),
  }
}

/** The number of deliveries in a queue: unread, waiting or in flight. */
export function sizeOf({ unread, inFlight, waiting }: EndpointQueue): number {
  return unread + inFlight + waiting.length
}

/** The number of deliveries that may be claimed for a queue. */
export function capacityOf(queue: EndpointQueue): number {
  if (Math.max(queue.blockedUntil, queue.throttledUntil, queue.heldUntil) > performance.now()) return 0
  const ahead = queue.isQuick ? queue.concurrencyLimit : 0
  return Math.min(BURST_MAX, Math.max(0, queue.concurrencyLimit + ahead - sizeOf(queue)))
}

/**
 * Lets an endpoint that was idle begin with the start limit: it may have a rate limit, and each attempt of a burst beyond it is
 * rejected. A quick endpoint is back at its limit after a few attempts.
 */
export function startAnew(queue: EndpointQueue, { start }: ConcurrencyLimits): void {
  if (performance.now() - queue.usedAt < IDLE_MS) return
  queue.concurrencyLimit = Math.min(queue.concurrencyLimit, start)
  queue.isQuick = false
}

/** Adapts a queue to the result of an attempt. */
export function adapt(
  queue: EndpointQueue,
  load: Verdict['load'],
  durationMs: number,
  limits: ConcurrencyLimits,
): void {
  const half = Math.floor(queue.concurrencyLimit / 2)
  queue.isQuick = load === 'more' && durationMs < QUICK_MS
  if (load === 'more') queue.isProven = true
  if (load === 'more') queue.concurrencyLimit = Math.min(limits.max, queue.concurrencyLimit + 1)
  if (load === 'less') queue.concurrencyLimit = Math.max(1, half)
  if (load === 'more' && queue.concurrencyLimit >= limits.start) queue.isSlow = false
  // Half of 1 is below every start limit, so an endpoint can be slow also where each endpoint has a limit of 1.
  if (load === 'less' && half < limits.start) queue.isSlow = true
}

/** True if the endpoint takes less than an unproven endpoint, or is blocked. */
export function isSlow(queue: EndpointQueue): boolean {
  return queue.isSlow || queue.blockedUntil > performance.now()
}

/** True if every attempt in flight hangs, so the endpoint counts as slow before any attempt has ended. */
export function isHanging({ inFlight, progressAt }: EndpointQueue): boolean {
  return inFlight > 0 && progressAt <= performance.now() - SLOW_AFTER_MS
}
