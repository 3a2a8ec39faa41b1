import type { ClaimedDelivery, EndpointRef } from '../webhooks/claims.ts'
import type { Verdict } from './verdict.ts'

// An endpoint's queue in this process: claimed deliveries waiting for an attempt, in-flight attempts, and how much load
// the endpoint has shown it can handle (AIMD). A queue can be in multiple of these states:
//
// | state      | begins when                       | ends when                     | limit for the next claim        |
// |------------|-----------------------------------|-------------------------------|---------------------------------|
// | idle       | nothing waits or is in flight     | a delivery is claimed         | the start limit                 |
// | busy       | a delivery is claimed             | nothing is left in the queue  | limit minus the deliveries here |
// | backlogged | a claim returned all requested    | next plan, unless throttled   | same as busy, even when idle    |
// | quick      | an attempt succeeds in 250 ms     | any other result              | twice the limit, minus the same |
// | unproven   | the queue is created              | an attempt succeeds           | the unproven budget             |
// | slow       | limit < start, hangs 1 s, blocked | success at limit >= start     | the slow budget, in turns       |
// | throttled  | a claim found backlogs            | the time is up                | nothing                         |
// | blocked    | the secret or sender fails        | the time is up                | nothing                         |
// | held       | a delivery is rejected            | the store knows, or after 5 s | nothing                         |

/** A delivery claimed by this process. */
export interface Claimed extends ClaimedDelivery {
  readonly token: string
  /** In monotonic milliseconds. */
  readonly leaseEndsAt: number
}

/** An endpoint's queue in this process. All times are monotonic milliseconds. */
export interface EndpointQueue {
  readonly organizationId: string
  readonly endpointId: string
  /** Number of deliveries claimed without content. */
  unread: number
  readonly waiting: Claimed[]
  inFlight: number
  /** Maximum number of in-flight attempts. Incremented on success, halved if the endpoint is slow. */
  concurrencyLimit: number
  /** `true` if the last attempt succeeded quickly, so deliveries claimed in advance won't have to wait long. */
  isQuick: boolean
  /** `true` if the endpoint can take less load than an unproven one. */
  isSlow: boolean
  /** `true` after the first success. Until then, we don't know how fast the endpoint is. */
  isProven: boolean
  /** When the last attempt ended, or when the first in-flight attempt started. */
  progressAt: number
  /** `true` if the queue is in line to start an attempt. */
  isReady: boolean
  /** How many deliveries the last claim requested and returned. If equal, there may be more. */
  capacity: number
  claimed: number
  blockedUntil: number
  throttledUntil: number
  heldUntil: number
  /** Deliveries from claims sent before this are released, as the store didn't know about a rejection at the time. */
  claimsFrom: number
  usedAt: number
}

/** Limits on an endpoint's in-flight attempts. */
export interface ConcurrencyLimits {
  /** Initial limit, for unproven endpoints. */
  readonly start: number
  readonly max: number
}

const QUICK_MS = 250
/** An endpoint that was idle for this many milliseconds starts over. */
const IDLE_MS = 1000
/** An endpoint that hasn't responded for this many milliseconds is slow, even if none of its attempts have ended. */
const SLOW_AFTER_MS = 1000
/** Maximum number of deliveries per endpoint and claim, since other endpoints have to wait for such a burst. */
const BURST_MAX = 16

/** Creates the queue for an endpoint that is new to this process. */
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

/** Returns the number of deliveries in a queue, including unread and in-flight ones. */
export function sizeOf({ unread, inFlight, waiting }: EndpointQueue): number {
  return unread + inFlight + waiting.length
}

/** Returns how many more deliveries can be claimed for a queue. */
export function capacityOf(queue: EndpointQueue): number {
  if (Math.max(queue.blockedUntil, queue.throttledUntil, queue.heldUntil) > performance.now()) return 0
  const ahead = queue.isQuick ? queue.concurrencyLimit : 0
  return Math.min(BURST_MAX, Math.max(0, queue.concurrencyLimit + ahead - sizeOf(queue)))
}

/**
 * Resets an endpoint that was idle to the start limit, since it may be rate limited and reject anything above that in a
 * burst. A quick endpoint is back at the old limit after a handful of attempts.
 */
export function startAnew(queue: EndpointQueue, { start }: ConcurrencyLimits): void {
  if (performance.now() - queue.usedAt < IDLE_MS) return
  queue.concurrencyLimit = Math.min(queue.concurrencyLimit, start)
  queue.isQuick = false
}

/** Updates a queue after an attempt. */
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
  // Since half of 1 is below any start limit, endpoints can be marked slow even if all limits are 1.
  if (load === 'less' && half < limits.start) queue.isSlow = true
}

/** Returns `true` if the endpoint is blocked or can take less load than an unproven one. */
export function isSlow(queue: EndpointQueue): boolean {
  return queue.isSlow || queue.blockedUntil > performance.now()
}

/** Returns `true` if no in-flight attempt is making progress. The endpoint is slow even though no attempt has ended. */
export function isHanging({ inFlight, progressAt }: EndpointQueue): boolean {
  return inFlight > 0 && progressAt <= performance.now() - SLOW_AFTER_MS
}
