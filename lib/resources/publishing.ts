import * as v from 'valibot'
import { BusinessApiError, INVALID_EVENT } from '../base/errors.ts'
import { type EventRecord, toEventRecord } from '../writes/event-envelope.ts'
import type { WriteContext } from '../writes/write-context.ts'
import { type EventData, type EventType, eventSchemas } from './event-catalogue.ts'

// --- Store ---

/** The slice of a store for events that belong to no record of this library. */
export interface EventStore {
  /**
   * Writes an event with one delivery for each matching endpoint: pending, or skipped for a disabled endpoint. If the event id
   * exists, the first event stands, and nothing is sent again.
   */
  publish(organizationId: string, event: EventRecord): Promise<void>
}

// --- Events of a host ---

/** Visible ASCII, because the id becomes the value of a header. */
const EVENT_ID = /^[!-~]{1,64}$/

/**
 * Builds an event from a host's data. Fields that the event type does not have are left out.
 *
 * @param id the host's id of the event: a second publication with the same id changes nothing
 * @throws `BusinessApiError` with code `invalid_event` naming each wrong field, and repeating no value
 */
export function checkEvent<Type extends EventType>(
  type: Type,
  data: EventData<Type>,
  id: string | undefined,
  context: WriteContext,
): EventRecord {
  if (!Object.hasOwn(eventSchemas, type))
    throw invalidEvent(`its type must be one of the catalogue's`, ['type'])
  if (id !== undefined && !EVENT_ID.test(id))
    throw invalidEvent('its id must be 1 to 64 visible ASCII characters', ['id'])
  const checked = v.safeParse(eventSchemas[type], data)
  if (!checked.success) {
    const fields = [...new Set(checked.issues.map(pathOf))]
    throw invalidEvent(checked.issues.map(describeIssue).join('; '), fields)
  }
  const { ids, now, traceparent } = context
  return toEventRecord(id ?? ids('evt'), type, checked.output, now, traceparent, eventSchemas[type].subject)
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  return ['data', ...(issue.path ?? []).map(({ key }) => String(key))].join('.')
}

function describeIssue(issue: v.BaseIssue<unknown>): string {
  // The messages of valibot repeat the value that was received.
  return `${pathOf(issue)} must be ${issue.expected ?? 'as its schema says'}`
}

function invalidEvent(reason: string, fields: readonly string[]): BusinessApiError {
  return new BusinessApiError(INVALID_EVENT, `Cannot publish the event because ${reason}`, { fields })
}
