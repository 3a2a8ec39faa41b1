import * as v from 'valibot'
import { type EventType, eventSchemas } from './event-catalogue.ts'

/** Builds the example `data` of an event type from the examples of the schema. */
export function exampleData(type: EventType): unknown {
  return exampleOf(eventSchemas[type])
}

/** Takes the first example of a schema; without an example, joins the examples of the schema's fields. */
function exampleOf(schema: v.GenericSchema): unknown {
  const [example]: readonly unknown[] = v.getExamples(schema)
  if (example !== undefined) return example
  if (isNullable(schema)) return exampleOf(schema.wrapped)
  if (!isObject(schema))
    throw new TypeError(`Cannot make an example because a schema of type '${schema.type}' has none`)
  return Object.fromEntries(Object.entries(schema.entries).map(([name, entry]) => [name, exampleOf(entry)]))
}

function isNullable(schema: v.GenericSchema): schema is v.NullableSchema<v.GenericSchema, undefined> {
  return schema.type === 'nullable'
}

function isObject(
  schema: v.GenericSchema,
): schema is v.ObjectSchema<Record<string, v.GenericSchema>, undefined> {
  return schema.type === 'object'
}
