import * as v from 'valibot'
import type { Template } from './placeholders.ts'
import { toTimestamp, type WriteContext } from './write-context.ts'

/** The body of the POST to a subscriber (specification, section 6). */
export interface EventEnvelope<Type extends string = string, Data = unknown> {
  /** `evt_<ulid>`; the same on every attempt, so subscribers can deduplicate on the id. */
  readonly id: string
  readonly type: Type
  /** ISO 8601 in UTC with milliseconds. */
  readonly createdAt: string
  readonly data: Data
}

/** A stored event. */
export interface EventRecord {
  readonly id: string
  readonly type: string
  /** The envelope as JSON text, built once: these bytes are signed and posted on every attempt. */
  readonly body: string
  /**
   * The W3C `traceparent` of the trace in which the event was written, kept for the event's attempts; absent: none. Verbs that read
   * events leave the value out, because the trace is the operator's and not the organization's.
   */
  readonly traceparent?: string
  /** The id of the record that the event is about, by which events and deliveries are found; absent: none. Not read back either. */
  readonly subjectId?: string
}

/** The schemas of `data` that a resource declares, by event type. */
export type EventSchemas = Readonly<
  Record<string, v.GenericSchema & { readonly subject: string; readonly entries: v.ObjectEntries }>
>

/** An event type's descriptions in the OpenAPI document. */
export type EventText = {
  /** The event in a few words: "A client was created". */
  readonly summary: string
  /** The meaning of the event for a subscriber. */
  readonly description: string
}

/**
 * Declares an event type: its descriptions in the OpenAPI document, and its data's schema.
 *
 * @param entries the fields of `data`
 * @param subject the field with the id of the record that the event is about: see `EventRecord.subjectId`. Default: the first
 */
export function eventType<Entries extends v.ObjectEntries>(
  summary: string,
  description: string,
  entries: Entries,
  subject: keyof Entries & string = Object.keys(entries)[0] ?? '',
): EventSchema<Entries> {
  return Object.assign(v.pipe(v.object(entries), v.metadata({ summary, description })), { subject })
}

/** The schema of an event's data, with the event's descriptions as metadata. */
export type EventSchema<Entries extends v.ObjectEntries> = { readonly subject: string } & v.SchemaWithPipe<
  readonly [
    v.ObjectSchema<Entries, undefined>,
    v.MetadataAction<v.InferOutput<v.ObjectSchema<Entries, undefined>>, EventText>,
  ]
>

/** Reads the descriptions of an event that {@link eventType} declared. */
export function eventText(schema: v.GenericSchema): EventText {
  const { summary = '', description = '' } = v.getMetadata(schema) as Partial<EventText>
  return { summary, description }
}

/**
 * Builds an event from data of the library, which the compiler checks against the schema. For data of a host, which is checked
 * at run time, see `checkEvent`.
 */
export function buildEvent<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  owner: Schemas,
  type: Type,
  data: v.InferOutput<Schemas[Type]>,
  context: WriteContext,
): EventRecord {
  return toEventRecord(context.ids('evt'), type, data, context.now, context.traceparent, owner[type]?.subject)
}

/**
 * Builds an event with placeholders. The store renders the placeholders.
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
 * Builds the data of an event with placeholders.
 *
 * @param known the fields with a value, or with a placeholder of another name. Every other field has the value with its name: a field
 *   of the record after the change, or a value that the verb adds
 */
export function templateData(schema: EventSchemas[string] | undefined, known: object): object {
  const names = Object.keys(schema?.entries ?? {})
  return { ...Object.fromEntries(names.map((name) => [name, `\0${name}`])), ...known }
}

/** An id that any store can keep and find: 1 to 64 characters. A placeholder is not valid, because it begins with NUL. */
const SUBJECT_ID = /^[^\0\p{Cs}]{1,64}$/u

/**
 * Puts checked data into an event envelope. The trace and the record's id stand beside the envelope, and subscribers never see the trace.
 *
 * @param subject the field of the data with the id of the record that the event is about; absent: none
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
