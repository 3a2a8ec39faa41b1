import { canonicalJson } from '../base/json-text.ts'
import { rejectUnknown } from '../base/options.ts'
import { type Checked, checkValue, isStandardSchema, type StandardSchema } from '../base/standard-schema.ts'
import { EVENT_TYPES, type EventData, type EventType, eventSchemas } from './event-catalogue.ts'

// The event types of a host, beside the catalogue. They live in the service, and everything that knows event types takes them from there.

// --- Types ---

/** An event type of the host's own: see {@link defineEvent}. */
export interface EventDefinition<Type extends string = string, Output = object, Input = Output> {
  /** A noun and what happened to it: `booking.created`. The document and the page group types by the noun. */
  readonly type: Type
  /** The meaning of the event for a subscriber. The first sentence is the title in the document. */
  readonly description: string
  /** The schema of `data`, an object: valibot, or any Standard Schema that validates synchronously. */
  readonly data: StandardSchema<Input, Output>
  /** A whole `data`, for the document, test events and `trigger`. */
  readonly example: unknown
  /** The field of `data` with the id of the record that the event is about, to find the event in the logs. Default: none. */
  readonly subject?: string | undefined
}

/** A service that has its own event types. */
export interface EventOwner {
  /** The host's own event types. */
  readonly events: readonly EventDefinition[]
}

/** Inputs or outputs of the own types' schemas, by type. A service without typed events has no own types. */
type OwnData<Owner extends EventOwner, Side extends 'input' | 'output'> = {
  readonly [Event in Owner['events'][number] as string extends Event['type']
    ? never
    : Event['type']]: NonNullable<Event['data']['~standard']['types']>[Side]
}

/** The host's own event types with their `data`, as subscribers receive it: `EventsOf<typeof service>` is `{ 'booking.created': … }`. */
export type EventsOf<Owner extends EventOwner> = OwnData<Owner, 'output'>

/** The `data` that `publish` takes, by event type: the catalogue's and the host's own. */
export type PublishedData<Owner extends EventOwner> = OwnData<Owner, 'input'> & {
  readonly [Type in EventType]: EventData<Type>
}

/** The names of event types: the catalogue's and the host's own. */
export type EventTypeOf<Owner extends EventOwner> = keyof PublishedData<Owner> & string

// --- Definition ---

/** A noun and a verb of lower-case words, as in the catalogue. Safe in SQL, headers, HTML ids and JSON Schema names. */
const TYPE = /^(?=.{3,64}$)[a-z][a-z0-9]*(?:_[a-z0-9]+)*\.[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/

/**
 * Defines an event type of the host's own, for `defineService({ events: […] })`.
 *
 * @throws `TypeError` for a name that is not like those of the catalogue, and for an example that its schema rejects
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
    throw new TypeError(`Cannot define event ${JSON.stringify(type)?.slice(0, 100)} because ${reason}`)
  }
  if (typeof type !== 'string' || !TYPE.test(type))
    refuse("its type must be a noun and a verb like 'booking.created'")
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
    !(FIELD.test(subject) && typeof Reflect.get(checked.value, subject) === 'string')
  )
    refuse("'subject' must name a field of the example with an id")
  return Object.freeze({ ...event })
}

/** The name of a field with an id, which needs no quoting in SQL. */
const FIELD = /^[A-Za-z_]\w{0,62}$/

/** Maximum number of the host's own event types: lists of types stay readable. */
const EVENTS_MAX = 200

/**
 * Checks the option `events` of a service.
 *
 * @throws `TypeError` for a definition that cannot be used, for two of the same name, and for more than 200
 */
export function readEvents<Events extends EventOwner['events']>(given: Events | undefined): Events {
  if (given === undefined) return [] as EventOwner['events'] as Events
  if (!Array.isArray(given) || given.length > EVENTS_MAX)
    throw new TypeError(
      `Cannot use option 'events' because it must be a list of at most ${EVENTS_MAX} events`,
    )
  const events = given.map((event: EventDefinition) => defineEvent(event as never))
  const seen = new Map(EVENT_TYPES.map((type) => [schemaName(type), type as string]))
  for (const { type } of events) {
    const name = schemaName(type)
    if (seen.has(name)) {
      const both = `'${type}' and '${seen.get(name)}' are both ${name} in the document`
      throw new TypeError(`Cannot use option 'events' because ${both}`)
    }
    seen.set(name, type)
  }
  return Object.freeze(events) as EventOwner['events'] as Events
}

/** The name of an event type in the OpenAPI document and in generated code: `BookingCreated` for `booking.created`. */
export function schemaName(type: string): string {
  const words = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1))
  return words.join('')
}

// --- Use ---

/** Lists the names of all event types: the catalogue in its order, then the host's own. */
export function eventTypes({ events }: EventOwner): readonly string[] {
  return [...EVENT_TYPES, ...events.map(({ type }) => type)]
}

/** Finds an event type of the host's own. */
export function findEvent({ events }: EventOwner, type: string): EventDefinition | undefined {
  return events.find((event) => event.type === type)
}

/** Checks the `data` of the host's own event: by the schema, and that every store can keep the JSON and every subscriber read it. */
export function checkData(schema: StandardSchema<unknown, object>, given: unknown): Checked<object> {
  const checked = checkValue(schema, given)
  if ('faults' in checked) return checked
  const text = canonicalJson(checked.value)
  if (text?.startsWith('{')) return checked
  const requirement = text === null ? 'must be JSON without NUL and lone surrogates' : 'must be an object'
  return { faults: [{ path: [], requirement, rule: requirement }] }
}
