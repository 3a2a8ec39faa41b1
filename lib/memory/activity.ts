import {
  ACTIVITY_DAYS,
  type ActivityRequest,
  addCounts,
  COUNTERS,
  countAttempt,
  countOf,
  type EndedDeliveries,
  type StoredActivity,
} from '../webhooks/activity.ts'
import type { AttemptResult } from '../webhooks/claims.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { isInForce } from './admission.ts'
import type { CountedAttempt, Memory, Organization, StoredDelivery } from './state.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Counts the latest attempt, and the delivery if that finished it. */
export function countLastAttempt(
  memory: Memory,
  { endpoint, attemptLog, createdAt }: StoredDelivery,
  outcome: AttemptResult['outcome'],
): void {
  const attempt = attemptLog.at(-1)
  if (!attempt) return
  const counts = countAttempt(attempt, outcome === 'retry' ? null : outcome)
  const hour = startOf(createdAt, HOUR_MS)
  memory.organization(endpoint.organizationId).activity.push({ hour, endpoint, counts })
}

/** Reverses the count of a finished delivery that is sent again, so it counts once, by its latest outcome. */
export function uncountDelivery(memory: Memory, { endpoint, state, createdAt }: StoredDelivery): void {
  if (state !== 'delivered' && state !== 'failed') return
  const hour = startOf(createdAt, HOUR_MS)
  const { activity } = memory.organization(endpoint.organizationId)
  // Purged counts can't be corrected.
  if (!activity.some((one) => one.hour === hour && one.endpoint.record.id === endpoint.record.id)) return
  const counts = COUNTERS.map((counter) => (counter === state ? -1 : 0))
  activity.push({ hour, endpoint, counts })
}

/** Returns an organization's activity. See `DeliveryStore.readActivity`. */
export function readActivity(
  memory: Memory,
  { organizationId, endpointId, from, to, interval }: ActivityRequest,
): Omit<StoredActivity, 'queue'> {
  const { activity, endpoints, apiKeys } = memory.organization(organizationId)
  const counted = activity.filter(
    ({ hour, endpoint }) =>
      hour >= Date.parse(from) &&
      hour < Date.parse(to) &&
      (endpointId === null || endpoint.record.id === endpointId),
  )
  const intervalOf = ({ hour }: CountedAttempt): number =>
    startOf(hour, interval === 'hour' ? HOUR_MS : DAY_MS)
  const seriesOf = (all: readonly CountedAttempt[]): StoredActivity['series'] =>
    [...new Set(all.map(intervalOf))]
      .sort((one, other) => one - other)
      .map((at) => ({
        at: toTimestamp(at),
        counts: addCounts(all.filter((one) => intervalOf(one) === at).map(({ counts }) => counts)),
      }))
  const endedOf = (all: readonly CountedAttempt[]): readonly EndedDeliveries[] =>
    seriesOf(all)
      .map(({ at, counts }) => ({
        at,
        delivered: countOf(counts, 'delivered'),
        failed: countOf(counts, 'failed'),
      }))
      .filter(({ delivered, failed }) => delivered + failed > 0)
  return {
    series: seriesOf(counted),
    endpoints: [...endpoints.values()]
      .filter(({ record: { id } }) => endpointId === null || id === endpointId)
      .map((endpoint) => ({ endpoint, own: counted.filter((one) => one.endpoint === endpoint) }))
      .filter(({ endpoint, own }) => !endpoint.isRemoved || own.length > 0)
      .sort((one, other) => (one.endpoint.record.id < other.endpoint.record.id ? 1 : -1))
      .map(({ endpoint: { record, isRemoved, state, failures }, own }) => ({
        endpointId: record.id,
        url: record.url,
        description: record.description,
        state: isRemoved ? 'removed' : state,
        failures,
        counts: addCounts(own.map(({ counts }) => counts)),
        series: endedOf(own),
      })),
    apiKeysInUse: [...apiKeys.values()].filter(
      (key) => isInForce(key, memory.clock()) && key.lastUsedAt !== null && key.lastUsedAt >= from,
    ).length,
  }
}

/** Deletes activity older than 35 days. */
export function purgeActivity({ activity }: Organization, now: number): void {
  const kept = activity.filter(({ hour }) => hour >= now - ACTIVITY_DAYS * DAY_MS)
  activity.splice(0, activity.length, ...kept)
}

function startOf(moment: number, lengthMs: number): number {
  return moment - (moment % lengthMs)
}
