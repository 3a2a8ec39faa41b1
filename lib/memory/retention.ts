import type {
  PurgeReport,
  PurgeRequest,
  SharedPurgeReport,
  SharedPurgeRequest,
} from '../webhooks/deliveries.ts'
import { countInEntry } from './audit.ts'
import type { Memory, Organization, StoredDelivery, StoredEvent } from './state.ts'

/** An event with the place of the event in the order of a purge. */
interface OldEvent {
  readonly organization: Organization
  readonly event: StoredEvent
  readonly createdAt: number
}

/** Place after which a purge continues: creation time, organization, and event id. */
type Place = readonly [createdAt: number, organizationId: string, eventId: string]

/** Purges a bounded part of the old rows: see `DeliveryStore.purge`. */
export function purge(memory: Memory, request: PurgeRequest): PurgeReport {
  const { eventsAfterMs, limit, cursor = null, entry } = request
  const now = memory.clock()
  const place = cursor === null ? null : (JSON.parse(cursor) as Place)
  const old = findOldEvents(memory, now - eventsAfterMs, place)
  const purgeable = old.filter(({ event }) => !event.deliveries.some(isToBeSent))
  const purged = purgeable.slice(0, limit)
  for (const { organization, event } of purged) forget(organization, event)
  for (const organization of new Set(purged.map((one) => one.organization))) {
    const events = purged.filter((one) => one.organization === organization).length
    if (entry) countInEntry(memory, organization, { ...entry, subjectId: organization.id }, { events })
  }

  let idempotencyKeys = 0
  for (const organization of memory.organizations()) {
    idempotencyKeys += purgeIdempotencyKeys(organization, now, limit - idempotencyKeys)
    purgeEndpoints(organization)
  }
  const last = purged.at(-1)
  const isDone = purged.length === purgeable.length && idempotencyKeys < limit
  const next = last === undefined ? place : placeOf(last)
  return { events: purged.length, idempotencyKeys, next: isDone ? null : JSON.stringify(next) }
}

/** Purges the next part: see `DeliveryStore.continuePurge`. In a single process each part begins with the oldest event. */
export function continuePurge(
  memory: Memory,
  { eventsAfterMs, limit, share }: SharedPurgeRequest,
): SharedPurgeReport {
  const begunAt = performance.now()
  const { events, idempotencyKeys, next } = purge(memory, { eventsAfterMs, limit })
  const oldBefore = memory.clock() - eventsAfterMs
  const left = findOldEvents(memory, oldBefore, null).find(({ event }) => !event.deliveries.some(isToBeSent))
  return {
    events,
    days: 0,
    idempotencyKeys,
    isDone: next === null,
    waitMs: (performance.now() - begunAt) * (1 / share - 1),
    lagMs: left === undefined ? 0 : oldBefore - left.createdAt,
    retained: [],
  }
}

/** Finds the events created before a moment and after a place, in the order of a purge. */
function findOldEvents(memory: Memory, before: number, place: Place | null): readonly OldEvent[] {
  return [...memory.organizations()]
    .flatMap((organization) =>
      [...organization.events.values()].map((event) => ({
        organization,
        event,
        createdAt: Date.parse(event.record.createdAt),
      })),
    )
    .filter((one) => one.createdAt < before && (place === null || comparePlaces(placeOf(one), place) > 0))
    .sort((one, other) => comparePlaces(placeOf(one), placeOf(other)))
}

function placeOf({ createdAt, organization, event }: OldEvent): Place {
  return [createdAt, organization.id, event.record.id]
}

function comparePlaces(one: Place, other: Place): number {
  const index = one.findIndex((part, position) => part !== other[position])
  if (index === -1) return 0
  return (one[index] ?? '') < (other[index] ?? '') ? -1 : 1
}

function forget({ events, deliveries }: Organization, event: StoredEvent): void {
  events.delete(event.record.id)
  for (const { id } of event.deliveries) deliveries.delete(id)
}

function isToBeSent({ state }: StoredDelivery): boolean {
  return state === 'pending' || state === 'sending'
}

function purgeIdempotencyKeys({ idempotency }: Organization, now: number, limit: number): number {
  const expired = [...idempotency].filter(([, { expiresAt }]) => expiresAt <= now).slice(0, limit)
  for (const [name] of expired) idempotency.delete(name)
  return expired.length
}

/** Deletes removed endpoints that were kept for a delivery log and have no delivery left. */
function purgeEndpoints({ endpoints, deliveries }: Organization): void {
  const logged = new Set([...deliveries.values()].map(({ endpoint }) => endpoint))
  for (const [id, endpoint] of endpoints) {
    if (endpoint.isRemoved && !logged.has(endpoint)) endpoints.delete(id)
  }
}
