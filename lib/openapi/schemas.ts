import {
  type ConversionConfig,
  type JsonSchema,
  type OverrideActionContext,
  type OverrideSchemaContext,
  toJsonSchema,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { hasThreeDecimals, isEmail, isMoment, isStorable, isUtc } from '../base/fields.ts'
import type { StandardSchema } from '../base/standard-schema.ts'
import { exampleOf } from '../resources/example-data.ts'

/** A JSON value. */
export type JsonValue = NonNullable<JsonSchema['examples']>[number]

/** The document's schemas. */
export interface Schemas {
  /** `components.schemas` by name, each with a complete example. */
  readonly components: Readonly<Record<string, JsonSchema>>
  /** Returns a named schema's example. */
  exampleOf(name: string): JsonValue
}

/** A schema for `components.schemas`. */
export interface NamedSchema {
  readonly schema: v.GenericSchema
  /** A complete example. By default, we build one from the examples in the schema's parts. */
  readonly example?: unknown
  /** JSON Schema for a schema defined by the host, in which case `schema` is only a placeholder. */
  readonly json?: JsonSchema | undefined
}

/**
 * Converts valibot schemas to JSON Schema (draft 2020-12). Throws for rules that JSON Schema can't express, because the
 * document must not be less strict than the API. Each conversion visits all schemas, so do them in one go.
 *
 * @param named the schemas for `components.schemas`
 * @throws `Error` for an unsupported action
 */
export function createSchemas(named: Readonly<Record<string, NamedSchema>>): Schemas {
  const entries = Object.entries(named)
  const components = toJsonSchemaDefs(
    Object.fromEntries(entries.map(([name, { schema }]) => [name, schema])),
    CONVERSION,
  )
  const examples = new Map(
    // These schemas only describe JSON, so the examples are JSON.
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

/** Returns a reference to a named schema. */
export function schemaRef(name: string): { $ref: string } {
  return { $ref: REF_PREFIX + name }
}

/** Sets `maxLength` to the maximum body size on strings that don't have a limit, since a longer string wouldn't fit. */
export function boundByBody(schema: JsonSchema, maxBodyBytes: number): void {
  for (const property of Object.values(schema.properties ?? {})) {
    if (typeof property === 'object' && property.type === 'string') property.maxLength ??= maxBodyBytes
  }
}

// --- Host schemas ---

/**
 * Converts the input or output of one of the host's schemas to JSON Schema.
 *
 * @param subject used in error messages, for example `event 'booking.created'`
 * @throws `TypeError` if we don't know the JSON Schema
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

/** Rewrites references in a JSON Schema to work from its location in the document. */
export function relocate({ $schema: _, ...schema }: JsonSchema, name: string): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === '$ref' && typeof value === 'string' && value.startsWith('#')
      ? schemaRef(name).$ref + value.slice(1)
      : value,
  )
}

// --- Rules that the converter does not support ---

const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  errorMode: 'throw',
  overrideAction: convertAction,
  overrideSchema: convertSchema,
  overrideRef: ({ referenceId }) => REF_PREFIX + referenceId,
}

/** Config for the host's schemas, which are still unnamed and keep their descriptions. */
const OWN_CONVERSION: ConversionConfig = {
  ...CONVERSION,
  overrideRef: ({ referenceId }) => `#/$defs/${referenceId}`,
  overrideAction: (context) =>
    context.valibotAction.type === 'metadata' ? undefined : convertAction(context),
}

// Patterns must work in ECMAScript, RE2, PCRE, Python, Java, Ruby and .NET, with or without a Unicode mode, so we only
// use ASCII, escapes up to \x7f, and no \s, \w or \d. A few matching strings are still rejected by the API.

const STORABLE_PATTERN = '^[^\\x00]*$'

/** Matches email addresses, but allows non-ASCII whitespace and control characters. */
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
      // Our transforms run after validation and don't restrict the input.
      return jsonSchema
    default:
      return undefined
  }
}

/** Removes the event's description from the data schema, since it's already on the operation. */
function withoutEventText(jsonSchema: JsonSchema & { summary?: unknown }): JsonSchema {
  const { summary: _, description: __, ...schema } = jsonSchema
  return schema
}

/** Converts the checks we know. A check is just a function, so we have to throw if we don't know it. */
function convertCheck(jsonSchema: JsonSchema, requirement: unknown): JsonSchema | undefined {
  // We don't use `multipleOf: 0.001` because floating-point division makes validators reject values like 84.1.
  if (requirement === hasThreeDecimals) return jsonSchema
  // 35 characters allow for nine decimal places in the seconds and an offset.
  if (requirement === isMoment) return { ...jsonSchema, format: 'date-time', maxLength: 35 }
  if (requirement === isUtc) return { ...jsonSchema, format: 'date-time', maxLength: 24 }
  if (requirement === isStorable) return { ...jsonSchema, pattern: STORABLE_PATTERN }
  // A format only describes. The pattern says what the API accepts, since validators of formats disagree.
  return requirement === isEmail ? { ...jsonSchema, format: 'email', pattern: EMAIL_PATTERN } : undefined
}

function convertSchema({ valibotSchema, jsonSchema }: OverrideSchemaContext): JsonSchema | undefined {
  if (valibotSchema.type === 'nullable') return widenByNull(jsonSchema)
  // Without a format, Go and Rust generators use a 32-bit float, which only has seven digits.
  if (jsonSchema.type === 'number') return { ...jsonSchema, format: 'double' }
  // Without a type, generators use `unknown` or an object.
  return typeof jsonSchema.const === 'string'
    ? { type: 'string', maxLength: jsonSchema.const.length, ...jsonSchema }
    : undefined
}

/** Converts `anyOf: [X, null]` to a list of types, which is easier to read. Doesn't work for a `$ref`. */
function widenByNull(jsonSchema: JsonSchema): JsonSchema | undefined {
  const [wrapped] = jsonSchema.anyOf ?? []
  if (typeof wrapped !== 'object' || typeof wrapped.type !== 'string') return undefined
  return { ...wrapped, type: [wrapped.type, 'null'] }
}
