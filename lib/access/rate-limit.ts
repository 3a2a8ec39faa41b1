/** Allows `burst` requests at once (an integer, at least 1) and `perSecond` requests (more than 0) in the long run. */
export interface RateLimit {
  readonly perSecond: number
  readonly burst: number
}

/**
 * Bounds within which the bucket's arithmetic is correct and the numbers fit the database's types. Above about 10,000
 * per second, a bucket is inexact, because the tolerance of 0.01 ms is a large part of the interval.
 */
export const RATE_LIMIT_BOUNDS = {
  perSecondMin: 0.001,
  perSecondMax: 1_000_000,
  burstMax: 1_000_000_000,
} as const

/** Describes a valid limit in error messages. */
export const RATE_LIMIT_REQUIREMENT: string =
  `{ perSecond, burst } with perSecond from ${RATE_LIMIT_BOUNDS.perSecondMin} to ${RATE_LIMIT_BOUNDS.perSecondMax} ` +
  `and burst a whole number from 1 to ${RATE_LIMIT_BOUNDS.burstMax}`

/** Returns `true` if a limit is within {@link RATE_LIMIT_BOUNDS}. */
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

/** The limits of an API key and its organization. Each request uses both buckets (specification, section 8). */
export interface RateLimits {
  readonly key: RateLimit
  readonly organization: RateLimit
}

/** The state of a bucket after a request. */
export interface BucketState extends RateLimit {
  /** The number of requests that the bucket would currently allow. */
  readonly remaining: number
  /** Milliseconds until the bucket is full. */
  readonly resetMs: number
}

/** The state of both buckets after a request. */
export interface RateLimitState {
  readonly key: BucketState
  readonly organization: BucketState
  /** 0 if the request was allowed, otherwise the number of milliseconds to wait. */
  readonly retryAfterMs: number
}

/** When each bucket will be full, in milliseconds of the clock used to decide, or 0 if it was never used. */
export interface BucketTimes {
  readonly key: number
  readonly organization: number
}

/**
 * Which buckets are only filled by a single limit. If one is more than empty, a lower limit or different
 * clock was used.
 */
export interface OwnBuckets {
  readonly key: boolean
  readonly organization: boolean
}

const BOTH: OwnBuckets = { key: true, organization: true }

/**
 * Takes a token from both buckets or neither, using GCRA. A bucket is stored as a single number, the time when
 * it will be full. Each request adds an interval to that time and is rejected if the result is more than a burst
 * ahead of now.
 *
 * @param own the buckets that can't be less than empty. If their time is further ahead, because the limit was raised or
 *   the clock was set back, they count as empty. Don't use this for a bucket that is shared with an API with lower
 *   limits, because it would refill that bucket. Defaults to both
 * @returns the new times, which are unchanged if the request is rejected, and the state of both buckets
 *
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

/** Returns the state of both buckets for a request that was allowed. */
export function describeBuckets(times: BucketTimes, limits: RateLimits, now: number): RateLimitState {
  return {
    key: describe(times.key, limits.key, now),
    organization: describe(times.organization, limits.organization, now),
    retryAfterMs: 0,
  }
}

/** Tolerance in ms, larger than any floating-point error, so an empty bucket isn't rewritten. */
const MORE_THAN_EMPTY_MS = 10

function atMostEmpty(fullAt: number, { perSecond, burst }: RateLimit, now: number): number {
  const emptyUntil = now + (1000 * burst) / perSecond
  return fullAt > emptyUntil + MORE_THAN_EMPTY_MS ? emptyUntil : fullAt
}

/**
 * Calculates the effect of a request on one bucket.
 *
 * @returns when the bucket will be full if the request is admitted, and the milliseconds until it has a token
 */
function spend(fullAt: number, limit: RateLimit, now: number): { fullAtAfter: number; waitMs: number } {
  const intervalMs = 1000 / limit.perSecond
  const fullAtAfter = Math.max(now, fullAt) + intervalMs
  const waitMs = fullAtAfter - now - limit.burst * intervalMs
  // Allow for floating-point errors of 0.01 ms. Otherwise a full bucket might reject its last token.
  return { fullAtAfter, waitMs: waitMs > 0.01 ? waitMs : 0 }
}

function describe(fullAt: number, { perSecond, burst }: RateLimit, now: number): BucketState {
  const resetMs = Math.max(0, fullAt - now)
  const spent = Math.ceil((resetMs * perSecond) / 1000 - 0.001)
  return { perSecond, burst, remaining: Math.max(0, burst - spent), resetMs }
}
