import type { DeliveryState } from '../webhooks/deliveries.ts'
import type { EventLogStore, LoggedEvent } from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { isMatch } from './record-list.ts'
import type { Memory, Organization, StoredEvent } from './state.ts'

/** Creates the in-memory event log slice. */
export function createEventLogStore(memory: Memory): EventLogStore {
  return {
    async list(organizationId, { subjectId, ...filter }, limit, before) {
      const organization = memory.organization(organizationId)
      const all = [...organization.events.values()].reverse()
      const subjects = subjectsOf(organization, subjectId)
      const start = before === null ? 0 : all.findIndex(({ record }) => record.id === before) + 1
      if (before !== null && start === 0) return { events: [], next: null }
      const ofRecord = all.slice(start).filter(({ record }) => !subjects || subjects.has(record.subjectId))
      const selected = ofRecord.map(show).filter((event) => isMatch(event, event.createdAt, filter))
      const events = selected.slice(0, limit)
      return { events, next: selected.length > limit ? (events.at(-1)?.id ?? null) : null }
    },

    async get(organizationId, eventId) {
      const event = memory.organization(organizationId).events.get(eventId)
      return event ? { ...show(event), body: event.record.body } : null
    },

    async listSince(organizationId, since, limit, after) {
      return [...memory.organization(organizationId).events.values()]
        .map(({ record: { id, type }, publishedAt, place, onlyEndpointId }) => {
          return { id, at: toTimestamp(publishedAt), place, type, onlyEndpointId }
        })
        .filter(({ at, place }) => at >= since && (after === null || place > after))
        .slice(0, limit)
    },

    async read(organizationId, eventIds) {
      const { events } = memory.organization(organizationId)
      return eventIds.flatMap((id) => {
        const event = events.get(id)
        return event ? [shownRecord(event.record)] : []
      })
    },

    // Writes never overlap.
    async mark() {
      return { at: memory.clock(), begun: '0', ended: '0' }
    },
  }
}

/** Returns the IDs of the records with this ID or number. */
export function subjectsOf(
  { records: { invoice, proposal } }: Organization,
  idOrNumber: string | undefined,
): ReadonlySet<string | undefined> | undefined {
  if (idOrNumber === undefined) return undefined
  const numbered = [...invoice.values(), ...proposal.values()].filter(({ number }) => number === idOrNumber)
  return new Set([idOrNumber, ...numbered.map(({ id }) => id)])
}

function shownRecord({ id, type, body }: EventRecord): EventRecord {
  return { id, type, body }
}

function show({ record, publishedAt, deliveries, onlyEndpointId }: StoredEvent): LoggedEvent {
  const { id, type, subjectId = null } = record
  const counts: Partial<Record<DeliveryState, number>> = {}
  for (const { state } of deliveries) counts[state] = (counts[state] ?? 0) + 1
  return { id, type, createdAt: toTimestamp(publishedAt), subjectId, onlyEndpointId, deliveries: counts }
}
