import type * as v from 'valibot'
import type { WithBlanks } from './blanks.ts'
import { type Making, toTimestamp } from './making.ts'

/** What a subscriber receives as the body of the POST (specification, section 6). */
export interface EventEnvelope<Type extends string = string, Data = unknown> {
  /** `evt_<ulid>`; the same on every attempt. Subscribers deduplicate on it. */
  readonly id: string
  readonly type: Type
  /** ISO 8601 in UTC with milliseconds. */
  readonly createdAt: string
  readonly data: Data
}

/** An event as a store keeps it. */
export interface RecordedEvent {
  readonly id: string
  readonly type: string
  readonly createdAt: string
  /** The envelope as JSON text, built once: these bytes are signed and posted on every attempt. */
  readonly body: string
}

/** The schemas of `data` by event type, as a resource declares them. */
export type EventSchemas = Readonly<Record<string, v.GenericSchema>>

/**
 * Builds an event whose data the library made itself, which the compiler holds against the owner's schema; what a host
 * publishes is checked at run time first.
 */
export function recordEvent<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  _owner: Schemas,
  type: Type,
  data: v.InferOutput<Schemas[Type]>,
  making: Making,
): RecordedEvent {
  return record(making.ids('evt'), type, data, making.now)
}

/** The same with blanks, for a store to fill in. */
export function recordWithBlanks<Schemas extends EventSchemas, Type extends keyof Schemas & string>(
  _owner: Schemas,
  type: Type,
  data: WithBlanks<v.InferOutput<Schemas[Type]>>,
  making: Making,
): RecordedEvent {
  return record(making.ids('evt'), type, data, making.now)
}

/** Puts data that has been checked into its envelope. */
export function record(id: string, type: string, data: unknown, now: number): RecordedEvent {
  const envelope: EventEnvelope = { id, type, createdAt: toTimestamp(now), data }
  return { id, type, createdAt: envelope.createdAt, body: JSON.stringify(envelope) }
}
