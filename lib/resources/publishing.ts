import { BusinessApiError, INVALID_EVENT } from '../base/errors.ts'
import { checkValue, type Fault, type StandardSchema } from '../base/standard-schema.ts'
import { suggest } from '../base/suggest.ts'
import { type EventRecord, toEventRecord } from '../writes/event-envelope.ts'
import type { WriteContext } from '../writes/write-context.ts'
import { type EventType, eventSchemas } from './event-catalogue.ts'
import { checkData, type EventOwner, eventTypes, findEvent } from './own-events.ts'

// --- Store ---

/** The part of a store that publishes events that don't belong to any of the library's records. */
export interface EventStore {
  /**
   * Writes an event with a delivery for each matching endpoint. Deliveries are pending, or skipped if the endpoint is
   * disabled. If the event id already exists, the existing event is kept and nothing is sent again.
   */
  publish(organizationId: string, event: EventRecord): Promise<void>
}

// --- Host events ---

/** Visible ASCII only, because the id is sent in a header. */
const EVENT_ID = /^[!-~]{1,64}$/

/**
 * Builds an event from the host's data. Drops fields that aren't in the schema.
 *
 * @param owner the service with the host's event types
 * @param id the id chosen by the host. Publishing a second event with the same id has no effect
 * @throws `BusinessApiError` with code `invalid_event`, listing the invalid fields but not the values
 */
export function checkEvent(
  owner: EventOwner,
  givenType: unknown,
  data: unknown,
  id: string | undefined,
  context: WriteContext,
): EventRecord {
  const type = typeof givenType === 'string' ? givenType : ''
  const schema = Object.hasOwn(eventSchemas, type) ? eventSchemas[type as EventType] : undefined
  const own = schema ? undefined : findEvent(owner, type)
  if (!schema && !own) {
    const whose = owner.events.length === 0 ? "the catalogue's" : "the catalogue's or the service's"
    throw invalidEvent(`its type must be one of ${whose}${suggest(type, eventTypes(owner))}`, ['type'])
  }
  if (id !== undefined && !(typeof id === 'string' && EVENT_ID.test(id)))
    throw invalidEvent('its id must be 1 to 64 visible ASCII characters', ['id'])
  const checked = own ? checkData(own.data, data) : checkValue(schema as StandardSchema, data)
  if ('faults' in checked) {
    const { faults } = checked
    // Messages of other libraries may include the value.
    const reasons = faults.map((fault) => `${pathOf(fault)} ${own ? fault.requirement : fault.rule}`)
    throw invalidEvent(reasons.join('; '), [...new Set(faults.map(pathOf))])
  }
  const { ids, now, traceparent } = context
  return toEventRecord(id ?? ids('evt'), type, checked.value, now, traceparent, (own ?? schema)?.subject)
}

function pathOf({ path }: Fault): string {
  return ['data', ...path].join('.')
}

function invalidEvent(reason: string, fields: readonly string[]): BusinessApiError {
  return new BusinessApiError(INVALID_EVENT, `Cannot publish the event because ${reason}`, { fields })
}
