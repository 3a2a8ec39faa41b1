import type {
  CancellationRequest,
  Delivery,
  DeliveryDetails,
  DeliveryFilter,
  RecoveryRequest,
} from '../webhooks/deliveries.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { countInEntry, isRecorded, recordEntry } from './audit.ts'
import type { KeptDelivery, Memory, Organization } from './state.ts'

/** Lists the newest deliveries of an organization, from `before` on. */
export function listDeliveries(
  organization: Organization,
  filter: DeliveryFilter,
  limit: number,
  before: string | null,
): readonly Delivery[] {
  return oldestFirst(organization, filter)
    .toReversed()
    .filter(({ id }) => before === null || id < before)
    .slice(0, limit)
    .map(show)
}

/** Counts deliveries of an organization. */
export function countDeliveries(organization: Organization, filter: DeliveryFilter, max: number): number {
  return Math.min(oldestFirst(organization, filter).length, max)
}

/** Reads a delivery with the event's body and the attempts. */
export function getDelivery({ deliveries }: Organization, deliveryId: string): DeliveryDetails | null {
  const delivery = deliveries.get(deliveryId)
  if (!delivery) return null
  return { ...show(delivery), body: delivery.event.body, attemptLog: [...delivery.attemptLog] }
}

/** Starts a new round for deliveries in a final state, the oldest first: see `DeliveryStore.recover`. */
export function recoverDeliveries(
  memory: Memory,
  organization: Organization,
  { ids, filter, limit, entry }: RecoveryRequest,
): readonly string[] {
  const now = memory.clock()
  // The delivery that an earlier try of the same call recovered, with an answer that was lost.
  const before = organization.audit.get(entry.id)?.subjectId
  const recovered = oldestFirst(organization, filter)
    .filter(({ id }) => id !== before && (ids === null || ids.includes(id)))
    .filter(({ state, endpoint }) => !['pending', 'sending'].includes(state) && !endpoint.isRemoved)
    .slice(0, limit)
  for (const delivery of recovered) {
    const { attempts: attemptsBefore } = delivery
    memory.move(delivery, { state: 'pending', attemptsBefore, dueAt: now, reason: null, finishedAt: null })
  }
  if (recovered.length > 0) {
    countInEntry(memory, organization, entry, { recovered: recovered.length })
    memory.wakeUp.signal()
  }
  const again = before !== undefined && ids?.includes(before) ? [before] : []
  return [...recovered.map(({ id }) => id), ...again]
}

/** Cancels a pending delivery. @returns false if the delivery was not pending */
export function cancelDelivery(
  memory: Memory,
  organization: Organization,
  { deliveryId, entry }: CancellationRequest,
): boolean {
  const delivery = organization.deliveries.get(deliveryId)
  if (isRecorded(organization, entry)) return true
  if (delivery?.state !== 'pending') return false
  memory.move(delivery, { state: 'cancelled', finishedAt: memory.clock() })
  recordEntry(memory, organization, entry)
  return true
}

/** Sorts the deliveries that a filter selects by id: ULIDs sort by time. */
function oldestFirst({ deliveries }: Organization, filter: DeliveryFilter): readonly KeptDelivery[] {
  return [...deliveries.values()]
    .filter((delivery) => isLetThrough(delivery, filter))
    .sort((one, other) => (one.id < other.id ? -1 : 1))
}

function isLetThrough(
  { endpoint, event, state, createdAt }: KeptDelivery,
  { endpointId, eventId, type, states, since, until }: DeliveryFilter,
): boolean {
  return (
    (endpointId === undefined || endpoint.record.id === endpointId) &&
    (eventId === undefined || event.id === eventId) &&
    (type === undefined || event.type === type) &&
    (states === undefined || states.includes(state)) &&
    (since === undefined || createdAt >= Date.parse(since)) &&
    (until === undefined || createdAt < Date.parse(until))
  )
}

function show(delivery: KeptDelivery): Delivery {
  const { id, event, endpoint, state, attempts, dueAt, reason, createdAt, finishedAt } = delivery
  const last = delivery.attemptLog.at(-1)
  return {
    id,
    eventId: event.id,
    type: event.type,
    endpointId: endpoint.record.id,
    state,
    attempts,
    dueAt: state === 'pending' ? toTimestamp(dueAt) : null,
    reason,
    createdAt: toTimestamp(createdAt),
    finishedAt: finishedAt === null ? null : toTimestamp(finishedAt),
    lastStatus: last?.status ?? null,
    lastError: last?.error ?? null,
  }
}
