import type { AuditRecord } from '../audit.ts'
import type { Delivery, DeliveryDetails, DeliveryFilter } from '../deliveries.ts'
import { toTimestamp } from '../making.ts'
import { countInEntry, isRecorded, recordEntry } from './audit.ts'
import type { KeptDelivery, Memory, Organization } from './memory.ts'

/** The newest deliveries of an organization, from `before` on. */
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

/** One delivery with what was sent and how it went. */
export function getDelivery({ deliveries }: Organization, deliveryId: string): DeliveryDetails | null {
  const delivery = deliveries.get(deliveryId)
  if (!delivery) return null
  return { ...show(delivery), body: delivery.event.body, attemptLog: [...delivery.attemptLog] }
}

/** Starts a new round for deliveries in a final state, the oldest first. */
export function replayDeliveries(
  memory: Memory,
  organization: Organization,
  ids: readonly string[] | null,
  filter: DeliveryFilter,
  limit: number,
  entry: AuditRecord,
): readonly string[] {
  const now = memory.clock()
  // The one that this very call has had sent again, its answer being lost.
  const before = organization.audit.get(entry.id)?.subjectId
  const replayed = oldestFirst(organization, filter)
    .filter(({ id }) => id !== before && (ids === null || ids.includes(id)))
    .filter(({ state, endpoint }) => !['pending', 'in_flight'].includes(state) && !endpoint.isRemoved)
    .slice(0, limit)
  for (const delivery of replayed) {
    const { attempts: attemptsBefore } = delivery
    memory.move(delivery, { state: 'pending', attemptsBefore, dueAt: now, reason: null, finishedAt: null })
  }
  if (replayed.length > 0) {
    countInEntry(memory, organization, entry, replayed.length)
    memory.due.announce()
  }
  const again = before !== undefined && ids?.includes(before) ? [before] : []
  return [...replayed.map(({ id }) => id), ...again]
}

/** Cancels a delivery that is pending; whether it was. */
export function cancelDelivery(
  memory: Memory,
  organization: Organization,
  deliveryId: string,
  entry: AuditRecord,
): boolean {
  const delivery = organization.deliveries.get(deliveryId)
  if (isRecorded(organization, entry)) return true
  if (delivery?.state !== 'pending') return false
  memory.move(delivery, { state: 'cancelled', finishedAt: memory.clock() })
  recordEntry(memory, organization, entry)
  return true
}

/** Ids are ULIDs: their order is that of time. */
function oldestFirst({ deliveries }: Organization, filter: DeliveryFilter): readonly KeptDelivery[] {
  return [...deliveries.values()]
    .filter((delivery) => isLetThrough(delivery, filter))
    .sort((one, other) => (one.id < other.id ? -1 : 1))
}

function isLetThrough(
  { endpoint, event, state, createdAt }: KeptDelivery,
  { endpointId, type, states, since, until }: DeliveryFilter,
): boolean {
  return (
    (endpointId === undefined || endpoint.record.id === endpointId) &&
    (type === undefined || event.type === type) &&
    (states === undefined || states.includes(state)) &&
    (since === undefined || createdAt >= Date.parse(since)) &&
    (until === undefined || createdAt < Date.parse(until))
  )
}

function show(delivery: KeptDelivery): Delivery {
  const { id, event, endpoint, state, attempts, dueAt, reason, createdAt, finishedAt } = delivery
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
  }
}
