// The delivery rate of an endpoint that rejects deliveries. This decides how long it backs off, how the rate is
// learned, and when the endpoint is unlimited again. sql/44-endpoint-rates.sql implements the same rules in PostgreSQL.
// test/postgres/endpoint-rates.test.ts compares the two.
//
// | state       | begins                                       | a claim may take                                |
// |-------------|----------------------------------------------|-------------------------------------------------|
// | unlimited   | initially, and when the rate exceeds 1,000/s | everything                                      |
// | backing off | when a delivery is rejected                  | nothing until the wait is over, then one probe  |
// | paced       | when the probe succeeds                      | what the rate allows in 0.1 s, but at least one |
// | down        | when a probe fails after 450 s of waiting    | everything, deliveries then run out of attempts |
//
// The rate starts at 0.8/s. Until the first rejection, each success increases it by 10 %, but it can't more than double
// within a second. Each rejection reduces it by a quarter, and after that each success adds 0.3 %. Successes only count
// while deliveries are waiting for their turn, so an unused rate doesn't change. If another rejection follows soon, the
// receiver is probably counting over a longer period, so the rate is limited to what it has accepted since the previous
// one. We simulated receivers with limits from 0.1/s to 50/s using intervals, windows and buckets. 1 to 8 % of a few
// hundred requests were rejected, and 70 to 95 % of the receiver's limit was used. Every process adds an initial burst
// of four. A receiver that rejects at random looks like one with a limit. After ten simulated hours, a receiver
// rejecting 1 in 100 was left with 4 deliveries per second, 1 in 20 with 0.4, and 1 in 5 with 0.07.

/** Minimum and maximum of an endpoint's `maxPerSecond`. */
export const MAX_PER_SECOND_BOUNDS = { min: 0.01, max: 1000 } as const

/** Minimum and maximum wait after a rejection, in milliseconds. The wait doubles with each failed probe. */
const WAIT_MIN_MS = 1000
const WAIT_MAX_MS = 60 * 60 * 1000
/** If a probe fails after this much waiting since the last success, the endpoint is down, in milliseconds. */
const PATIENCE_MS = 450_000
/** Value of `waitedMs` while an endpoint is down. */
const DOWN = Number.POSITIVE_INFINITY
/** Rate after the first successful probe and rate at which an endpoint becomes unlimited, in deliveries per second. */
const START = 0.8
const UNLIMITED = 1000
/** How much of the rate is added per success, before the first rejection and after it. */
const RISE_FAST = 0.1
const RISE = 0.003
/** Maximum increase per success in deliveries per second. With this, the rate can at most double within a second. */
const RISE_MAX = 0.7
/** Multiplier for the rate after a rejection. */
const CUT = 0.75
/** How far the rate must exceed that of the last rejection to rise fast again, as a multiplier. */
const BEYOND = 1.25
/** Multiplier for the last wait when backing off again. A few unlucky probes shouldn't slow it down for good. */
const EASE = 0.7
/** A second rejection is considered soon within this many waits. */
const SOON = 3
/** Minimum rate, as a share of one probe per wait. */
const FLOOR = 0.5
/** The time for which a claim can use up the rate in advance, in seconds. */
const BURST_S = 0.1
/** Number of consecutive failures, not counting rejections, after which the endpoint is considered down. */
const FAILURES_MAX = 10

/** What we know about an endpoint's rate. All times are in milliseconds of the store's clock. */
export interface EndpointRate {
  /** The limit set by the organization, if any. */
  readonly maxPerSecond: number | null
  /** Deliveries per second, or `null` if no rate has been learned. */
  rate: number | null
  /** The rate at the last rejection, or `null` while the rate rises fast. */
  ceiling: number | null
  /** Time of the last rejection that counted, and number of successes since then. */
  rejectedAt: number
  accepted: number
  /** The last wait, and the sum since the last success, which is 0 unless backing off and infinite while down. */
  waitMs: number
  waitedMs: number
  /** No deliveries are claimed before this time. */
  nextAt: number
  /** Claim token of the last probe. The probe is active as long as this claim. */
  probe: string | null
}

/** The results of an endpoint's attempts that were written together. */
export interface RateResults {
  readonly successes: number
  readonly tokens: readonly string[]
  /** Start of the latest successful and the latest rejected attempt, or `null` if there was none. */
  readonly successAt: number | null
  readonly rejectionAt: number | null
  /** `true` if any attempt failed or was rejected. */
  readonly hasFailure: boolean
  /** The longest wait requested by a rejection, in milliseconds. */
  readonly askedMs: number
  /** Number of consecutive failures of the endpoint before these results. */
  readonly failures: number
  /** `true` if the endpoint has due deliveries that aren't claimed by any process. */
  readonly hasDue: boolean
}

/** Creates the rate of an endpoint that has no results yet. */
export function createEndpointRate(maxPerSecond: number | null): EndpointRate {
  const never = Number.NEGATIVE_INFINITY
  return {
    maxPerSecond,
    rate: null,
    ceiling: null,
    rejectedAt: never,
    accepted: 0,
    waitMs: 0,
    waitedMs: 0,
    nextAt: never,
    probe: null,
  }
}

