import type { Reference, Schema } from '../reference.ts'

/** A field of a JSON value, named by a path: `business.name`, `data[].id`. */
export interface SchemaField {
  readonly path: string
  readonly type: string
  readonly description: string
  readonly isRequired: boolean
}

/** Deeper than every real schema: the bound ends the walk through a schema that contains itself. */
const DEPTH_MAX = 6

/** Lists the fields of a schema, including the fields inside objects and lists. */
export function fieldsOf(schema: Schema, reference: Reference, path = '', depth = 0): readonly SchemaField[] {
  const { properties, items, required = [] } = withoutNull(schema, reference)
  if (depth > DEPTH_MAX) return []
  if (items) return fieldsOf(items, reference, `${path}[]`, depth + 1)
  return Object.entries(properties ?? {}).flatMap(([name, property]) => {
    const own = path === '' ? name : `${path}.${name}`
    const field = {
      path: own,
      type: typeOf(property, reference),
      description: property.description ?? withoutNull(property, reference).description ?? '',
      isRequired: required.includes(name),
    }
    return [field, ...fieldsOf(property, reference, own, depth + 1)]
  })
}

/** Returns the schema; for a choice between null and a schema, the latter. */
function withoutNull(schema: Schema, reference: Reference): Schema {
  const resolved = reference.resolve(schema)
  const value = resolved.anyOf?.map((each) => reference.resolve(each)).find(({ type }) => type !== 'null')
  return value ?? resolved
}

function typeOf(schema: Schema, reference: Reference): string {
  const resolved = reference.resolve(schema)
  if (resolved.anyOf) return resolved.anyOf.map((each) => typeOf(each, reference)).join(' or ')
  const { type, format, const: only, enum: all } = resolved
  if (only !== undefined) return JSON.stringify(only)
  if (all) return all.map((value) => JSON.stringify(value)).join(' or ')
  const name = typeof type === 'string' ? type : (type?.join(' or ') ?? 'any')
  return `${name}${format === undefined ? '' : `, ${format}`}${boundsOf(resolved)}`
}

function boundsOf({ minLength, maxLength }: Schema): string {
  if (maxLength === undefined) return ''
  return minLength === undefined
    ? `, at most ${maxLength} characters`
    : `, ${minLength} to ${maxLength} characters`
}
