import * as v from 'valibot'
import { INVALID_INPUT, refused } from '../base/errors.ts'
import { defineCall, IdSchema, MomentSchema, oneOf } from '../base/host-input.ts'
import type { Clock } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import {
  ACTIVITY_DAYS,
  type ActiveEndpoint,
  type ActivityCounts,
  type ActivityInterval,
  ATTEMPT_CLASSES,
  type AttemptClass,
  addCounts,
  countOf,
  type EndedDeliveries,
  type EndpointCounts,
  percentileOf,
} from '../webhooks/activity.ts'
import { toTimestamp } from '../writes/write-context.ts'

// --- Types ---

/** Selects a period of activity. */
export interface ActivityQuery {
  /** Only activity of this endpoint. */
  readonly endpointId?: string | undefined
  /** Start of the period, rounded down to a full hour in UTC. Up to 35 days ago. Defaults to 24 hours before `to`. */
  readonly from?: Date | string | undefined
  /** End of the period, rounded up to a full hour in UTC. Defaults to now. */
  readonly to?: Date | string | undefined
  /** Length of the intervals in `series`, in UTC. Defaults to `hour` for up to two days and to `day` otherwise. */
  readonly interval?: ActivityInterval | undefined
}

/** The activity in a period. */
export interface ActivityNumbers {
  /** Deliveries that were delivered for the first time. */
  readonly delivered: number
  /** Deliveries that failed for good and had never been delivered. */
  readonly failed: number
  /** Share of `delivered` in all deliveries that ended, from 0 to 1, or `null` if none ended. */
  readonly successRate: number | null
  readonly attempts: number
  /** Number of attempts by result. */
  readonly results: Readonly<Record<AttemptClass, number>>
  /**
   * Median and 95th percentile of the duration of attempts with a response, in milliseconds, or `null` if there are
   * none. Estimated from 12 buckets with doubling bounds. From 8 ms up, the true value is between half and twice this.
   */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
}

/** The activity in one interval of a series. */
export interface IntervalActivity extends ActivityNumbers {
  /** Start of the interval in ISO 8601. */
  readonly at: string
}

/** The activity and current state of an endpoint. */
export interface EndpointActivity extends ActiveEndpoint, ActivityNumbers {
  /** Only includes intervals in which a delivery ended, oldest first. */
  readonly series: readonly EndedDeliveries[]
}

/** The activity of an organization. */
export interface Activity {
  /** Start and end (exclusive) of the period. Both are full hours in UTC. */
  readonly from: string
  readonly to: string
  readonly interval: ActivityInterval
  readonly totals: ActivityNumbers
  /** All intervals of the period, even without attempts, oldest first. */
  readonly series: readonly IntervalActivity[]
  /**
   * Endpoints, those in trouble first: disabled ones, then those currently failing, then by the number of failed
   * deliveries and attempts in the period.
   */
  readonly endpoints: readonly EndpointActivity[]
  /** Deliveries currently pending or being sent, and failed ones not recovered. 10,001 means that there are more. */
  readonly pendingNow: number
  readonly failedNow: number
  /** Number of active API keys that have been used since `from`. */
  readonly apiKeysInUse: number
}

/**
 * Returns the number of deliveries and attempts of an organization over time and by endpoint. Runs a single statement,
 * and its cost doesn't depend on the number of deliveries.
 *
 * @example
 * ```ts
 * const { totals, endpoints } = await settings.activity('org_42', { from: '2026-11-01T00:00:00Z' })
 * ```
 */
export type ReadActivity = (organizationId: string, query?: ActivityQuery) => Promise<Activity>

// --- Call ---

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const ACTION = 'Cannot show the activity'
const readQuery = defineCall(ACTION, {
  endpointId: v.exactOptional(IdSchema),
  from: v.exactOptional(MomentSchema),
  to: v.exactOptional(MomentSchema),
  interval: v.exactOptional(oneOf<ActivityInterval>(['hour', 'day'])),
})

