import * as v from 'valibot'
import { type RecordedEvent, record } from './envelope.ts'
import { BusinessApiError, INVALID_EVENT } from './errors.ts'
import { type EventData, type EventType, eventSchemas } from './events.ts'
import type { Making } from './making.ts'

// --- Store ---

/** What a store must do for events that come without a record of this library. */
export interface EventStore {
  /**
   * Records an event with one delivery for each matching endpoint: pending, or skipped where the endpoint is disabled. An
   * event id that exists stands, and nothing is sent again.
   */
  publish(organizationId: string, event: RecordedEvent): Promise<void>
}

// --- Events of a host ---

/** It becomes the value of a header. */
const EVENT_ID = /^[!-~]{1,64}$/

/**
 * Builds an event of a host's data. Fields that its type does not have are left out.
 *
 * @param id the host's own, so that publishing twice publishes once
 * @throws `BusinessApiError` with code `invalid_event` naming what is wrong, and repeating no value
 */
export function checkEvent<Type extends EventType>(
  type: Type,
  data: EventData<Type>,
  id: string | undefined,
  making: Making,
): RecordedEvent {
  if (!Object.hasOwn(eventSchemas, type)) throw invalidEvent(`its type must be one of the catalogue's`)
  if (id !== undefined && !EVENT_ID.test(id))
    throw invalidEvent('its id must be 1 to 64 visible ASCII characters')
  const checked = v.safeParse(eventSchemas[type], data)
  if (!checked.success) throw invalidEvent(checked.issues.map(describeIssue).join('; '))
  return record(id ?? making.ids('evt'), type, checked.output, making.now)
}

function describeIssue(issue: v.BaseIssue<unknown>): string {
  const path = ['data', ...(issue.path ?? []).map(({ key }) => String(key))].join('.')
  // The messages of valibot name what was received.
  return `${path} must be ${issue.expected ?? 'as its schema says'}`
}

function invalidEvent(reason: string): BusinessApiError {
  return new BusinessApiError(INVALID_EVENT, `Cannot publish the event as ${reason}`)
}
