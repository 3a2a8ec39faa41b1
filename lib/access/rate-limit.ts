/**
 * The size of a bucket: `perSecond` requests (above 0) in the long run, `burst` requests (a whole number from 1) at
 * once.
 */
export interface RateLimit {
  readonly perSecond: number
  readonly burst: number
}

/**
 * Within these bounds the arithmetic of buckets holds and the numbers fit a database's types. From about 10,000 per second on, a bucket
 * isn't exact: the tolerance of 0.01 ms is then a large part of the interval.
 */
export const RATE_LIMIT_BOUNDS = {
  perSecondMin: 0.001,
  perSecondMax: 1_000_000,
  burstMax: 1_000_000_000,
} as const

/** The rule for a limit, for error messages. */
export const RATE_LIMIT_REQUIREMENT: string =
  `{ perSecond, burst } with perSecond from ${RATE_LIMIT_BOUNDS.perSecondMin} to ${RATE_LIMIT_BOUNDS.perSecondMax} ` +
  `and burst a whole number from 1 to ${RATE_LIMIT_BOUNDS.burstMax}`

/** Returns whether a limit is within {@link RATE_LIMIT_BOUNDS}. */
export function isRateLimit({ perSecond, burst }: RateLimit): boolean {
  const { perSecondMin, perSecondMax, burstMax } = RATE_LIMIT_BOUNDS
  return (
    typeof perSecond === 'number' &&
    perSecond >= perSecondMin &&
    perSecond <= perSecondMax &&
    Number.isInteger(burst) &&
    burst >= 1 &&
    burst <= burstMax
  )
}

/** Every request's two buckets: the API key's and the organization's (specification, section 8). */
export interface RateLimits {
  readonly key: RateLimit
  readonly organization: RateLimit
}

/** A bucket after the judgement of a request. */
export interface BucketState extends RateLimit {
  /** Requests that the bucket would let through right now. */
  readonly remaining: number
  /** Milliseconds until the bucket is full again. */
  readonly resetMs: number
}

/** Both buckets after a request was judged. */
export interface RateLimitState {
  readonly key: BucketState
  readonly organization: BucketState
  /** 0 when the request was let through, else the milliseconds until a request would be let through. */
  readonly retryAfterMs: number
}

/** The time at which each bucket is full again, in milliseconds of the deciding clock; 0 for a bucket never used. */
export interface BucketTimes {
  readonly key: number
  readonly organization: number
}

/** The buckets that only one limit fills: a time further ahead than empty is then the trace of a lower limit or another clock. */
export interface OwnBuckets {
  readonly key: boolean
  readonly organization: boolean
}

const BOTH: OwnBuckets = { key: true, organization: true }

/**
 * Takes a token from both buckets with GCRA. A bucket is a number, the time at which it is full again. A request moves that time on by one
 * interval, and is rejected if the time would then be more than a burst ahead of now. Both buckets give a token, or neither does.
 *
 * @param own the buckets that are never more than empty: a time that is further ahead, because the limit was raised or the clock went back, counts
 *   as the time of an empty bucket. Not for a bucket that another API with lower limits uses too, which this would refill. Default both
 * @returns the new times (unchanged if rejected) and the state of both buckets for the caller
 * @example
 * ```ts
 * const limit = { perSecond: 10, burst: 100 }
 * const { times, state } = takeToken({ key: 0, organization: 0 }, { key: limit, organization: limit }, Date.now())
 * ```
 */
export function takeToken(
  times: BucketTimes,
  limits: RateLimits,
  now: number,
  own: OwnBuckets = BOTH,
): { times: BucketTimes; state: RateLimitState } {
  const before = {
    key: own.key ? atMostEmpty(times.key, limits.key, now) : times.key,
    organization: own.organization
      ? atMostEmpty(times.organization, limits.organization, now)
      : times.organization,
  }
  const key = spend(before.key, limits.key, now)
  const organization = spend(before.organization, limits.organization, now)
  const retryAfterMs = Math.max(key.waitMs, organization.waitMs)
  const after = retryAfterMs > 0 ? before : { key: key.fullAtAfter, organization: organization.fullAtAfter }
  return { times: after, state: { ...describeBuckets(after, limits, now), retryAfterMs } }
}

/** Describes both buckets to the caller of a request that was let through. */
export function describeBuckets(times: BucketTimes, limits: RateLimits, now: number): RateLimitState {
  return {
    key: describe(times.key, limits.key, now),
    organization: describe(times.organization, limits.organization, now),
    retryAfterMs: 0,
  }
}

/** More than the errors of floating point, by which an empty bucket is not written anew. */
const MORE_THAN_EMPTY_MS = 10

function atMostEmpty(fullAt: number, { perSecond, burst }: RateLimit, now: number): number {
  const emptyUntil = now + (1000 * burst) / perSecond
  return fullAt > emptyUntil + MORE_THAN_EMPTY_MS ? emptyUntil : fullAt
}

/**
 * Judges a request by one bucket.
 *
 * @returns the time at which the bucket will be full again if the request is admitted, and the milliseconds until the bucket
 *   has a token; 0 for an admitted request
 */
function spend(fullAt: number, limit: RateLimit, now: number): { fullAtAfter: number; waitMs: number } {
  const intervalMs = 1000 / limit.perSecond
  const fullAtAfter = Math.max(now, fullAt) + intervalMs
  const waitMs = fullAtAfter - now - limit.burst * intervalMs
  // Tolerates floating-point errors of 0.01 ms; otherwise a full bucket could reject its last token.
  return { fullAtAfter, waitMs: waitMs > 0.01 ? waitMs : 0 }
}

function describe(fullAt: number, { perSecond, burst }: RateLimit, now: number): BucketState {
  const resetMs = Math.max(0, fullAt - now)
  const spent = Math.ceil((resetMs * perSecond) / 1000 - 0.001)
  return { perSecond, burst, remaining: Math.max(0, burst - spent), resetMs }
}
