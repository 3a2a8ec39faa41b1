// Rate limiting for endpoints that reject deliveries: how long an endpoint backs off, how its rate is learned, and when
// the limit is lifted. sql/44-endpoint-rates.sql has the same rules, and test/postgres/endpoint-rates.test.ts makes
// sure the two match.
//
// | state       | begins                                       | a claim may take                                |
// |-------------|----------------------------------------------|-------------------------------------------------|
// | unlimited   | initially, and when the rate exceeds 1,000/s | everything                                      |
// | backing off | when a delivery is rejected                  | nothing until the wait is over, then one probe  |
// | paced       | when the probe succeeds                      | what the rate allows in 0.1 s, but at least one |
// | down        | when a probe fails after 450 s of waiting    | everything, deliveries then run out of attempts |
//
// The rate starts at 0.8/s. Before the first rejection, each success adds 10 %, but the rate can't more than double
// within a second. A rejection cuts the rate by 25 %, and from then on each success adds 0.3 %. Successes only count
// while there is a backlog, so the rate doesn't change while it isn't needed. If rejections come in quick
// succession, the receiver probably counts over a longer window, so we cap the rate at what it accepted since the
// previous rejection.
// In simulations with interval, window and bucket limits from 0.1/s to 50/s, 1 to 8 % of a few hundred requests were
// rejected and we used 70 to 95 % of the limit. Each process adds an initial burst of four. We can't tell random
// rejections from a limit: after ten simulated hours, a receiver that rejects 1 in 100 was down to 4 deliveries per
// second, 1 in 20 to 0.4, and 1 in 5 to 0.07.

/** Bounds for an endpoint's `maxPerSecond`. */
export const MAX_PER_SECOND_BOUNDS = { min: 0.01, max: 1000 } as const

/** Bounds for the wait after a rejection, in milliseconds. Each failed probe doubles the wait. */
const WAIT_MIN_MS = 1000
const WAIT_MAX_MS = 60 * 60 * 1000
/** If a probe fails after waiting this long in total since the last success, the endpoint is down. In milliseconds. */
const PATIENCE_MS = 450_000
/** `waitedMs` of an endpoint that is down. */
const DOWN = Number.POSITIVE_INFINITY
/** Deliveries per second after the first successful probe, and the rate at which we lift the limit. */
const START = 0.8
const UNLIMITED = 1000
/** Relative increase per success, before and after the first rejection. */
const RISE_FAST = 0.1
const RISE = 0.003
/** Maximum increase per success, in deliveries per second. Keeps the rate from more than doubling within a second. */
const RISE_MAX = 0.7
/** Multiplier applied to the rate after a rejection. */
const CUT = 0.75
/** Once the rate exceeds the last rejection's rate by this factor, fast increases resume. */
const BEYOND = 1.25
/** Multiplier for the previous wait on a new back-off, so a few unlucky probes don't slow an endpoint down for good. */
const EASE = 0.7
/** Two rejections within this many waits of each other are considered close together. */
const SOON = 3
/** Minimum rate, as a fraction of one delivery per wait. */
const FLOOR = 0.5
/** How far in advance a claim may use up the rate, in seconds. */
const BURST_S = 0.1
/** Number of consecutive failures (not counting rejections) before an endpoint is considered down. */
const FAILURES_MAX = 10

/** An endpoint's rate state. All times are milliseconds on the store's clock. */
export interface EndpointRate {
  /** The organization's own limit, if any. */
  readonly maxPerSecond: number | null
  /** Deliveries per second, or `null` if we haven't learned a rate. */
  rate: number | null
  /** The rate at the last rejection, or `null` while rising fast. */
  ceiling: number | null
  /** Time of the last counted rejection, and the number of successes since then. */
  rejectedAt: number
  accepted: number
  /** The last wait, and the total since the last success, which is 0 unless backing off, and infinite while down. */
  waitMs: number
  waitedMs: number
  /** Claims take nothing before this time. */
  nextAt: number
  /** Claim token of the last probe. The probe lasts as long as the claim. */
  probe: string | null
}

/** One endpoint's results from a single write. */
export interface RateResults {
  readonly successes: number
  readonly tokens: readonly string[]
  /** When the latest successful and the latest rejected attempt started, or `null`. */
  readonly successAt: number | null
  readonly rejectionAt: number | null
  /** `true` if any attempt failed, including rejections. */
  readonly hasFailure: boolean
  /** The longest `Retry-After` among the rejections, in milliseconds. */
  readonly askedMs: number
  /** The endpoint's number of consecutive failures before these results. */
  readonly failures: number
  /** `true` if the endpoint has a backlog, meaning due deliveries that no process has claimed. */
  readonly hasDue: boolean
}

/** Creates the initial rate for an endpoint. */
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
 * @param isProbing whether the last probe's claim is still active
 */
export function allowanceOf(known: EndpointRate, isProbing: boolean, now: number): number {
  if (known.nextAt > now) return 0
  if (isBackingOff(known)) return isProbing ? 0 : 1
  return Math.max(1, Math.floor(perSecondOf(known) * BURST_S))
}

/**
 * Updates the rate after deliveries have been claimed.
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
 * Updates the rate after attempts have finished. Attempts that started before the last counted rejection are ignored,
 * so a burst that was already in flight counts as one rejection. While backing off, only the probe can fail.
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
  // Start slightly below the last wait that worked, but don't wait longer than one delivery takes at the current rate.
  const lastMs = known.rate === null ? 0 : Math.min(known.waitMs * EASE, 1000 / known.rate)
  known.waitMs = Math.min(WAIT_MAX_MS, Math.max(WAIT_MIN_MS, askedMs, lastMs))
  known.waitedMs = known.waitMs
  known.rejectedAt = now
  known.accepted = 0
  known.nextAt = now + known.waitMs
}
