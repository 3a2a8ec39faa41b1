import * as v from 'valibot'
import type { Template } from './placeholders.ts'
import { toTimestamp, type WriteContext } from './write-context.ts'

/** The body we POST to subscribers (see section 6 of the spec). */
export interface EventEnvelope<Type extends string = string, Data = unknown> {
  /** `evt_<ulid>`. The same on every attempt, so subscribers can use it to dedupe. */
  readonly id: string
  readonly type: Type
  /** ISO 8601, UTC, with milliseconds. */
  readonly createdAt: string
  readonly data: Data
}

/** An event, as stored. */
export interface EventRecord {
  readonly id: string
  readonly type: string
  /** The envelope as a JSON string. It's only built once, and every attempt signs and sends these exact bytes. */
  readonly body: string
  /**
   * The W3C `traceparent` that was active when the event was written, so that delivery attempts can be linked to the
   * trace. Absent if there was no trace. Never returned with events, since tracing is the operator's concern.
   */
  readonly traceparent?: string
  /** The id of the record that the event is about, if any. Used to look up events and deliveries, never returned. */
  readonly subjectId?: string
}

/** Schemas for a resource's event data, by event type. */
export type EventSchemas = Readonly<
  Record<string, v.GenericSchema & { readonly subject: string; readonly entries: v.ObjectEntries }>
>

/** How the OpenAPI document describes an event type. */
export type EventText = {
  /** A short description, for example "A client was created". */
  readonly summary: string
  /** The event's meaning for subscribers. */
  readonly description: string
}

/**
 * Defines an event type, including the description for the OpenAPI document and the data schema.
 *
 * @param entries the fields in `data`
 * @param subject the field with the record's id, see `EventRecord.subjectId`. Defaults to the first field
 */
export function eventType<Entries extends v.ObjectEntries>(
  summary: string,
  description: string,
  entries: Entries,
  subject: keyof Entries & string = Object.keys(entries)[0] ?? '',
): EventSchema<Entries> {
  return Object.assign(v.pipe(v.object(entries), v.metadata({ summary, description })), { subject })
}

/** An event's data schema. The metadata describes the event. */
export type EventSchema<Entries extends v.ObjectEntries> = { readonly subject: string } & v.SchemaWithPipe<
  readonly [
    v.ObjectSchema<Entries, undefined>,
    v.MetadataAction<v.InferOutput<v.ObjectSchema<Entries, undefined>>, EventText>,
  ]
>

/** Returns the description of an event defined with {@link eventType}. */
export function eventText(schema: v.GenericSchema): EventText {
  const { summary = '', description = '' } = v.getMetadata(schema) as Partial<EventText>
  return { summary, description }
}

/** Builds an event from the library's own typed data. `checkEvent` validates data from the host. */
export function buildEvent<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  owner: Schemas,
  type: Type,
  data: v.InferOutput<Schemas[Type]>,
  context: WriteContext,
): EventRecord {
  return toEventRecord(context.ids('evt'), type, data, context.now, context.traceparent, owner[type]?.subject)
}

/**
 * Builds an event with placeholders for values that the store fills in.
 *
 * @param known see {@link templateData}
 */
export function buildEventTemplate<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  owner: Schemas,
  type: Type,
  known: Partial<Template<v.InferOutput<Schemas[Type]>>>,
  { ids, now, traceparent }: WriteContext,
): EventRecord {
  const schema = owner[type]
  return toEventRecord(ids('evt'), type, templateData(schema, known), now, traceparent, schema?.subject)
}

/**
 * Builds event data with placeholders.
 *
 * @param known fields with a value, or with a different field's placeholder. All the rest get a placeholder with the
 *   field's own name, which stands for a field of the changed record or a value that the method adds
 */
export function templateData(schema: EventSchemas[string] | undefined, known: object): object {
  const names = Object.keys(schema?.entries ?? {})
  return { ...Object.fromEntries(names.map((name) => [name, `\0${name}`])), ...known }
}

/** Matches an id of 1 to 64 characters that any store can keep. Doesn't match placeholders, which start with NUL. */
const SUBJECT_ID = /^[^\0\p{Cs}]{1,64}$/u

/**
 * Wraps validated data in an event envelope, without the record's id or the trace. Subscribers never receive the trace.
 *
 * @param subject the data field that has the record's id, if any
 */
export function toEventRecord(
  id: string,
  type: string,
  data: unknown,
  now: number,
  traceparent?: string,
  subject?: string,
): EventRecord {
  const envelope: EventEnvelope = { id, type, createdAt: toTimestamp(now), data }
  const subjectId = subject && Reflect.get(Object(data), subject)
  return {
    id,
    type,
    body: JSON.stringify(envelope),
    ...(traceparent !== undefined && { traceparent }),
    ...(typeof subjectId === 'string' && SUBJECT_ID.test(subjectId) && { subjectId }),
  }
}
