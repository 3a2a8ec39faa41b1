import type { DeliveryState } from '../webhooks/deliveries.ts'
import type { EventLogStore, LoggedEvent } from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import type { Memory, Organization, StoredEvent } from './state.ts'

/** Creates the slice of the event log in memory. */
export function createEventLogStore(memory: Memory): EventLogStore {
  return {
    async list(organizationId, { type, since, until }, limit, before) {
      const all = oldestFirst(memory.organization(organizationId)).toReversed()
      const start = before === null ? 0 : all.findIndex(({ record }) => record.id === before) + 1
      if (before !== null && start === 0) return { events: [], next: null }
      const selected = all
        .slice(start)
        .filter(
          ({ record }) =>
            (type === undefined || record.type === type) &&
            (since === undefined || record.createdAt >= since) &&
            (until === undefined || record.createdAt < until),
        )
      const events = selected.slice(0, limit).map(show)
      return { events, next: selected.length > limit ? (events.at(-1)?.id ?? null) : null }
    },

    async get(organizationId, eventId) {
      const event = memory.organization(organizationId).events.get(eventId)
      return event ? { ...show(event), body: event.record.body } : null
    },

    async listSince(organizationId, since, limit, after) {
      return oldestFirst(memory.organization(organizationId))
        .map(({ record: { id, type, createdAt: at }, onlyEndpointId }) => ({ at, id, type, onlyEndpointId }))
        .filter((note) => note.at >= since && (after === null || comparePlaces(note, after) > 0))
        .slice(0, limit)
    },

    async read(organizationId, eventIds) {
      const { events } = memory.organization(organizationId)
      return eventIds.flatMap((id) => {
        const event = events.get(id)
        return event ? [withoutTrace(event.record)] : []
      })
    },

    // Every write ends before the next begins.
    async mark() {
      return { at: memory.clock(), begun: '0', ended: '0' }
    },
  }
}

/** Returns an event as stores read it. */
export function withoutTrace({ traceparent: _, ...event }: EventRecord): EventRecord {
  return event
}

function oldestFirst({ events }: Organization): readonly StoredEvent[] {
  return [...events.values()].sort((one, other) => comparePlaces(placeOf(one), placeOf(other)))
}

function placeOf({ record: { id, createdAt: at } }: StoredEvent): {
  readonly at: string
  readonly id: string
} {
  return { at, id }
}

function comparePlaces(
  one: { readonly at: string; readonly id: string },
  other: { readonly at: string; readonly id: string },
): number {
  if (one.at !== other.at) return one.at < other.at ? -1 : 1
  if (one.id === other.id) return 0
  return one.id < other.id ? -1 : 1
}

function show({ record: { id, type, createdAt }, deliveries, onlyEndpointId }: StoredEvent): LoggedEvent {
  const counts: Partial<Record<DeliveryState, number>> = {}
  for (const { state } of deliveries) counts[state] = (counts[state] ?? 0) + 1
  return { id, type, createdAt, onlyEndpointId, deliveries: counts }
}
