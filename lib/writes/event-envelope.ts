import * as v from 'valibot'
import type { Template } from './placeholders.ts'
import { toTimestamp, type WriteContext } from './write-context.ts'

/** The body of the POST to a subscriber (specification, section 6). */
export interface EventEnvelope<Type extends string = string, Data = unknown> {
  /** `evt_<ulid>`; the same on every attempt, so that subscribers can deduplicate on the id. */
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
}

/** The schemas of `data` that a resource declares, by event type. */
export type EventSchemas = Readonly<Record<string, v.GenericSchema>>

/** The texts about an event type in the OpenAPI document. */
export type EventText = {
  /** The event in a few words: "A client was created". */
  readonly summary: string
  /** The meaning of the event for a subscriber. */
  readonly description: string
}

/**
 * Declares an event type: the texts of the OpenAPI document, and the schema of the data.
 *
 * @param entries the fields of `data`
 */
export function eventType<Entries extends v.ObjectEntries>(
  summary: string,
  description: string,
  entries: Entries,
): EventSchema<Entries> {
  return v.pipe(v.object(entries), v.metadata({ summary, description }))
}

/** The schema of an event's data, with the event's texts as metadata. */
export type EventSchema<Entries extends v.ObjectEntries> = v.SchemaWithPipe<
  readonly [
    v.ObjectSchema<Entries, undefined>,
    v.MetadataAction<v.InferOutput<v.ObjectSchema<Entries, undefined>>, EventText>,
  ]
>

/** Reads the texts of an event that {@link eventType} declared. */
export function eventText(schema: v.GenericSchema): EventText {
  const { summary = '', description = '' } = v.getMetadata(schema) as Partial<EventText>
  return { summary, description }
}

/**
 * Builds an event from data of the library, which the compiler checks against the schema. For data of a host, which is checked
 * at run time, see `checkEvent`.
 */
export function buildEvent<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  _owner: Schemas,
  type: Type,
  data: v.InferOutput<Schemas[Type]>,
  context: WriteContext,
): EventRecord {
  return toEventRecord(context.ids('evt'), type, data, context.now, context.traceparent)
}

/** Builds an event with placeholders. The store renders the placeholders. */
export function buildEventTemplate<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  _owner: Schemas,
  type: Type,
  data: Template<v.InferOutput<Schemas[Type]>>,
  context: WriteContext,
): EventRecord {
  return toEventRecord(context.ids('evt'), type, data, context.now, context.traceparent)
}

/** Puts checked data into an event envelope. The trace stands beside the envelope, and subscribers never see the trace. */
export function toEventRecord(
  id: string,
  type: string,
  data: unknown,
  now: number,
  traceparent?: string,
): EventRecord {
  const envelope: EventEnvelope = { id, type, createdAt: toTimestamp(now), data }
  const event = { id, type, body: JSON.stringify(envelope) }
  return traceparent === undefined ? event : { ...event, traceparent }
}
