import type { RecordedEvent } from '../envelope.ts'
import type { EventStore } from '../publishing.ts'
import type { DeliveryProgress, KeptDelivery, KeptEndpoint, Memory, Organization } from './memory.ts'

/** Why a delivery is skipped. */
export const ENDPOINT_DISABLED = 'endpoint_disabled'

/** Events without a record of this library, in memory. */
export function createEventStore(memory: Memory): EventStore {
  return {
    async publish(organizationId, event) {
      keepEvent(memory, memory.organization(organizationId), { ...event })
    },
  }
}

/** Keeps an event with one delivery for each endpoint that it goes to, unless there is one of its id. */
export function keepEvent(memory: Memory, organization: Organization, event: RecordedEvent): void {
  if (organization.events.has(event.id)) return
  const record = Object.freeze(event)
  const deliveries = [...organization.endpoints.values()]
    .filter((endpoint) => isWanted(endpoint, record))
    .map((endpoint) => fanOut(memory, organization, record, endpoint))
  organization.events.set(record.id, { record, deliveries })
  if (deliveries.some(({ state }) => state === 'pending')) memory.due.announce()
}

function isWanted({ isRemoved, record: { types } }: KeptEndpoint, { type }: RecordedEvent): boolean {
  return !isRemoved && (types === null || types.some((wanted) => wanted === type))
}

function fanOut(
  memory: Memory,
  organization: Organization,
  event: RecordedEvent,
  endpoint: KeptEndpoint,
): KeptDelivery {
  const now = memory.clock()
  const id = memory.ids('dlv')
  const progress = startingAt(endpoint, now)
  const delivery: KeptDelivery = { id, event, endpoint, createdAt: now, attemptLog: [], ...progress }
  organization.deliveries.set(id, delivery)
  // Nothing of it changes, but it is kept where its state says.
  memory.move(delivery, {})
  return delivery
}

function startingAt({ state }: KeptEndpoint, now: number): DeliveryProgress {
  const progress = { dueAt: now, attempts: 0, attemptsBefore: 0, claim: null }
  if (state === 'disabled') {
    return { ...progress, state: 'skipped', reason: ENDPOINT_DISABLED, finishedAt: now }
  }
  return { ...progress, state: 'pending', reason: null, finishedAt: null }
}
