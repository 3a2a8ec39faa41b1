import type { DeliveryAttempt } from './claims.ts'
import type { EndpointState } from './endpoints.ts'
import type { QueueCounts } from './queue-counts.ts'

// Endpoint activity: hourly counts of deliveries and attempts, to which each result's write adds. The page of delivery/ says what
// counts.

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

/** Upper bounds of the duration histogram's twelve buckets, in ms; the last bucket also has everything longer. */
const DURATION_BOUNDS_MS = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192] as const

/** A counter: deliveries that ended, attempts by class, attempts with a response by bucket of their duration. */
export type Counter = 'failed' | AttemptClass | 'delivered' | number

/** The counters, in the order of the store: see sql/47-activity.sql. A bucket is named by its lower bound. */
export const COUNTERS: readonly Counter[] = [
  'failed',
  ...ATTEMPT_CLASSES.toReversed(),
  'delivered',
  ...[0, ...DURATION_BOUNDS_MS],
]

/** Counts an attempt, and the delivery if it ended with the attempt. */
export function countAttempt(
  attempt: Pick<DeliveryAttempt, 'status' | 'error' | 'durationMs'>,
  ended: 'delivered' | 'failed' | null,
): ActivityCounts {
  const bucket = DURATION_BOUNDS_MS.findLast((bound) => bound <= attempt.durationMs) ?? 0
  const counted = new Set([classOfAttempt(attempt), ended, attempt.status === null ? null : bucket])
  return COUNTERS.map((counter) => (counted.has(counter) ? 1 : 0))
}

/** The end of the last bucket, in ms: no attempt lasts longer. */
const LONGEST_MS = 12_000

/**
 * Estimates a percentile of the durations: the true value is in the same bucket, so from 8 ms on it is more than half of the result and
 * less than double.
 *
 * @param share 0.95 for the 95th percentile
 * @returns milliseconds; null without a duration
 */
export function percentileOf(counts: ActivityCounts, share: number): number | null {
  const bounds = [0, ...DURATION_BOUNDS_MS, LONGEST_MS]
  let rank = share * bounds.reduce((sum, bound) => sum + countOf(counts, bound), 0)
  for (const [bucket, from] of bounds.entries()) {
    const count = countOf(counts, from)
    if (count > 0 && rank <= count) {
      return Math.round(from + ((bounds[bucket + 1] ?? from) - from) * (rank / count))
    }
    rank -= count
  }
  return null
}

/** How long activity is kept by the hour, in days. */
export const ACTIVITY_DAYS = 35

/** The length of a series' intervals, in UTC. */
export type ActivityInterval = 'hour' | 'day'

/** The counters of a period: see {@link COUNTERS}. Empty: all are zero. */
export type ActivityCounts = readonly number[]

/** The counts of one interval. */
export interface IntervalCounts {
  /** Beginning of the interval, ISO 8601. */
  readonly at: string
  readonly counts: ActivityCounts
}

/** An endpoint with activity, as it is now. */
export interface ActiveEndpoint {
  readonly endpointId: string
  readonly url: string
  readonly description: string | null
  /** The state now; `removed` for an endpoint that was removed and had an attempt in the period. */
  readonly state: EndpointState | 'removed'
  /** Failed attempts since the last success, now. */
  readonly failures: number
}

/** The deliveries that ended in an interval. */
export interface EndedDeliveries {
  /** Beginning of the interval, ISO 8601. */
  readonly at: string
  readonly delivered: number
  readonly failed: number
}

/** The counts of an endpoint. */
export interface EndpointCounts extends ActiveEndpoint {
  readonly counts: ActivityCounts
  /** Only intervals in which a delivery ended, oldest first. */
  readonly series: readonly EndedDeliveries[]
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
  /** API keys active that were used since `from`. */
  readonly apiKeysInUse: number
  /** The queue of the organization, or of the endpoint, now. */
  readonly queue: QueueCounts
}

/** Adds counts. */
export function addCounts(all: readonly ActivityCounts[]): ActivityCounts {
  return COUNTERS.map((_, place) => all.reduce((sum, counts) => sum + (counts[place] ?? 0), 0))
}

/** Returns the number of a counter. */
export function countOf(counts: ActivityCounts, counter: Counter): number {
  return counts[COUNTERS.indexOf(counter)] ?? 0
}
