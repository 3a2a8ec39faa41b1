import {
  type ConversionConfig,
  type JsonSchema,
  type OverrideActionContext,
  type OverrideSchemaContext,
  toJsonSchema,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { hasThreeDecimals, isEmail, isMoment, isStorable } from '../base/fields.ts'
import type { StandardSchema } from '../base/standard-schema.ts'
import { exampleOf } from '../resources/example-data.ts'

/** A value of JSON. */
export type JsonValue = NonNullable<JsonSchema['examples']>[number]

/** The schemas of the document. */
export interface Schemas {
  /** The contents of `components.schemas`, by name; each with a whole example. */
  readonly components: Readonly<Record<string, JsonSchema>>
  /** Returns the example of a named schema. */
  exampleOf(name: string): JsonValue
}

/** A schema for `components.schemas`. */
export interface NamedSchema {
  readonly schema: v.GenericSchema
  /** A whole value. Default: made of the examples of the schema's parts. */
  readonly example?: unknown
  /** The JSON Schema of a host's own schema, for which `schema` only stands. */
  readonly json?: JsonSchema | undefined
}

/**
 * Turns the valibot schemas into JSON Schema (draft 2020-12). Throws for a rule that JSON Schema cannot express, because the
 * document must not promise less than the API demands. A single conversion does all schemas, because every conversion traverses
 * through every named schema.
 *
 * @param named schemas for `components.schemas`
 * @throws `Error` for an action without a counterpart
 */
export function createSchemas(named: Readonly<Record<string, NamedSchema>>): Schemas {
  const entries = Object.entries(named)
  const components = toJsonSchemaDefs(
    Object.fromEntries(entries.map(([name, { schema }]) => [name, schema])),
    CONVERSION,
  )
  const examples = new Map(
    // The values of schemas that say JSON are JSON.
    entries.map(([name, { schema, example }]) => [name, (example ?? exampleOf(schema)) as JsonValue]),
  )
  for (const [name, schema] of Object.entries(components)) {
    const { json } = named[name] ?? {}
    components[name] = { ...(json ? relocate(json, name) : schema), examples: [found(examples, name)] }
  }
  return { components, exampleOf: (name) => found(examples, name) }
}

function found(examples: ReadonlyMap<string, JsonValue>, name: string): JsonValue {
  const example = examples.get(name)
  if (example === undefined)
    throw new TypeError(`Cannot give an example because no schema is named '${name}'`)
  return example
}

const REF_PREFIX = '#/components/schemas/'

/** Refers to a named schema. */
export function schemaRef(name: string): { $ref: string } {
  return { $ref: REF_PREFIX + name }
}

/**
 * Bounds every string without a bound by the largest body: a longer string makes the body too large. Every string of the
 * document then has a `maxLength`.
 */
export function boundByBody(schema: JsonSchema, maxBodyBytes: number): void {
  for (const property of Object.values(schema.properties ?? {})) {
    if (typeof property === 'object' && property.type === 'string') property.maxLength ??= maxBodyBytes
  }
}

// --- Schemas of the host ---

/**
 * Describes what a schema of the host's own takes or gives in JSON Schema.
 *
 * @param subject for messages: `event 'booking.created'`
 * @throws `TypeError` for a schema whose JSON Schema is not known
 */
export function describeSchema(
  schema: StandardSchema,
  side: 'input' | 'output',
  subject: string,
): JsonSchema {
  const { vendor, jsonSchema } = schema['~standard']
  try {
    if (jsonSchema) return jsonSchema[side]({ target: 'draft-2020-12' })
    if (vendor !== 'valibot') throw new TypeError(`'${vendor}' gives none`)
    return toJsonSchema(schema as v.GenericSchema & StandardSchema, { ...OWN_CONVERSION, typeMode: side })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const message = `Cannot describe ${subject} in JSON Schema: give it one by withJsonSchema(…). ${reason}`
    throw new TypeError(message, { cause: error })
  }
}

/** Leads the references inside of a whole JSON Schema to its place in the document. */
export function relocate({ $schema: _, ...schema }: JsonSchema, name: string): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === '$ref' && typeof value === 'string' && value.startsWith('#')
      ? schemaRef(name).$ref + value.slice(1)
      : value,
  )
}

