import { canonicalJson } from '../base/json-text.ts'
import { isMatching, isPlain, printValue, rejectUnknown } from '../base/options.ts'
import { type Checked, checkValue, isStandardSchema, type StandardSchema } from '../base/standard-schema.ts'
import { EVENT_TYPES, type EventData, type EventType, eventSchemas } from './event-catalogue.ts'

// Event types defined by the host in addition to the catalogue. All code gets these types from the service.

// --- Types ---

/** An event type defined by the host. See {@link defineEvent}. */
export interface EventDefinition<Type extends string = string, Output = object, Input = Output> {
  /** A noun and a past participle, like `booking.created`. Docs and pages group types by the noun. */
  readonly type: Type
  /** What the event means to subscribers. The first sentence is the title in the OpenAPI document. */
  readonly description: string
  /** The schema for `data`, which must be an object. Can be any synchronous Standard Schema, like valibot's. */
  readonly data: StandardSchema<Input, Output>
  /** An example of the complete `data`. Used in the OpenAPI document, test events and `trigger`. */
  readonly example: unknown
  /** The `data` field that has the record's id. Used to look up the event in the logs. None by default. */
  readonly subject?: string | undefined
}

/** A service with the host's event types. */
export interface EventOwner {
  /** Event types defined by the host. */
  readonly events: readonly EventDefinition[]
}

/** The schemas' input or output types, by event type. Empty if the service doesn't have typed events. */
type OwnData<Owner extends EventOwner, Side extends 'input' | 'output'> = {
  readonly [Event in Owner['events'][number] as string extends Event['type']
    ? never
    : Event['type']]: NonNullable<Event['data']['~standard']['types']>[Side]
}

/** The host's event types and their `data` as received, for example `{ 'booking.created': … }`. */
export type EventsOf<Owner extends EventOwner> = OwnData<Owner, 'output'>

/** The `data` that `publish` accepts, by event type, for the catalogue and the host's own types. */
export type PublishedData<Owner extends EventOwner> = OwnData<Owner, 'input'> & {
  readonly [Type in EventType]: EventData<Type>
}

/** The name of an event type, from either the catalogue or the host. */
export type EventTypeOf<Owner extends EventOwner> = keyof PublishedData<Owner> & string

// --- Definition ---

/** Matches a noun and a verb in lowercase. Safe in SQL, headers, HTML ids and JSON Schema names. */
const TYPE = /^(?=.{3,64}$)[a-z][a-z0-9]*(?:_[a-z0-9]+)*\.[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/

/**
 * Defines an event type for `defineService({ events: […] })`.
 *
 * @throws `TypeError` if the name isn't in the catalogue's format, or the example doesn't match the schema
 *
 * @example
 * ```ts
 * export const bookingCreated = defineEvent({
 *   type: 'booking.created',
 *   description: 'A booking was made. Carries its times.',
 *   data: v.object({ bookingId: v.string(), startsAt: v.string() }),
 *   example: { bookingId: 'bkg_1', startsAt: '2026-03-14T09:00:00Z' },
 *   subject: 'bookingId',
 * })
 * ```
 */
export function defineEvent<const Type extends string, Output extends object, Input = Output>(
  event: EventDefinition<Type, Output, Input> & {
    readonly example: NoInfer<Input>
    readonly subject?: (keyof NoInfer<Output> & string) | undefined
  },
): EventDefinition<Type, Output, Input> {
  const { type, description, data, example, subject } = Object(event) as typeof event
  rejectUnknown(event, { type, description, data, example, subject })
  const refuse = (reason: string): never => {
    const name = typeof type === 'string' ? JSON.stringify(type).slice(0, 100) : printValue(type)
    throw new TypeError(`Cannot define event ${name} because ${reason}`)
  }
  if (!isMatching(type, TYPE)) refuse("its type must be a noun and a verb like 'booking.created'")
  if (Object.hasOwn(eventSchemas, type)) refuse('the catalogue has this type')
  if (typeof description !== 'string' || description.trim() === '') refuse("'description' must be a string")
  if (!isStandardSchema(data)) refuse("'data' must be a schema: of valibot, or another Standard Schema")
  const checked = checkData(data, example)
  if ('faults' in checked) {
    const reasons = checked.faults.map(
      ({ path, requirement }) => `${['example', ...path].join('.')} ${requirement}`,
    )
    return refuse(reasons.join('; '))
  }
  if (
    subject !== undefined &&
    !(isMatching(subject, FIELD) && typeof Reflect.get(checked.value, subject) === 'string')
  )
    refuse("'subject' must name a field of the example with an id")
  return Object.freeze({ ...event })
}

/** Matches the name of an id field. SQL doesn't require quotes for these names. */
const FIELD = /^[A-Za-z_]\w{0,62}$/

/** Maximum number of event types that a host can define. With more, lists of types would be hard to read. */
const EVENTS_MAX = 200

/**
 * Reads a service's `events` option.
 *
 * @throws `TypeError` if a definition is invalid, two have the same name, or there are more than 200
 */
export function readEvents<Events extends EventOwner['events']>(given: Events | undefined): Events {
  if (given === undefined) return [] as EventOwner['events'] as Events
  if (!Array.isArray(given) || given.length > EVENTS_MAX || !given.every(isPlain))
    throw new TypeError(`Option 'events' must be a list of at most ${EVENTS_MAX} events`)
  const events = given.map((event: EventDefinition) => defineEvent(event as never))
  const seen = new Map(EVENT_TYPES.map((type) => [schemaName(type), type as string]))
  for (const { type } of events) {
    const name = schemaName(type)
    if (seen.has(name)) {
      const both = `'${type}' and '${seen.get(name)}' are both ${name} in the document`
      throw new TypeError(`Option 'events' must have different types: ${both}`)
    }
    seen.set(name, type)
  }
  return Object.freeze(events) as EventOwner['events'] as Events
}

/** Returns an event type's name in generated code, for example `BookingCreated` for `booking.created`. */
export function schemaName(type: string): string {
  const words = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1))
  return words.join('')
}

// --- Use ---

/** Returns the names of all event types: the catalogue's in order, then the host's. */
export function eventTypes({ events }: EventOwner): readonly string[] {
  return [...EVENT_TYPES, ...events.map(({ type }) => type)]
}

/** Returns the host's event type with this name. */
export function findEvent({ events }: EventOwner, type: string): EventDefinition | undefined {
  return events.find((event) => event.type === type)
}

/** Validates the `data` of a host event. Every store must be able to keep it, and every subscriber to parse it. */
export function checkData(schema: StandardSchema<unknown, object>, given: unknown): Checked<object> {
  const checked = checkValue(schema, given)
  if ('faults' in checked) return checked
  const text = canonicalJson(checked.value)
  if (text?.startsWith('{')) return checked
  const requirement = text === null ? 'must be JSON without NUL and lone surrogates' : 'must be an object'
  return { faults: [{ path: [], requirement, rule: requirement }] }
}
