/** How much one bucket lets through: `perSecond` (above 0) in the long run, `burst` (a whole number from 1) at once. */
export interface RateLimit {
  readonly perSecond: number
  readonly burst: number
}

/**
 * Within these bounds the buckets' arithmetic holds and the numbers fit a database's types. From some 10 000 per second on
 * a bucket is lax: it forgives a hundredth of a millisecond, which is then a good part of the interval.
 */
export const RATE_LIMIT_BOUNDS = {
  perSecondMin: 0.001,
  perSecondMax: 1_000_000,
  burstMax: 1_000_000_000,
} as const

/** What a limit must be, for the text of a refusal. */
export const RATE_LIMIT_REQUIREMENT: string =
  `{ perSecond, burst } with perSecond from ${RATE_LIMIT_BOUNDS.perSecondMin} to ${RATE_LIMIT_BOUNDS.perSecondMax} ` +
  `and burst a whole number from 1 to ${RATE_LIMIT_BOUNDS.burstMax}`

/** Whether a limit can be used. */
export function isRateLimit({ perSecond, burst }: RateLimit): boolean {
  const { perSecondMin, perSecondMax, burstMax } = RATE_LIMIT_BOUNDS
  return (
    perSecond >= perSecondMin &&
    perSecond <= perSecondMax &&
    Number.isInteger(burst) &&
    burst >= 1 &&
    burst <= burstMax
  )
}

/** The two buckets of every request: its API key's and its organization's (specification, section 8). */
export interface RateLimits {
  readonly key: RateLimit
  readonly organization: RateLimit
}

/** A bucket after a request was judged by it. */
export interface BucketState extends RateLimit {
  /** How many requests it would let through right now. */
  readonly remaining: number
  /** Milliseconds until it is full again. */
  readonly resetMs: number
}

/** Both buckets after a request was judged. */
export interface RateLimitState {
  readonly key: BucketState
  readonly organization: BucketState
  /** 0 when the request was let through, else the milliseconds after which one would be. */
  readonly retryAfterMs: number
}

/** When each bucket will be full again, in milliseconds of the deciding clock; 0 for one never used. */
export interface BucketTimes {
  readonly key: number
  readonly organization: number
}

/**
 * GCRA: a bucket is one number, the time at which it will be full again. A request moves it one interval on and is
 * refused when that would be more than a burst ahead of now. Both buckets give or neither does.
 *
 * @returns the new times (unchanged when refused) and what to tell the caller
 */
export function takeToken(
  times: BucketTimes,
  limits: RateLimits,
  now: number,
): { times: BucketTimes; state: RateLimitState } {
  const key = spend(times.key, limits.key, now)
  const organization = spend(times.organization, limits.organization, now)
  const retryAfterMs = Math.max(key.waitMs, organization.waitMs)
  const after = retryAfterMs > 0 ? times : { key: key.fullAtAfter, organization: organization.fullAtAfter }
  return {
    times: after,
    state: {
      key: describe(after.key, limits.key, now),
      organization: describe(after.organization, limits.organization, now),
      retryAfterMs,
    },
  }
}

function spend(fullAt: number, limit: RateLimit, now: number): { fullAtAfter: number; waitMs: number } {
  const intervalMs = 1000 / limit.perSecond
  // A bucket is never more than empty, so that a limit that was raised counts at once.
  const fullAtAfter = Math.max(now, Math.min(fullAt, now + limit.burst * intervalMs)) + intervalMs
  const waitMs = fullAtAfter - now - limit.burst * intervalMs
  // A hundredth of a millisecond forgives what floating point adds; without it a full bucket can refuse its last token.
  return { fullAtAfter, waitMs: waitMs > 0.01 ? waitMs : 0 }
}

function describe(fullAt: number, limit: RateLimit, now: number): BucketState {
  const resetMs = Math.max(0, fullAt - now)
  const spent = Math.ceil((resetMs * limit.perSecond) / 1000 - 0.001)
  return { ...limit, remaining: Math.max(0, limit.burst - spent), resetMs }
}
