/** Allows bursts of `burst` requests (an integer, at least 1) and a sustained rate of `perSecond` (more than 0). */
export interface RateLimit {
  readonly perSecond: number
  readonly burst: number
}

/**
 * Bounds that keep the bucket arithmetic correct and fit the database types. Buckets get imprecise above about 10,000
 * per second, where the 0.01 ms tolerance is a large fraction of the interval.
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

/** The limits for an API key and its organization. Each request uses both buckets (see section 8 of the spec). */
export interface RateLimits {
  readonly key: RateLimit
  readonly organization: RateLimit
}

/** A bucket's state after a request. */
export interface BucketState extends RateLimit {
  /** How many more requests the bucket would allow right now. */
  readonly remaining: number
  /** Milliseconds until the bucket is full. */
  readonly resetMs: number
}

/** Both buckets after a request. */
export interface RateLimitState {
  readonly key: BucketState
  readonly organization: BucketState
  /** How long to wait, in milliseconds. 0 if the request was allowed. */
  readonly retryAfterMs: number
}

/** When each bucket will be full, in milliseconds on the clock used for the decision, or 0 if it was never used. */
export interface BucketTimes {
  readonly key: number
  readonly organization: number
}

/**
 * Buckets that are only used with a single limit. If one is more than empty, its limit was raised or the clock
 * was set back.
 */
export interface OwnBuckets {
  readonly key: boolean
  readonly organization: boolean
}

const BOTH: OwnBuckets = { key: true, organization: true }

/**
 * Takes a token from both buckets or neither, using GCRA. We store a single number per bucket, the time it will be
 * full. Each request adds an interval to that time, and is rejected if the result is more than a burst ahead of now.
 *
 * @param own the buckets that can't be less than empty. If a bucket is further ahead, because the limit was raised or
 *   the clock was set back, we treat the bucket as empty. Don't use this for a bucket shared with an API that has lower
 *   limits, because the bucket would be refilled. Defaults to both
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

/** Returns the state of both buckets after a request that was allowed. */
export function describeBuckets(times: BucketTimes, limits: RateLimits, now: number): RateLimitState {
  return {
    key: describe(times.key, limits.key, now),
    organization: describe(times.organization, limits.organization, now),
    retryAfterMs: 0,
  }
}

/** Tolerance in ms. Larger than any floating-point error, so we don't rewrite a bucket that's merely empty. */
const MORE_THAN_EMPTY_MS = 10

function atMostEmpty(fullAt: number, { perSecond, burst }: RateLimit, now: number): number {
  const emptyUntil = now + (1000 * burst) / perSecond
  return fullAt > emptyUntil + MORE_THAN_EMPTY_MS ? emptyUntil : fullAt
}

/**
 * Calculates how a request affects a bucket.
 *
 * @returns when the bucket will be full if the request is admitted, and the number of milliseconds until the next token
 */
function spend(fullAt: number, limit: RateLimit, now: number): { fullAtAfter: number; waitMs: number } {
  const intervalMs = 1000 / limit.perSecond
  const fullAtAfter = Math.max(now, fullAt) + intervalMs
  const waitMs = fullAtAfter - now - limit.burst * intervalMs
  // Allow 0.01 ms for floating-point errors. Otherwise a full bucket might reject its last token.
  return { fullAtAfter, waitMs: waitMs > 0.01 ? waitMs : 0 }
}

function describe(fullAt: number, { perSecond, burst }: RateLimit, now: number): BucketState {
  const resetMs = Math.max(0, fullAt - now)
  const spent = Math.ceil((resetMs * perSecond) / 1000 - 0.001)
  return { perSecond, burst, remaining: Math.max(0, burst - spent), resetMs }
}
