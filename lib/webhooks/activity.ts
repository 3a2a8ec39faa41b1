import type { DeliveryAttempt } from './claims.ts'
import type { EndpointState } from './endpoints.ts'
import type { QueueCounts } from './queue-counts.ts'

// Endpoint activity, meaning hourly counts of deliveries and attempts that are updated whenever a result is written.
// See the README of delivery/ for what is counted.

/** Classes of attempts, by the first digit of the status or by the kind of failure if there was no response. */
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

/** Upper bounds of the twelve duration buckets, in milliseconds. Anything longer falls into the last bucket. */
const DURATION_BOUNDS_MS = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192] as const

/**
 * Identifies a counter. Counts deliveries that were delivered or failed, attempts of a class, or attempts in the
 * duration bucket that starts at this number. Buckets only include attempts with a response.
 */
export type Counter = 'failed' | AttemptClass | 'delivered' | number

/** The counters in the order of the store, see sql/47-activity.sql. Buckets are identified by their lower bound. */
export const COUNTERS: readonly Counter[] = [
  'failed',
  ...ATTEMPT_CLASSES.toReversed(),
  'delivered',
  ...[0, ...DURATION_BOUNDS_MS],
]

/** Counts an attempt, and its delivery if this was the last attempt. */
export function countAttempt(
  attempt: Pick<DeliveryAttempt, 'status' | 'error' | 'durationMs'>,
  ended: 'delivered' | 'failed' | null,
): ActivityCounts {
  const bucket = DURATION_BOUNDS_MS.findLast((bound) => bound <= attempt.durationMs) ?? 0
  const counted = new Set([classOfAttempt(attempt), ended, attempt.status === null ? null : bucket])
  return COUNTERS.map((counter) => (counted.has(counter) ? 1 : 0))
}

/** End of the last bucket in milliseconds. No attempt takes longer. */
const LONGEST_MS = 12_000

/**
 * Estimates a percentile of the durations. The true value is always in the same bucket, so from 8 ms up it is between
 * half and twice the result.
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

/** How long hourly activity is kept, in days. */
export const ACTIVITY_DAYS = 35

/** The length of the intervals in a series. Intervals are aligned to UTC. */
export type ActivityInterval = 'hour' | 'day'

/** The counts for a period, in the order of {@link COUNTERS}. An empty array means all zeros. */
export type ActivityCounts = readonly number[]

/** The counts of one interval. */
export interface IntervalCounts {
  /** Start of the interval in ISO 8601. */
  readonly at: string
  readonly counts: ActivityCounts
}

/** The current details of an endpoint that has activity. */
export interface ActiveEndpoint {
  readonly endpointId: string
  readonly url: string
  readonly description: string | null
  /** Current state, or `removed` if the endpoint was removed but had an attempt in the period. */
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

/** An endpoint with its counts. */
export interface EndpointCounts extends ActiveEndpoint {
  readonly counts: ActivityCounts
  /** Only includes intervals in which a delivery ended, oldest first. */
  readonly series: readonly EndedDeliveries[]
}

/** A request for an organization's activity. Both times must be full hours in UTC. */
export interface ActivityRequest {
  readonly organizationId: string
  /** All endpoints if `null`. */
  readonly endpointId: string | null
  /** Start of the period in ISO 8601. */
  readonly from: string
  /** End of the period in ISO 8601 (exclusive). */
  readonly to: string
  readonly interval: ActivityInterval
}

/** The activity of an organization. */
export interface StoredActivity {
  /** Only includes intervals with attempts, oldest first. */
  readonly series: readonly IntervalCounts[]
  /** Current endpoints, even without attempts, and removed endpoints with attempts in the period. Newest first. */
  readonly endpoints: readonly EndpointCounts[]
  /** Number of active API keys that have been used since `from`. */
  readonly apiKeysInUse: number
  /** The current queue of the organization, or of the endpoint if one was requested. */
  readonly queue: QueueCounts
}

/** Adds up several sets of counts. */
export function addCounts(all: readonly ActivityCounts[]): ActivityCounts {
  return COUNTERS.map((_, place) => all.reduce((sum, counts) => sum + (counts[place] ?? 0), 0))
}

/** Returns the value of a counter. */
export function countOf(counts: ActivityCounts, counter: Counter): number {
  return counts[COUNTERS.indexOf(counter)] ?? 0
}
