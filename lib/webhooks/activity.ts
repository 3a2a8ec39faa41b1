import type { DeliveryAttempt } from './claims.ts'
import type { EndpointState } from './endpoints.ts'

// The activity of endpoints: counts of deliveries and attempts by hour, which the write of each result adds to. The page of delivery/
// says what counts.

/** The classes of an attempt's result: the first digit of the status, or why no response came. */
export const ATTEMPT_CLASSES = [
  '2xx',
  '3xx',
  '4xx',
  '5xx',
  'timeout',
  'connection',
  'tls',
  'not_allowed',
  'interrupted',
  'other',
] as const

/** A member of {@link ATTEMPT_CLASSES}. */
export type AttemptClass = (typeof ATTEMPT_CLASSES)[number]

/** Returns the class of an attempt. */
export function classOfAttempt({ status, error }: Pick<DeliveryAttempt, 'status' | 'error'>): AttemptClass {
  const digit = status === null ? 0 : Math.floor(status / 100)
  if (digit >= 2 && digit <= 5) return `${digit}xx` as AttemptClass
  if (status !== null || error === null) return 'other'
  if (error === 'timeout' || error === 'interrupted') return error
  if (error === 'dns_failed' || error.startsWith('connection_')) return 'connection'
  if (error.startsWith('tls_')) return 'tls'
  return error === 'destination_not_allowed' ? 'not_allowed' : 'other'
}

/** Upper bounds of the histogram of durations, in ms; what lasts longer is in a last, twelfth bucket. */
export const DURATION_BOUNDS_MS = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192] as const

/** Returns the bucket of a duration in the histogram, from 0. */
export function bucketOf(durationMs: number): number {
  const bucket = DURATION_BOUNDS_MS.findIndex((bound) => durationMs < bound)
  return bucket < 0 ? DURATION_BOUNDS_MS.length : bucket
}

/** The end of the last bucket, in ms: no attempt lasts longer. */
const LONGEST_MS = 12_000

/**
 * Estimates a percentile from a histogram: the true value is in the same bucket, so from 8 ms on it is more than half of the result and
 * less than double.
 *
 * @param share 0.95 for the 95th percentile
 * @returns milliseconds; null without a duration
 */
export function percentileOf(durations: readonly number[], share: number): number | null {
  const total = durations.reduce((sum, count) => sum + count, 0)
  let rank = share * total
  for (const [bucket, count] of durations.entries()) {
    if (count > 0 && rank <= count) {
      const from = DURATION_BOUNDS_MS[bucket - 1] ?? 0
      const to = DURATION_BOUNDS_MS[bucket] ?? LONGEST_MS
      return Math.round(from + (to - from) * (rank / count))
    }
    rank -= count
  }
  return null
}

/** How long activity is kept by the hour, in days. */
export const ACTIVITY_DAYS = 35

/** The length of an interval of a series, in UTC. */
export type ActivityInterval = 'hour' | 'day'

/** Counts of a period. */
export interface ActivityCounts {
  /** Deliveries that were delivered for the first time. */
  readonly delivered: number
  /** Deliveries that failed for good, and were never delivered before. */
  readonly failed: number
  /** Attempts by class, in the order of {@link ATTEMPT_CLASSES}. */
  readonly classes: readonly number[]
  /** Attempts with a response by duration: see {@link bucketOf}. */
  readonly durations: readonly number[]
}

/** The counts of one interval. */
export interface IntervalCounts extends ActivityCounts {
  /** Beginning of the interval, ISO 8601. */
  readonly at: string
}

/** The counts of an endpoint, with its state now. */
export interface EndpointCounts extends ActivityCounts {
  readonly endpointId: string
  readonly url: string
  readonly description: string | null
  readonly state: EndpointState | 'removed'
  /** Failed attempts since the last success. */
  readonly failures: number
}

/** Asks for the activity of an organization. Both moments are full hours in UTC. */
export interface ActivityRequest {
  readonly organizationId: string
  /** Null: all endpoints. */
  readonly endpointId: string | null
  /** ISO 8601. */
  readonly from: string
  /** ISO 8601, exclusive. */
  readonly to: string
  readonly interval: ActivityInterval
}

/** The activity of an organization. */
export interface StoredActivity {
  /** Only intervals with an attempt, oldest first. */
  readonly series: readonly IntervalCounts[]
  /** The present endpoints, also without an attempt, and removed endpoints with an attempt in the period; newest first. */
  readonly endpoints: readonly EndpointCounts[]
  /** API keys in force that were used since `from`. */
  readonly apiKeysInUse: number
}

/** Adds counts. */
export function addCounts(all: readonly ActivityCounts[]): ActivityCounts {
  const sum = (countOf: (counts: ActivityCounts) => number | undefined): number =>
    all.reduce((total, counts) => total + (countOf(counts) ?? 0), 0)
  return {
    delivered: sum(({ delivered }) => delivered),
    failed: sum(({ failed }) => failed),
    classes: ATTEMPT_CLASSES.map((_, index) => sum(({ classes }) => classes[index])),
    durations: Array.from({ length: DURATION_BOUNDS_MS.length + 1 }, (_, index) =>
      sum(({ durations }) => durations[index]),
    ),
  }
}
