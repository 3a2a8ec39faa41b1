import type * as v from 'valibot'
import type { EventEnvelope } from '../writes/event-envelope.ts'
import { businessEvents } from './businesses.ts'
import { clientEvents } from './clients.ts'
import { invoiceEvents } from './invoices.ts'
import { leadEvents } from './leads.ts'
import { marketingEvents } from './marketing.ts'
import { proposalEvents } from './proposals.ts'
import { plainEvents } from './records.ts'
import { supportEvents } from './support.ts'

/** Schemas for all `data`, by event type (see section 6 of the spec). */
export const eventSchemas = {
  ...clientEvents,
  ...leadEvents,
  ...proposalEvents,
  ...invoiceEvents,
  ...plainEvents,
  ...supportEvents,
  ...businessEvents,
  ...marketingEvents,
}

/** The name of an event type. */
export type EventType = keyof typeof eventSchemas
/** An event type's `data`. */
export type EventData<Type extends EventType> = v.InferOutput<(typeof eventSchemas)[Type]>

/** All event types, in catalogue order. */
export const EVENT_TYPES = Object.keys(eventSchemas) as readonly EventType[]

/**
 * A received event. In `switch (event.type)`, TypeScript knows each type's data.
 *
 * @typeParam Own the host's event types and their data, for example `{ 'booking.created': Booking }`. None by default
 */
export type Event<Own extends object = object> =
  | { [Type in EventType]: EventEnvelope<Type, EventData<Type>> }[EventType]
  | { [Type in keyof Own & string]: EventEnvelope<Type, Own[Type]> }[keyof Own & string]

/** Event types whose data has no business. Erasure scans events of every other type, including the host's own. */
export const TYPES_WITHOUT_BUSINESS: readonly string[] = EVENT_TYPES.filter(
  (type) => !('businessId' in eventSchemas[type].entries),
)
