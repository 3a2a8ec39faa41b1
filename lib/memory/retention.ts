import type {
  PurgeReport,
  PurgeRequest,
  SharedPurgeReport,
  SharedPurgeRequest,
} from '../webhooks/deliveries.ts'
import { purgeActivity } from './activity.ts'
import { countInEntry } from './audit.ts'
import type { Memory, Organization, StoredDelivery, StoredEvent } from './state.ts'

interface OldEvent {
  readonly organization: Organization
  readonly event: StoredEvent
}

/** Deletes a batch of old rows. See `DeliveryStore.purge`. */
export function purge(memory: Memory, request: PurgeRequest): PurgeReport {
  const { eventsAfterMs, limit, cursor = null, entry } = request
  const now = memory.clock()
  const old = findOldEvents(memory, now - eventsAfterMs, cursor ?? '')
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
    purgeActivity(organization, now)
    purgeEndpoints(organization)
  }
  const isDone = purged.length === purgeable.length && idempotencyKeys < limit
  const next = purged.at(-1)?.event.place ?? cursor ?? ''
  return { events: purged.length, idempotencyKeys, next: isDone ? null : next }
}

/** Deletes the next batch of old rows. See `DeliveryStore.continuePurge`. We always start at the oldest row here. */
export function continuePurge(
  memory: Memory,
  { eventsAfterMs, limit, share }: SharedPurgeRequest,
): SharedPurgeReport {
  const begunAt = performance.now()
  const { events, idempotencyKeys, next } = purge(memory, { eventsAfterMs, limit })
  const oldBefore = memory.clock() - eventsAfterMs
  const left = findOldEvents(memory, oldBefore, '').find(({ event }) => !event.deliveries.some(isToBeSent))
  return {
    events,
    days: 0,
    idempotencyKeys,
    isDone: next === null,
    waitMs: (performance.now() - begunAt) * (1 / share - 1),
    lagMs: left === undefined ? 0 : oldBefore - left.event.publishedAt,
    retained: [],
  }
}

function findOldEvents(memory: Memory, before: number, after: string): readonly OldEvent[] {
  return [...memory.organizations()]
    .flatMap((organization) => [...organization.events.values()].map((event) => ({ organization, event })))
    .filter(({ event: { publishedAt, place } }) => publishedAt < before && place > after)
    .sort((one, other) => (one.event.place < other.event.place ? -1 : 1))
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

/** Deletes removed endpoints that were kept for the delivery log and no longer have any deliveries. */
function purgeEndpoints({ endpoints, deliveries }: Organization): void {
  const logged = new Set([...deliveries.values()].map(({ endpoint }) => endpoint))
  for (const [id, endpoint] of endpoints) {
    if (endpoint.isRemoved && !logged.has(endpoint)) endpoints.delete(id)
  }
}
