import { BusinessApiError, INVALID_EVENT } from '../base/errors.ts'
import type { EventStore } from '../resources/publishing.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import type {
  DeliveryProgress,
  Memory,
  Organization,
  StoredDelivery,
  StoredEndpoint,
  StoredEvent,
} from './state.ts'

/** Why a delivery was skipped. */
export const ENDPOINT_DISABLED = 'endpoint_disabled'

/** Creates the in-memory slice for events that the host publishes without a record. */
export function createEventStore(memory: Memory): EventStore {
  return {
    async publish(organizationId, event) {
      refuseLarge(memory, [event])
      storeEvent(memory, memory.organization(organizationId), { ...event })
    },
  }
}

/**
 * Rejects events with an oversized body before anything changes.
 *
 * @throws `BusinessApiError` with code `invalid_event`
 */
export function refuseLarge({ maxEventBytes }: Memory, events: readonly EventRecord[]): void {
  for (const { type, body } of events) {
    const bytes = Buffer.byteLength(body)
    if (bytes <= maxEventBytes) continue
    throw new BusinessApiError(
      INVALID_EVENT,
      `Cannot publish ${type} because its body has ${bytes} bytes, more than the maximum of ${maxEventBytes}. ` +
        'Publish an id that subscribers can fetch the rest with.',
    )
  }
}

/** Stores an event with a delivery for each matching endpoint, unless an event with the same id already exists. */
export function storeEvent(memory: Memory, organization: Organization, event: EventRecord): void {
  if (organization.events.has(event.id)) return
  const record = Object.freeze(event)
  const deliveries = [...organization.endpoints.values()]
    .filter((endpoint) => isWanted(endpoint, record))
    .map((endpoint) => fanOut(memory, organization, record, endpoint))
  addEvent(memory, organization, { record, deliveries, onlyEndpointId: null })
  if (deliveries.some(({ state }) => state === 'pending')) memory.wakeUp.signal()
}

/** Adds an event that's being published now. */
export function addEvent(
  { clock, ids }: Memory,
  { events }: Organization,
  event: Omit<StoredEvent, 'publishedAt' | 'place'>,
): void {
  events.set(event.record.id, { ...event, publishedAt: clock(), place: ids('dlv') })
}

function isWanted({ isRemoved, record: { types } }: StoredEndpoint, { type }: EventRecord): boolean {
  return !isRemoved && (types === null || types.some((wanted) => wanted === type))
}

/** Stores an event's delivery to an endpoint. */
export function fanOut(
  memory: Memory,
  organization: Organization,
  event: EventRecord,
  endpoint: StoredEndpoint,
  isBackfill = false,
): StoredDelivery {
  const now = memory.clock()
  const id = memory.ids('dlv')
  const progress = startingAt(endpoint, now)
  const delivery: StoredDelivery = {
    id,
    event,
    endpoint,
    createdAt: now,
    attemptLog: [],
    isBackfill,
    ...progress,
  }
  organization.deliveries.set(id, delivery)
  // This adds the delivery to the collection for its state.
  memory.move(delivery, {})
  return delivery
}

function startingAt({ state }: StoredEndpoint, now: number): DeliveryProgress {
  const progress = { dueAt: now, attempts: 0, attemptsBefore: 0, claim: null }
  if (state === 'disabled') {
    return { ...progress, state: 'skipped', reason: ENDPOINT_DISABLED, finishedAt: now }
  }
  return { ...progress, state: 'pending', reason: null, finishedAt: null }
}
