import type { ClaimedDelivery, EndpointRef } from '../webhooks/claims.ts'
import type { Verdict } from './verdict.ts'

// The queue of an endpoint in this process. It has claimed deliveries waiting for an attempt, attempts in flight, and
// the load that the endpoint has proven it can take (AIMD). Several of these states can apply at once:
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
  /** In milliseconds of the monotonic clock. */
  readonly leaseEndsAt: number
}

/** The queue of an endpoint in this process. Times are in milliseconds of the monotonic clock. */
export interface EndpointQueue {
  readonly organizationId: string
  readonly endpointId: string
  /** Number of deliveries claimed without content. */
  unread: number
  readonly waiting: Claimed[]
  inFlight: number
  /** Maximum number of attempts in flight. Each success adds 1. It's halved if the endpoint is slow. */
  concurrencyLimit: number
  /** `true` if the last attempt succeeded quickly, so deliveries claimed in advance won't wait for long. */
  isQuick: boolean
  /** `true` if the endpoint can take less than an unproven one. */
  isSlow: boolean
  /** `true` once an attempt was successful. Before that, we don't know the endpoint's response time. */
  isProven: boolean
  /** When the last attempt ended, or when the first of the attempts in flight started. */
  progressAt: number
  /** `true` if the queue is in line for the next attempt. */
  isReady: boolean
  /** Number of deliveries the last claim asked for and actually returned. If they are equal, more may be due. */
  capacity: number
  claimed: number
  blockedUntil: number
  throttledUntil: number
  heldUntil: number
  /** Deliveries of claims sent before this time are released, because the store didn't know about a rejection yet. */
  claimsFrom: number
  usedAt: number
}

/** Limits for an endpoint's attempts in flight. */
export interface ConcurrencyLimits {
  /** Limit for unproven endpoints. */
  readonly start: number
  readonly max: number
}

const QUICK_MS = 250
/** After being idle for this many milliseconds, an endpoint starts over. */
const IDLE_MS = 1000
/** An endpoint that hasn't responded for this many milliseconds is slow, even if no attempt has ended yet. */
const SLOW_AFTER_MS = 1000
/** Maximum number of an endpoint's deliveries in one claim. They form a burst that other endpoints have to wait for. */
const BURST_MAX = 16

/** Creates the queue of an endpoint that is new to this process. */
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

/** Returns the number of deliveries in a queue, which may be unread, waiting or in flight. */
export function sizeOf({ unread, inFlight, waiting }: EndpointQueue): number {
  return unread + inFlight + waiting.length
}

/** Returns how many deliveries can be claimed for a queue. */
export function capacityOf(queue: EndpointQueue): number {
  if (Math.max(queue.blockedUntil, queue.throttledUntil, queue.heldUntil) > performance.now()) return 0
  const ahead = queue.isQuick ? queue.concurrencyLimit : 0
  return Math.min(BURST_MAX, Math.max(0, queue.concurrencyLimit + ahead - sizeOf(queue)))
}

/**
 * Makes an endpoint that was idle start over with the start limit. The endpoint may be rate limited and reject
 * everything above that in a burst. A quick endpoint is back at its limit after a few attempts.
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
  // Half of 1 is below any start limit, so an endpoint can become slow even if all endpoints have a limit of 1.
  if (load === 'less' && half < limits.start) queue.isSlow = true
}

/** Returns `true` if the endpoint can take less than an unproven one or is blocked. */
export function isSlow(queue: EndpointQueue): boolean {
  return queue.isSlow || queue.blockedUntil > performance.now()
}

/** Returns `true` if no attempt in flight makes progress. The endpoint is then slow before any of them has ended. */
export function isHanging({ inFlight, progressAt }: EndpointQueue): boolean {
  return inFlight > 0 && progressAt <= performance.now() - SLOW_AFTER_MS
}
