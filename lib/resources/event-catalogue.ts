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

/** The schemas of `data` for each event type (specification, section 6), joined from the resources. */
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

/** Every event type, in the order of the catalogue. */
export const EVENT_TYPES = Object.keys(eventSchemas) as readonly EventType[]

/**
 * A received event: in `switch (event.type)` the compiler knows the data of each type.
 *
 * @typeParam Own the host's own types with their data: `{ 'booking.created': Booking }`. Default: none
 */
export type Event<Own extends object = object> =
  | { [Type in EventType]: EventEnvelope<Type, EventData<Type>> }[EventType]
  | { [Type in keyof Own & string]: EventEnvelope<Type, Own[Type]> }[keyof Own & string]

/** Types whose data names no business: erasure reads the events of all other types, the host's own included. */
export const TYPES_WITHOUT_BUSINESS: readonly string[] = EVENT_TYPES.filter(
  (type) => !('businessId' in eventSchemas[type].entries),
)
