import {
  ACTIVITY_DAYS,
  type ActivityPeriod,
  classOfAttempt,
  countAttempt,
  type StoredActivity,
} from '../webhooks/activity.ts'
import type { AttemptResult } from '../webhooks/claims.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { isInForce } from './admission.ts'
import type { Memory, Organization, StoredDelivery, StoredEndpoint } from './state.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Counts the attempt that was logged last, and the end of the delivery, unless an earlier round has delivered it. */
export function countLastAttempt(
  memory: Memory,
  { endpoint, attemptLog, attemptsBefore }: StoredDelivery,
  outcome: AttemptResult['outcome'],
): void {
  const attempt = attemptLog.at(-1)
  if (!attempt) return
  const hour = startOf(Date.parse(attempt.startedAt), HOUR_MS)
  const wasDelivered = attemptLog.some((one) => one.number <= attemptsBefore && classOfAttempt(one) === '2xx')
  const counts = countAttempt(attempt, outcome === 'retry' || wasDelivered ? null : outcome)
  memory.organization(endpoint.organizationId).activity.push({ hour, endpoint, counts })
}

/** Reads the activity of an organization: see `DeliveryStore.readActivity`. */
export function readActivity(
  memory: Memory,
  organizationId: string,
  endpointId: string | null,
  { from, to, interval }: ActivityPeriod,
): Omit<StoredActivity, 'queue'> {
  const { activity, endpoints, apiKeys } = memory.organization(organizationId)
  const isWanted = ({ record: { id } }: StoredEndpoint): boolean => endpointId === null || id === endpointId
  return {
    intervals: activity
      .filter(({ hour, endpoint }) => hour >= Date.parse(from) && hour < Date.parse(to) && isWanted(endpoint))
      .map(({ hour, endpoint, counts }) => ({
        at: toTimestamp(startOf(hour, interval === 'hour' ? HOUR_MS : DAY_MS)),
        endpointId: endpoint.record.id,
        counts,
      })),
    endpoints: [...endpoints.values()]
      .filter(isWanted)
      .sort((one, other) => (one.record.id < other.record.id ? 1 : -1))
      .map(({ record: { id, url, description }, isRemoved, state, failures }) => ({
        endpointId: id,
        url,
        description,
        state: isRemoved ? 'removed' : state,
        failures,
      })),
    apiKeysInUse: [...apiKeys.values()].filter(
      (key) => isInForce(key, memory.clock()) && key.lastUsedAt !== null && key.lastUsedAt >= from,
    ).length,
  }
}

/** Purges activity that is older than 35 days. */
export function purgeActivity({ activity }: Organization, now: number): void {
  const kept = activity.filter(({ hour }) => hour >= now - ACTIVITY_DAYS * DAY_MS)
  activity.splice(0, activity.length, ...kept)
}

/** Returns the beginning of an hour or day in UTC. */
function startOf(moment: number, lengthMs: number): number {
  return moment - (moment % lengthMs)
}
