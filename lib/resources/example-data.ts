import * as v from 'valibot'
import type { KeyScope } from '../access/scopes.ts'
import { EXAMPLE_TIME, exampleId } from '../base/fields.ts'
import { checkValue } from '../base/standard-schema.ts'
import type { WriteContext } from '../writes/write-context.ts'
import { type EventType, eventSchemas } from './event-catalogue.ts'
import { type EventOwner, findEvent } from './own-events.ts'
import { createRoutes, type RecordSlices } from './records.ts'

/** The ids and the time that all examples share. */
export const EXAMPLE_CONTEXT: WriteContext = { ids: exampleId, now: Date.parse(EXAMPLE_TIME) }

/**
 * Builds example `data` for an event type. If a create operation in the API publishes the event, we run the operation
 * with its example input. Otherwise we assemble the data from the fields' examples.
 */
export function exampleData(type: EventType): unknown {
  return created().get(type) ?? agreeing(exampleOf(eventSchemas[type]))
}

/** Builds example `data` as subscribers receive it, for any of the service's event types. */
export function exampleOfType(owner: EventOwner, type: string): unknown {
  const own = findEvent(owner, type)
  const checked = own && checkValue(own.data, own.example)
  return checked && 'value' in checked ? checked.value : exampleData(type as EventType)
}

/** The create operations. We only call `prepare`, so they don't need a store. */
const CREATIONS = createRoutes({} as RecordSlices).filter((route) => route.method === 'POST')

/** Runs all create operations and returns the events' data by type. */
function created(): ReadonlyMap<string, unknown> {
  const events = CREATIONS.flatMap(
    ({ input, prepare }) => prepare(v.parse(input, exampleOf(input)), EXAMPLE_CONTEXT).events,
  )
  return new Map(events.map(({ type, body }) => [type, JSON.parse(body).data]))
}

/** Builds a request body with only the required fields. Returns `undefined` if the scope can't create anything. */
export function exampleBody(scope: KeyScope): unknown {
  const input = CREATIONS.find((route) => route.scope === scope)?.input
  if (input === undefined || !isObject(input)) return undefined
  const required = Object.entries(input.entries).filter(([, entry]) => entry.type !== 'exact_optional')
  return Object.fromEntries(required.map(([name, entry]) => [name, exampleOf(entry)]))
}

/** Copies the data's own fields into its nested record, so that, for example, both have the status after the change. */
function agreeing(data: unknown): unknown {
  if (!isRecord(data)) return data
  const entries = Object.entries(data).map(([name, value]) => [
    name,
    isRecord(value) ? withValuesOf(data, value) : value,
  ])
  return Object.fromEntries(entries)
}

function withValuesOf(data: ExampleFields, record: ExampleFields): ExampleFields {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, data[name] ?? value]))
}

type ExampleFields = Readonly<Record<string, unknown>>

function isRecord(value: unknown): value is ExampleFields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Returns a schema's first example, or builds one from all its parts, including optional and nullable fields.
 *
 * @throws `TypeError` if a schema has neither an example nor parts
 */
export function exampleOf(schema: v.GenericSchema): unknown {
  const [example]: readonly unknown[] = v.getExamples(schema)
  if (example !== undefined) return example
  if (isWrapper(schema)) return exampleOf(schema.wrapped)
  if (isLiteral(schema)) return schema.literal
  if (isArray(schema)) return [exampleOf(schema.item)]
  if (!isObject(schema))
    throw new TypeError(`Cannot make an example because a schema of type '${schema.type}' has none`)
  return Object.fromEntries(Object.entries(schema.entries).map(([name, entry]) => [name, exampleOf(entry)]))
}

function isWrapper(schema: v.GenericSchema): schema is v.NullableSchema<v.GenericSchema, undefined> {
  return schema.type === 'nullable' || schema.type === 'exact_optional'
}

function isLiteral(schema: v.GenericSchema): schema is v.LiteralSchema<v.Literal, undefined> {
  return schema.type === 'literal'
}

function isArray(schema: v.GenericSchema): schema is v.ArraySchema<v.GenericSchema, undefined> {
  return schema.type === 'array'
}

function isObject(
  schema: v.GenericSchema,
): schema is v.ObjectSchema<Record<string, v.GenericSchema>, undefined> {
  return schema.type === 'object'
}
