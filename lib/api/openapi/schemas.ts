import {
  type ConversionConfig,
  type JsonSchema,
  type OverrideActionContext,
  type OverrideSchemaContext,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema'
import type * as v from 'valibot'
import { isEmail, isStorable } from '../../fields.ts'

/** A value of JSON. */
export type JsonValue = NonNullable<JsonSchema['examples']>[number]

/** The schemas of the document. */
export interface Schemas {
  /** What `components.schemas` holds, by name; each with a whole example. */
  readonly components: Readonly<Record<string, JsonSchema>>
  /** The others, by the key they came with; wherever they hold one of the named, a `$ref`. */
  readonly unnamed: Readonly<Record<string, JsonSchema>>
  /** A value that fits a schema, made of the first example of each of its parts. */
  exampleOf(schema: JsonSchema): JsonValue
}

/**
 * Turns the valibot schemas into JSON Schema (draft 2020-12). Throws for a rule that JSON Schema cannot say: a document
 * that promises less than the API demands is worse than none. All in one conversion: the converter goes through every
 * named schema each time that it is called.
 *
 * @param named the schemas that get a name of their own
 * @param unnamed those that stand where they are used, under any key that is not such a name
 * @throws `Error` for an action without a counterpart
 */
export function createSchemas(
  named: Readonly<Record<string, v.GenericSchema>>,
  unnamed: Readonly<Record<string, v.GenericSchema>> = {},
): Schemas {
  const converted = toJsonSchemaDefs({ ...unnamed, ...named }, CONVERSION)
  const components = pick(converted, named)
  for (const schema of Object.values(components)) schema.examples = [exampleOf(schema, components)]
  return {
    components,
    unnamed: pick(converted, unnamed),
    exampleOf: (schema) => exampleOf(schema, components),
  }
}

function pick(
  converted: Readonly<Record<string, JsonSchema>>,
  keys: Readonly<Record<string, unknown>>,
): Record<string, JsonSchema> {
  return Object.fromEntries(Object.keys(keys).map((key) => [key, converted[key] ?? {}]))
}

const REF_PREFIX = '#/components/schemas/'

/** A reference to a named schema. */
export function schemaRef(name: string): { $ref: string } {
  return { $ref: REF_PREFIX + name }
}

/**
 * Gives every string without a bound of its own the bound of the body that carries it: it is refused as too large before
 * it is refused as too long, and every string of the document has a `maxLength`.
 */
export function boundByBody(schema: JsonSchema, maxBodyBytes: number): void {
  for (const property of Object.values(schema.properties ?? {})) {
    if (typeof property === 'object' && property.type === 'string') property.maxLength ??= maxBodyBytes
  }
}

// --- What the converter cannot know ---

const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  errorMode: 'throw',
  overrideAction: convertAction,
  overrideSchema: convertSchema,
  overrideRef: ({ referenceId }) => REF_PREFIX + referenceId,
}

/** No NUL. `\x00` is the one spelling that ECMAScript, RE2, PCRE, Python and Java all read. */
const STORABLE_PATTERN = '^[^\\x00]*$'

function convertAction({ valibotAction: action, jsonSchema }: OverrideActionContext): JsonSchema | undefined {
  const requirement: unknown = 'requirement' in action ? action.requirement : undefined
  switch (action.type) {
    case 'min_code_points':
      return requirement === 0 ? jsonSchema : { ...jsonSchema, minLength: Number(requirement) }
    case 'max_code_points':
      return { ...jsonSchema, maxLength: Number(requirement) }
    case 'integer':
      return { ...jsonSchema, format: 'int32' }
    case 'check':
      return convertCheck(jsonSchema, requirement)
    default:
      return undefined
  }
}

/** A check is a function: only those that are known by name have a counterpart; any other one throws. */
function convertCheck(jsonSchema: JsonSchema, requirement: unknown): JsonSchema | undefined {
  if (requirement === isStorable) return { ...jsonSchema, pattern: STORABLE_PATTERN }
  return requirement === isEmail ? { ...jsonSchema, format: 'email' } : undefined
}

function convertSchema({ valibotSchema, jsonSchema }: OverrideSchemaContext): JsonSchema | undefined {
  if (valibotSchema.type === 'nullable') return widenByNull(jsonSchema)
  // Without a type, generators make `unknown` or an object of it.
  return typeof jsonSchema.const === 'string'
    ? { type: 'string', maxLength: jsonSchema.const.length, ...jsonSchema }
    : undefined
}

/** `anyOf: [X, null]` as a list of types, which generators and readers understand better; a `$ref` has no type to widen. */
function widenByNull(jsonSchema: JsonSchema): JsonSchema | undefined {
  const [wrapped] = jsonSchema.anyOf ?? []
  if (typeof wrapped !== 'object' || typeof wrapped.type !== 'string') return undefined
  return { ...wrapped, type: [wrapped.type, 'null'] }
}

// --- Examples ---

function exampleOf(schema: JsonSchema, components: Readonly<Record<string, JsonSchema>>): JsonValue {
  if (schema.$ref) return exampleOf(components[schema.$ref.slice(REF_PREFIX.length)] ?? {}, components)
  if (schema.const !== undefined) return schema.const
  const [example] = schema.examples ?? []
  if (example !== undefined) return example
  const properties = Object.entries(schema.properties ?? {})
  return Object.fromEntries(
    properties.map(([name, property]) => [
      name,
      typeof property === 'object' ? exampleOf(property, components) : null,
    ]),
  )
}