/** Creates the `settings.activity` call. */
export function createActivitySettings(
  { deliveries }: Pick<BusinessApiStore, 'deliveries'>,
  clock: Clock,
): ReadActivity {
  return async (organizationId, query) => {
    const { organizationId: owner, input } = readQuery(organizationId, query)
    const { endpointId } = input
    const now = clock()
    const period = readPeriod(input, now)
    const request = { organizationId: owner, endpointId: endpointId ?? null, ...period }
    const { queue, ...stored } = await deliveries.readActivity(request)
    const counted = new Map(stored.series.map(({ at, counts }) => [at, counts]))
    return {
      ...period,
      totals: numbersOf(addCounts([...counted.values()])),
      series: intervalsOf(period).map((at) => ({ at, ...numbersOf(counted.get(at) ?? []) })),
      endpoints: stored.endpoints
        .toSorted(byTrouble)
        .map(({ counts, ...endpoint }) => ({ ...endpoint, ...numbersOf(counts) })),
      pendingNow: Math.min(COUNT_MAX, queue.due + queue.backingOff + queue.paused + queue.sending),
      failedNow: queue.failed,
      apiKeysInUse: stored.apiKeysInUse,
    }
  }
}

/** Means more than 10,000, as in the counts of the queue. */
const COUNT_MAX = 10_001

type Period = Pick<Activity, 'from' | 'to' | 'interval'>

/** @throws `BusinessApiError` with code `invalid_input` */
function readPeriod({ from, to, interval }: { [Name in keyof Period]?: Period[Name] }, now: number): Period {
  const end = Math.ceil((to === undefined ? now : Date.parse(to)) / HOUR_MS) * HOUR_MS
  const asked = from === undefined ? end - DAY_MS : Date.parse(from)
  const start = Math.floor(asked / HOUR_MS) * HOUR_MS
  if (start >= end) throw refused(ACTION, INVALID_INPUT, 'from must be before to')
  // Allow an extra day, because hours are kept until the next purge and clocks may differ.
  if (start < now - (ACTIVITY_DAYS + 1) * DAY_MS || end > now + DAY_MS) {
    throw refused(
      ACTION,
      INVALID_INPUT,
      `the period must be within the last ${ACTIVITY_DAYS} days, for which activity is kept`,
    )
  }
  return {
    from: toTimestamp(start),
    to: toTimestamp(end),
    interval: interval ?? (end - start <= 2 * DAY_MS ? 'hour' : 'day'),
  }
}

/** Returns the start of each interval in the period. The first day starts at midnight. */
function intervalsOf({ from, to, interval }: Period): readonly string[] {
  const lengthMs = interval === 'hour' ? HOUR_MS : DAY_MS
  const first = Math.floor(Date.parse(from) / lengthMs)
  const end = Math.ceil(Date.parse(to) / lengthMs)
  return Array.from({ length: end - first }, (_, index) => toTimestamp((first + index) * lengthMs))
}

function numbersOf(counts: ActivityCounts): ActivityNumbers {
  const [delivered, failed] = [countOf(counts, 'delivered'), countOf(counts, 'failed')]
  const ended = delivered + failed
  return {
    delivered,
    failed,
    successRate: ended === 0 ? null : delivered / ended,
    attempts: countAll(counts, ATTEMPT_CLASSES),
    results: Object.fromEntries(
      ATTEMPT_CLASSES.map((name) => [name, countOf(counts, name)]),
    ) as ActivityNumbers['results'],
    p50Ms: percentileOf(counts, 0.5),
    p95Ms: percentileOf(counts, 0.95),
  }
}

function countAll(counts: ActivityCounts, classes: readonly AttemptClass[]): number {
  return classes.reduce((sum, name) => sum + countOf(counts, name), 0)
}

/** Classes that are considered the endpoint's fault. */
const FAULTS = ATTEMPT_CLASSES.filter((name) => name !== '2xx' && name !== 'interrupted')

/** Sort order by state. Removed endpoints come last because they don't need attention. */
const TROUBLE = { disabled: 0, enabled: 1, paused: 1, removed: 2 } as const

function byTrouble(one: EndpointCounts, other: EndpointCounts): number {
  return (
    TROUBLE[one.state] - TROUBLE[other.state] ||
    Number(other.failures > 0) - Number(one.failures > 0) ||
    countOf(other.counts, 'failed') - countOf(one.counts, 'failed') ||
    countAll(other.counts, FAULTS) - countAll(one.counts, FAULTS)
  )
}
