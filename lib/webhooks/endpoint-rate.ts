// The rate of an endpoint that rejects deliveries: how long it backs off, which rate is learned, and when the rejections count for
// every delivery again. sql/44-endpoint-rates.sql has the same rules for PostgreSQL; test/postgres/endpoint-rates.test.ts compares the
// two, field by field.
//
// | state       | begins                                            | a claim may take                                  |
// |-------------|---------------------------------------------------|---------------------------------------------------|
// | unlimited   | with the endpoint; when the rate passes 1,000/s   | all                                               |
// | backing off | a rejection                                       | nothing until the wait has passed, then one probe |
// | paced       | the probe succeeds                                | 0.1 s of the rate, 1 at least, once in that time  |
// | down        | the probe fails after 450 s of waits              | all: each delivery ends after its own attempts    |
//
// The rate begins at 0.8/s and rises by 10 % with each success, at most twofold in a second, until the first rejection, which takes a
// quarter away; from then on it rises by 0.3 % with each success. Only successes count while deliveries wait for their turn, so an
// unused rate stays. A rejection soon after the one before shows that the receiver counts
// over a longer time: then the rate is at most that of the deliveries it has taken since. Simulated with receivers of 0.1/s to 50/s
// that count by intervals, windows and buckets: 1 to 8 % of a few hundred requests are rejected, and 0.7 to 0.95 of the receiver's rate
// is used. Each process adds its first burst of four. A receiver that rejects at random is taken for one with a limit: in ten simulated
// hours one in a hundred left 4 deliveries a second, one in twenty 0.4, one in five 0.07.

/** Bounds of an endpoint's `maxPerSecond`. */
export const MAX_PER_SECOND_BOUNDS = { min: 0.01, max: 1000 } as const

/** Bounds of the wait after a rejection, in ms; the wait is doubled with each failed probe. */
const WAIT_MIN_MS = 1000
const WAIT_MAX_MS = 60 * 60 * 1000
/** Sum of the waits since the last success after which a failed probe shows that the endpoint is down, in ms. */
const PATIENCE_MS = 450_000
/** Sum of the waits while an endpoint is down. */
const DOWN = Number.POSITIVE_INFINITY
/** Deliveries per second after the first successful probe, and the rate at which an endpoint is unlimited again. */
const START = 0.8
const UNLIMITED = 1000
/** Share of the rate that a success adds before the first rejection, and afterwards. */
const RISE_FAST = 0.1
const RISE = 0.003
/** Maximum increase of the rate by a success, in deliveries per second: the rate doubles in a second. */
const RISE_MAX = 0.7
/** Factor of the rate with a rejection. */
const CUT = 0.75
/** Factor beyond the rate of the last rejection after which the rate rises fast again. */
const BEYOND = 1.25
/** Factor of the last wait when the endpoint backs off again: probes that failed by chance must not slow it down for good. */
const EASE = 0.7
/** Waits within which a second rejection comes soon. */
const SOON = 3
/** Minimum rate, as a share of one probe per wait. */
const FLOOR = 0.5
/** Seconds of the rate that a claim takes at once. */
const BURST_S = 0.1
/** Failures in a row, other than rejections, after which an endpoint is not paced. */
const FAILURES_MAX = 10

/** The known facts about an endpoint's rate. Moments are in milliseconds of the store's clock. */
export interface EndpointRate {
  /** The organization's own limit; null: none. */
  readonly maxPerSecond: number | null
  /** Deliveries per second; null: not learned. */
  rate: number | null
  /** The rate at the last rejection; null: the rate rises fast. */
  ceiling: number | null
  /** The last rejection that counted, and the successes since. */
  rejectedAt: number
  accepted: number
  /** The last wait, and the sum of all waits since the last success: above 0 while the endpoint backs off, infinite while it is down. */
  waitMs: number
  waitedMs: number
  /** No delivery is claimed before this moment. */
  nextAt: number
  /** Token with which the last probe was claimed. The probe lasts as long as the claim. */
  probe: string | null
}

/** The results of an endpoint's attempts that were written together. Null: no such result. */
export interface RateResults {
  readonly successes: number
  /** The claims of the attempts. */
  readonly tokens: readonly string[]
  /** When the latest successful attempt began, and the latest rejected one. */
  readonly successAt: number | null
  readonly rejectionAt: number | null
  /** True if an attempt failed, a rejected one included. */
  readonly hasFailure: boolean
  /** The longest time that a rejection asked for, in milliseconds. */
  readonly askedMs: number
  /** Failures of the endpoint in a row, before these. */
  readonly failures: number
  /** True if the endpoint has due deliveries that no process has claimed. */
  readonly hasDue: boolean
}

/** Creates the rate of an endpoint without results. */
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

/** Computes how many deliveries a claim may take. @param isProbing whether the claim of the last probe is active */
export function allowanceOf(known: EndpointRate, isProbing: boolean, now: number): number {
  if (known.nextAt > now) return 0
  if (isBackingOff(known)) return isProbing ? 0 : 1
  return Math.max(1, Math.floor(perSecondOf(known) * BURST_S))
}

/**
 * Spends the rate for deliveries that a claim has taken.
 *
 * @param token the token of the claim
 * @returns milliseconds until the next delivery or probe has its turn; null if that is not known
 */
export function spend(known: EndpointRate, taken: number, token: string, now: number): number | null {
  if (taken > 0 && isBackingOff(known)) known.probe = token
  else if (taken > 0) known.nextAt = now + (taken / perSecondOf(known)) * 1000
  return known.nextAt > now ? known.nextAt - now : null
}

/**
 * Judges a rate by results of attempts. A result counts only if its attempt began after the last rejection that counted, so a
 * burst that was under way counts as one rejection. While the endpoint backs off, only the probe fails.
 *
 * @returns false if the endpoint is unlimited again
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
  // Nearly the wait that was long enough the last time, but no longer than one delivery takes at the rate.
  const lastMs = known.rate === null ? 0 : Math.min(known.waitMs * EASE, 1000 / known.rate)
  known.waitMs = Math.min(WAIT_MAX_MS, Math.max(WAIT_MIN_MS, askedMs, lastMs))
  known.waitedMs = known.waitMs
  known.rejectedAt = now
  known.accepted = 0
  known.nextAt = now + known.waitMs
}
