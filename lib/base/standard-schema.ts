import { isPlain } from './options.ts'

/**
 * A schema from valibot, Zod, ArkType or any other Standard Schema library (https://standardschema.dev).
 *
 * @typeParam Input the schema's input type
 * @typeParam Output the schema's output type. Only differs from `Input` if the schema transforms values or has defaults
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    /** The library's name, for example `valibot`. */
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
    /** The schema's own JSON Schema, if the library supports Standard JSON Schema. */
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: 'draft-2020-12' }) => object
      readonly output: (options: { readonly target: 'draft-2020-12' }) => object
    }
  }
}

/** The result of validating a value. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

/** A problem found during validation. */
export interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: unknown })[] | undefined
}

/**
 * Attaches a JSON Schema (draft 2020-12) for the OpenAPI document to a schema that can't generate its own.
 *
 * @example
 * ```ts
 * const data = withJsonSchema(v.pipe(v.object({ room: v.string() }), v.check(({ room }) => room !== 'Closed')), {
 *   type: 'object',
 *   properties: { room: { type: 'string' } },
 * })
 * ```
 */
export function withJsonSchema<Input, Output>(
  schema: StandardSchema<Input, Output>,
  jsonSchema: object,
): StandardSchema<Input, Output> {
  if (!isStandardSchema(schema) || !isPlain(jsonSchema))
    throw new TypeError(
      'Cannot add a JSON Schema because the arguments must be a Standard Schema and an object',
    )
  const json = () => jsonSchema
  return { '~standard': { ...schema['~standard'], jsonSchema: { input: json, output: json } } }
}

/** Returns `true` if a value implements Standard Schema. In some libraries, schemas are functions. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  const { '~standard': standard } = Object(value)
  return standard?.version === 1 && typeof standard.validate === 'function'
}

/** The schema's output if the value is valid, otherwise the faults. */
export type Checked<Output> = { readonly value: Output } | { readonly faults: readonly Fault[] }

/** An invalid field and the rule it violates. */
export interface Fault {
  /** The path to the field. Empty if the fault is about the whole value. */
  readonly path: readonly string[]
  /** For example `must be string`. We never use another library's message here, because it may include the value. */
  readonly requirement: string
  /** The schema's own message, or {@link requirement} if valibot generated the message. */
  readonly rule: string
}

/**
 * Validates a value.
 *
 * @throws `TypeError` if the schema is asynchronous
 */
export function checkValue<Output>(schema: StandardSchema<unknown, Output>, value: unknown): Checked<Output> {
  const result = schema['~standard'].validate(value)
  if (result instanceof Promise) throw new TypeError('a schema must validate synchronously')
  return result.issues ? { faults: result.issues.map(toFault) } : { value: result.value }
}

/** Converts a validation issue to a fault. */
export function toFault({
  message,
  path = [],
  expected,
}: StandardIssue & { readonly expected?: unknown }): Fault {
  const type = typeof expected === 'string' ? expected : 'as its schema says'
  const [, what] = MADE.exec(message) ?? []
  const made = what === undefined ? undefined : madeRule(what, typeof expected === 'string' ? expected : '')
  const requirement = made ?? `must be ${type}`
  return {
    path: path.map((step) => String(typeof step === 'object' ? step.key : step)),
    requirement,
    rule: made ?? message,
  }
}

/** Matches valibot's generated messages, which include the value: `Invalid length: Expected >=3 but received 1`. */
const MADE = /^Invalid ([^:]+): (?:Expected .* but r|R)eceived /s

/** Rewrites a valibot message without the value. `what` is the word after "Invalid". `expected` can be empty. */
function madeRule(what: string, expected: string): string {
  if (what === 'key') return expected === 'never' ? 'is unknown' : 'must be given'
  if (expected === '') return `must be a valid ${what}`
  return /^(?:length|code points|graphemes)$/.test(what)
    ? `must have length ${expected}`
    : `must be ${expected}`
}

// --- Fast path ---

/**
 * Creates a fast check that tells whether a schema accepts a value and returns it unchanged. For a list, this is four
 * times as fast as valibot, which makes a copy. Only supports valibot lists, plain objects and strings.
 *
 * @returns a function that returns `false` if {@link checkValue} has to decide
 */
export function quickCheck(schema: StandardSchema): (value: unknown) => boolean {
  const { type, pipe, item, entries }: Known =
    schema['~standard'].vendor === 'valibot' ? (schema as object) : {}
  if (pipe === undefined && type === 'string') return (value) => typeof value === 'string'
  if (pipe === undefined && type === 'array' && item) {
    const fits = quickCheck(item)
    return (value) => {
      if (!Array.isArray(value)) return false
      for (const each of value) if (!fits(each)) return false
      return true
    }
  }
  if (pipe === undefined && type === 'object' && entries) {
    const checks = new Map(Object.entries(entries).map(([name, entry]) => [name, quickCheck(entry)]))
    return (value) => {
      // toJSON() could change how the value is serialized, so we need a copy.
      if (typeof value !== 'object' || value === null || 'toJSON' in value) return false
      const names = Object.keys(value)
      return (
        names.length === checks.size && names.every((name) => checks.get(name)?.(Reflect.get(value, name)))
      )
    }
  }
  return (value) => {
    const result = schema['~standard'].validate(value)
    return 'value' in result && !result.issues && Object.is(result.value, value)
  }
}

interface Known {
  readonly type?: string
  readonly pipe?: unknown
  readonly item?: StandardSchema
  readonly entries?: Readonly<Record<string, StandardSchema>>
}
