import { createHash } from 'node:crypto'
import type { BackfillFacts, BackfillType } from '../resources/backfill.ts'
import { shownFields } from '../resources/columns.ts'
import { RECORD_TABLES, type RecordRow } from '../resources/records.ts'
import type { BackfillOutcome, BackfillRequest, BackfillStore } from '../webhooks/backfill.ts'
import { render } from '../writes/placeholders.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { countInEntry } from './audit.ts'
import { showClient } from './clients.ts'
import { addEvent, fanOut } from './events.ts'
import type { Memory, Organization, StoredEndpoint } from './state.ts'

interface BackfillRecord {
  readonly id: string
  readonly businessId: string | null
  readonly representation: object
}

/** Creates the in-memory slice for backfills. */
export function createBackfillStore(memory: Memory): BackfillStore {
  return {
    backfill: async (request) => backfill(memory, request),

    async count(organizationId, type, max) {
      return Math.min(recordsOf(memory.organization(organizationId), type).length, max)
    },
  }
}

function backfill(memory: Memory, request: BackfillRequest): BackfillOutcome | null {
  const { organizationId, endpointId, type, after, limit, entry } = request
  const organization = memory.organization(organizationId)
  const endpoint = organization.endpoints.get(endpointId)
  if (!endpoint || endpoint.isRemoved) return null
  if (endpoint.state !== 'enabled') return { outcome: 'not_enabled' }
  if (endpoint.record.types !== null && !endpoint.record.types.includes(type))
    return { outcome: 'not_wanted' }
  const batch = recordsOf(organization, type)
    .filter(({ id }) => id > (after ?? ''))
    .sort((one, other) => (one.id < other.id ? -1 : 1))
    .slice(0, limit)
  const announced = announcedTo(organization, endpoint, type)
  const made = batch.filter(
    (record) => !announced.has(record.id) && make(memory, organization, endpoint, request, record),
  )
  if (made.length > 0) {
    countInEntry(memory, organization, entry, { events: made.length })
    memory.wakeUp.signal()
  }
  const next = batch.length === limit ? (batch.at(-1)?.id ?? null) : null
  return { outcome: 'done', examined: batch.length, events: made.length, next }
}

/** Creates a record's event and delivery. Returns `false` if the event already exists. */
function make(
  memory: Memory,
  organization: Organization,
  endpoint: StoredEndpoint,
  { type, template }: BackfillRequest,
  { id, businessId, representation }: BackfillRecord,
): boolean {
  const digest = createHash('sha256').update(`${endpoint.record.id} ${type} ${id}`).digest('hex')
  const facts: BackfillFacts = {
    eventId: `evt_backfill_${digest.slice(0, 32)}`,
    eventCreatedAt: toTimestamp(memory.clock()),
    businessId,
  }
  const { eventId } = facts
  if (organization.events.has(eventId)) return false
  const body = render(template, { ...representation }, { ...facts })
  const record = Object.freeze({ id: eventId, type, body, subjectId: id })
  const delivery = fanOut(memory, organization, record, endpoint, true)
  addEvent(memory, organization, { record, deliveries: [delivery], onlyEndpointId: endpoint.record.id })
  return true
}

function recordsOf(organization: Organization, type: BackfillType): BackfillRecord[] {
  const kind = type.split('.')[0] as 'business' | 'client' | 'lead' | 'proposal'
  const rows: Iterable<{ readonly id: string; readonly businessId?: string }> =
    organization.records[kind].values()
  return [...rows].map((row) => ({
    id: row.id,
    businessId: row.businessId ?? (kind === 'business' ? row.id : null),
    representation:
      kind === 'client'
        ? showClient(row as RecordRow<'client'>, organization)
        : shownFields<object, object>(RECORD_TABLES[kind], row),
  }))
}

/** Returns the ids of records whose own event was delivered to the endpoint or is about to be. */
function announcedTo(
  organization: Organization,
  endpoint: StoredEndpoint,
  type: BackfillType,
): ReadonlySet<string> {
  const ids = [...organization.events.values()]
    .filter(({ record, onlyEndpointId, deliveries }) => {
      const isSent = deliveries.some(
        (delivery) =>
          delivery.endpoint === endpoint && ['pending', 'sending', 'delivered'].includes(delivery.state),
      )
      return record.type === type && onlyEndpointId === null && isSent
    })
    .flatMap(({ record }) => record.subjectId ?? [])
  return new Set(ids)
}