/**
 * Returns how many deliveries a claim may take.
 *
 * @param isProbing whether the claim of the last probe is still active
 */
export function allowanceOf(known: EndpointRate, isProbing: boolean, now: number): number {
  if (known.nextAt > now) return 0
  if (isBackingOff(known)) return isProbing ? 0 : 1
  return Math.max(1, Math.floor(perSecondOf(known) * BURST_S))
}

/**
 * Updates the rate after a claim has taken deliveries.
 *
 * @param token the claim's token
 * @returns milliseconds until the next delivery or probe is allowed, or `null` if unknown
 */
export function spend(known: EndpointRate, taken: number, token: string, now: number): number | null {
  if (taken > 0 && isBackingOff(known)) known.probe = token
  else if (taken > 0) known.nextAt = now + (taken / perSecondOf(known)) * 1000
  return known.nextAt > now ? known.nextAt - now : null
}

/**
 * Updates the rate with the results of attempts. Results of attempts that started before the last counted rejection are
 * ignored, so a burst that was already on its way counts as one rejection. While backing off, only the probe can fail.
 *
 * @returns `false` if the endpoint is unlimited again
 */
export function judgeRate(known: EndpointRate, results: RateResults, now: number): boolean {
  const { successAt, rejectionAt, hasFailure, askedMs } = results
  if (known.rate === null && known.waitedMs === 0 && rejectionAt === null) return true
  if (successAt !== null && successAt > known.rejectedAt) {
    succeed(known, results, now)
    if (known.rate !== null && known.rate >= (known.maxPerSecond ?? UNLIMITED)) {
      if (known.maxPerSecond === null) return false
      known.rate = known.maxPerSecond
    }
  }
  if (known.waitedMs === DOWN) return true
  const isProbe = known.probe !== null && results.tokens.includes(known.probe)
  if (known.waitedMs > 0 && isProbe && hasFailure) {
    failProbe(known, askedMs, now)
  } else if (known.waitedMs === 0 && rejectionAt !== null && rejectionAt > known.rejectedAt) {
    backOff(known, askedMs, now)
  } else if (rejectionAt !== null) {
    known.nextAt = Math.max(known.nextAt, now + Math.min(WAIT_MAX_MS, askedMs))
  } else if (hasFailure && known.waitedMs === 0 && known.rate !== null) {
    known.waitedMs = results.failures >= FAILURES_MAX ? DOWN : 0
  }
  return true
}

function isBackingOff({ waitedMs }: EndpointRate): boolean {
  return waitedMs > 0 && waitedMs < DOWN
}

function perSecondOf({ rate, waitedMs, maxPerSecond }: EndpointRate): number {
  const none = Number.POSITIVE_INFINITY
  return Math.min((waitedMs === 0 ? rate : null) ?? none, maxPerSecond ?? none)
}

function succeed(known: EndpointRate, { successes, hasDue }: RateResults, now: number): void {
  known.accepted += successes
  if (known.waitedMs > 0) {
    known.rate ??= START
    known.waitedMs = 0
    known.nextAt = now + 1000 / known.rate
  } else if (known.rate !== null && hasDue && known.nextAt > now) {
    const { rate, ceiling } = known
    known.rate += successes * (ceiling === null ? Math.min(RISE_FAST * rate, RISE_MAX) : RISE * rate)
    if (ceiling !== null && known.rate > ceiling * BEYOND) known.ceiling = null
  }
}

function failProbe(known: EndpointRate, askedMs: number, now: number): void {
  if (known.waitedMs >= PATIENCE_MS) {
    known.waitedMs = DOWN
    known.waitMs = WAIT_MIN_MS
    known.nextAt = now
  } else {
    const doubledMs = Math.min(2 * known.waitMs, PATIENCE_MS - known.waitedMs)
    known.waitMs = Math.min(WAIT_MAX_MS, Math.max(WAIT_MIN_MS, askedMs, doubledMs))
    known.waitedMs += known.waitMs
    known.nextAt = now + known.waitMs
  }
  known.rejectedAt = now
}

function backOff(known: EndpointRate, askedMs: number, now: number): void {
  if (known.rate !== null) {
    const seconds = (now - known.rejectedAt) / 1000
    const isSoon = seconds <= (SOON * known.waitMs) / 1000
    const lower = Math.min(known.rate * CUT, isSoon ? known.accepted / seconds : known.rate)
    known.ceiling = known.rate
    known.rate = Math.max(lower, Math.min(known.rate, (FLOOR * 1000) / known.waitMs))
  }
  // Start with slightly less than the wait that worked last time, but no more than the time per delivery at this rate.
  const lastMs = known.rate === null ? 0 : Math.min(known.waitMs * EASE, 1000 / known.rate)
  known.waitMs = Math.min(WAIT_MAX_MS, Math.max(WAIT_MIN_MS, askedMs, lastMs))
  known.waitedMs = known.waitMs
  known.rejectedAt = now
  known.accepted = 0
  known.nextAt = now + known.waitMs
}