// --- Rules that the converter does not know ---

const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  errorMode: 'throw',
  overrideAction: convertAction,
  overrideSchema: convertSchema,
  overrideRef: ({ referenceId }) => REF_PREFIX + referenceId,
}

/** Of a host's schema: its texts stay, and it has no name yet. */
const OWN_CONVERSION: ConversionConfig = {
  ...CONVERSION,
  overrideRef: ({ referenceId }) => `#/$defs/${referenceId}`,
  overrideAction: (context) =>
    context.valibotAction.type === 'metadata' ? undefined : convertAction(context),
}

// Patterns of the document are read by ECMAScript, RE2, PCRE, Python, Java, Ruby and .NET alike, with a Unicode mode and without: only ASCII,
// no \s, \w or \d, and escapes up to \x7f. A few strings pass them that the API rejects.

/** No NUL. */
const STORABLE_PATTERN = '^[^\\x00]*$'

/** An email address, without the white space and control characters beyond ASCII. */
const EMAIL_PATTERN = '^[^\\x00-\\x20\\x7f@]{1,64}@[^\\x00-\\x20\\x7f@.]+(?:\\.[^\\x00-\\x20\\x7f@.]+)+$'

function convertAction({ valibotAction: action, jsonSchema }: OverrideActionContext): JsonSchema | undefined {
  const requirement: unknown = 'requirement' in action ? action.requirement : undefined
  switch (action.type) {
    case 'min_code_points':
      return requirement === 0 ? jsonSchema : { ...jsonSchema, minLength: Number(requirement) }
    case 'max_code_points':
      return { ...jsonSchema, maxLength: Number(requirement) }
    case 'integer':
      return { ...jsonSchema, format: 'int32' }
    case 'metadata':
      return withoutEventText(jsonSchema)
    case 'check':
      return convertCheck(jsonSchema, requirement)
    case 'transform':
      // What a building block makes of a checked value asks nothing of the value.
      return jsonSchema
    default:
      return undefined
  }
}

/** Removes the description of an event from the schema of the data: the event's operation has the same text. */
function withoutEventText(jsonSchema: JsonSchema & { summary?: unknown }): JsonSchema {
  const { summary: _, description: __, ...schema } = jsonSchema
  return schema
}

/** Converts the known checks; a check is a function, so an unknown check has no counterpart and throws. */
function convertCheck(jsonSchema: JsonSchema, requirement: unknown): JsonSchema | undefined {
  // Not `multipleOf: 0.001`, because by it validators reject 84.1, whose quotient is no whole number in floating point.
  if (requirement === hasThreeDecimals) return jsonSchema
  // 35: with nine decimals of a second and an offset.
  if (requirement === isMoment) return { ...jsonSchema, format: 'date-time', maxLength: 35 }
  if (requirement === isStorable) return { ...jsonSchema, pattern: STORABLE_PATTERN }
  // Not `format: email`, because validators disagree on the format, and some refuse addresses that the API accepts.
  return requirement === isEmail ? { ...jsonSchema, pattern: EMAIL_PATTERN } : undefined
}

function convertSchema({ valibotSchema, jsonSchema }: OverrideSchemaContext): JsonSchema | undefined {
  if (valibotSchema.type === 'nullable') return widenByNull(jsonSchema)
  // Without a format, generators of Go and Rust make a float of 32 bits, which keeps seven digits.
  if (jsonSchema.type === 'number') return { ...jsonSchema, format: 'double' }
  // Without a type, generators make `unknown` or an object.
  return typeof jsonSchema.const === 'string'
    ? { type: 'string', maxLength: jsonSchema.const.length, ...jsonSchema }
    : undefined
}

/** Writes `anyOf: [X, null]` as a list of types, clearer for generators and readers; a `$ref` has no type to widen. */
function widenByNull(jsonSchema: JsonSchema): JsonSchema | undefined {
  const [wrapped] = jsonSchema.anyOf ?? []
  if (typeof wrapped !== 'object' || typeof wrapped.type !== 'string') return undefined
  return { ...wrapped, type: [wrapped.type, 'null'] }
}
