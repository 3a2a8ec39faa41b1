import * as v from 'valibot'
import { type EventType, eventSchemas } from './events.ts'

/** The `data` of an event as its type's schema gives it by example. */
export function exampleData(type: EventType): unknown {
  return exampleOf(eventSchemas[type])
}

/** The first example of each part. One without an example of its own is made of its parts. */
function exampleOf(schema: v.GenericSchema): unknown {
  const [example]: readonly unknown[] = v.getExamples(schema)
  if (example !== undefined) return example
  if (isNullable(schema)) return exampleOf(schema.wrapped)
  if (!isObject(schema))
    throw new TypeError(`Cannot make an example as a schema of type '${schema.type}' has none`)
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
