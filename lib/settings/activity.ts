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

/** A query for an organization's activity. */
export interface ActivityQuery {
  /** Only includes this endpoint's activity. */
  readonly endpointId?: string | undefined
  /** Start of the period, rounded down to the hour in UTC. Up to 35 days ago. Defaults to 24 hours before `to`. */
  readonly from?: Date | string | undefined
  /** End of the period, rounded up to the hour in UTC. Defaults to now. */
  readonly to?: Date | string | undefined
  /** Interval size of `series`, in UTC. Defaults to `hour` for up to two days, otherwise `day`. */
  readonly interval?: ActivityInterval | undefined
}

/** Activity counts for the deliveries created in a period, including their later attempts. */
export interface ActivityNumbers {
  /** Number of deliveries that were delivered. A delivery that was sent again counts once, by its latest outcome. */
  readonly delivered: number
  /** Number of deliveries that failed permanently. */
  readonly failed: number
  /** The fraction of ended deliveries that were delivered, from 0 to 1; `null` if none ended. */
  readonly successRate: number | null
  readonly attempts: number
  /** Number of attempts by class. */
  readonly results: Readonly<Record<AttemptClass, number>>
  /**
   * Median and 95th percentile duration in milliseconds of attempts with a response, or `null` if there were
   * none. Estimated from 12 buckets that double in size. From 8 ms up, the exact value is between half and twice
   * the estimate.
   */
  readonly p50Ms: number | null
  readonly p95Ms: number | null
}

/** Activity counts for one interval. */
export interface IntervalActivity extends ActivityNumbers {
  /** Start of the interval in ISO 8601. */
  readonly at: string
}

/** An endpoint's activity and current state. */
export interface EndpointActivity extends ActiveEndpoint, ActivityNumbers {
  /** Oldest first. Intervals where no delivery ended are omitted. */
  readonly series: readonly EndedDeliveries[]
}

/** An organization's activity. */
export interface Activity {
  /** Start (inclusive) and end (exclusive) of the period. Both are on the hour in UTC. */
  readonly from: string
  readonly to: string
  readonly interval: ActivityInterval
  readonly totals: ActivityNumbers
  /** All intervals in the period, including those with no attempts, oldest first. */
  readonly series: readonly IntervalActivity[]
  /**
   * Endpoints that need attention come first: disabled ones, then currently failing ones, then by the number of failed
   * deliveries and attempts in the period.
   */
  readonly endpoints: readonly EndpointActivity[]
  /** Deliveries that are pending or sending now, and failed ones that haven't been recovered. 10,001 means "more". */
  readonly pendingNow: number
  readonly failedNow: number
  /** Number of active API keys used since `from`. */
  readonly apiKeysInUse: number
}

/**
 * Returns an organization's delivery and attempt counts, over time and by endpoint. Runs a single statement whose cost
 * doesn't depend on the number of deliveries.
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

/** Means "more than 10,000", as in queue counts */
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
    successRate: ended > 0 ? delivered / ended : null,
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

/** Attempt classes that are the endpoint's fault. */
const FAULTS = ATTEMPT_CLASSES.filter((name) => name !== '2xx' && name !== 'interrupted')

/** Sort order by state. Removed endpoints come last because there's nothing to do about them. */
const TROUBLE = { disabled: 0, enabled: 1, paused: 1, removed: 2 } as const

function byTrouble(one: EndpointCounts, other: EndpointCounts): number {
  return (
    TROUBLE[one.state] - TROUBLE[other.state] ||
    Number(other.failures > 0) - Number(one.failures > 0) ||
    countOf(other.counts, 'failed') - countOf(one.counts, 'failed') ||
    countAll(other.counts, FAULTS) - countAll(one.counts, FAULTS)
  )
}
