import type { DeliveryAttempt } from './claims.ts'
import type { EndpointState } from './endpoints.ts'
import type { QueueCounts } from './queue-counts.ts'

// Endpoint activity: delivery and attempt counts by hour of creation, updated whenever results are written. The delivery/ README
// explains what is counted.

/** Attempt classes. The class is the status code's first digit, or the type of failure if there was no response. */
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

/** One of {@link ATTEMPT_CLASSES}. */
export type AttemptClass = (typeof ATTEMPT_CLASSES)[number]

/** Returns an attempt's class. */
export function classOfAttempt({ status, error }: Pick<DeliveryAttempt, 'status' | 'error'>): AttemptClass {
  const digit = status === null ? 0 : Math.floor(status / 100)
  if (digit >= 2 && digit <= 5) return `${digit}xx` as AttemptClass
  if (status !== null || error === null) return 'other'
  if (error === 'timeout' || error === 'interrupted') return error
  if (error === 'dns_failed' || error.startsWith('connection_')) return 'connection'
  if (error.startsWith('tls_')) return 'tls'
  return error === 'destination_not_allowed' ? 'not_allowed' : 'other'
}

/** Upper bounds of the first eleven duration buckets, in milliseconds. The twelfth bucket has everything above. */
const DURATION_BOUNDS_MS = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192] as const

/**
 * Identifies a counter. The number is a duration bucket's lower bound in milliseconds. Attempts without a response
 * aren't counted in any bucket.
 */
export type Counter = 'failed' | AttemptClass | 'delivered' | number

/** All counters in storage order (see sql/47-activity.sql). */
export const COUNTERS: readonly Counter[] = [
  'failed',
  ...ATTEMPT_CLASSES.toReversed(),
  'delivered',
  ...[0, ...DURATION_BOUNDS_MS],
]

/** Returns the counts for a single attempt, including the delivery if this attempt ended it. */
export function countAttempt(
  attempt: Pick<DeliveryAttempt, 'status' | 'error' | 'durationMs'>,
  ended: 'delivered' | 'failed' | null,
): ActivityCounts {
  const bucket = DURATION_BOUNDS_MS.findLast((bound) => bound <= attempt.durationMs) ?? 0
  const counted = new Set([classOfAttempt(attempt), ended, attempt.status === null ? null : bucket])
  return COUNTERS.map((counter) => (counted.has(counter) ? 1 : 0))
}

/** Upper bound of the last duration bucket, in milliseconds. No attempt takes longer. */
const LONGEST_MS = 12_000

/**
 * Estimates a duration percentile. The exact value always falls in the same bucket as the estimate, so from 8 ms up it
 * is between half and twice the returned number.
 *
 * @param share `0.95` for the 95th percentile
 * @returns the percentile in milliseconds, or `null` if there are no durations
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

/** How many days hourly activity is retained. */
export const ACTIVITY_DAYS = 35

/** Interval size of a time series. Intervals are aligned to UTC. */
export type ActivityInterval = 'hour' | 'day'

/** Counts in {@link COUNTERS} order. An empty array means all zeros. */
export type ActivityCounts = readonly number[]

/** Counts for one interval. */
export interface IntervalCounts {
  /** Start of the interval in ISO 8601. */
  readonly at: string
  readonly counts: ActivityCounts
}

/** An endpoint's current details, shown next to its activity. */
export interface ActiveEndpoint {
  readonly endpointId: string
  readonly url: string
  readonly description: string | null
  /** The current state, or `removed` for an endpoint that had attempts in the period before it was removed. */
  readonly state: EndpointState | 'removed'
  /** Current number of failed attempts since the last success. */
  readonly failures: number
}

/** The number of deliveries that ended in an interval. */
export interface EndedDeliveries {
  /** Start of the interval in ISO 8601. */
  readonly at: string
  readonly delivered: number
  readonly failed: number
}

/** An endpoint along with its counts. */
export interface EndpointCounts extends ActiveEndpoint {
  readonly counts: ActivityCounts
  /** Oldest first. Intervals where no delivery ended are omitted. */
  readonly series: readonly EndedDeliveries[]
}

/** A query for an organization's activity. `from` and `to` must be on the hour in UTC. */
export interface ActivityRequest {
  readonly organizationId: string
  /** `null` for all endpoints. */
  readonly endpointId: string | null
  /** Start of the period in ISO 8601, inclusive. */
  readonly from: string
  /** End of the period in ISO 8601, exclusive. */
  readonly to: string
  readonly interval: ActivityInterval
}

/** An organization's activity. */
export interface StoredActivity {
  /** Oldest first. Intervals with no attempts are omitted. */
  readonly series: readonly IntervalCounts[]
  /** All current endpoints, plus any removed ones that had attempts in the period, newest first. */
  readonly endpoints: readonly EndpointCounts[]
  /** Number of active API keys used since `from`. */
  readonly apiKeysInUse: number
  /** Current queue counts for the requested endpoint, or for the whole organization. */
  readonly queue: QueueCounts
}

/** Adds up multiple sets of counts. */
export function addCounts(all: readonly ActivityCounts[]): ActivityCounts {
  return COUNTERS.map((_, place) => all.reduce((sum, counts) => sum + (counts[place] ?? 0), 0))
}

/** Returns the value of a single counter. */
export function countOf(counts: ActivityCounts, counter: Counter): number {
  return counts[COUNTERS.indexOf(counter)] ?? 0
}
