/**
 * The host's schema, from valibot, Zod, ArkType or any other library that implements Standard Schema (https://standardschema.dev).
 *
 * @typeParam Input the schema's input
 * @typeParam Output the schema's output: the same, unless the schema transforms or has defaults
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    /** The name of the library: `valibot`. */
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
    /** Standard JSON Schema: the schema's own JSON Schema, where the library has it. */
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: 'draft-2020-12' }) => object
      readonly output: (options: { readonly target: 'draft-2020-12' }) => object
    }
  }
}

/** The result of a validation. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

/** A fault that a validation has found. */
export interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: unknown })[] | undefined
}

/**
 * Gives a schema the JSON Schema (draft 2020-12) that its library does not make, for the OpenAPI document.
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
  const json = () => jsonSchema
  return { '~standard': { ...schema['~standard'], jsonSchema: { input: json, output: json } } }
}

/** Returns whether a value is a Standard Schema. Some libraries make a schema a function. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  const { '~standard': standard } = Object(value)
  return standard?.version === 1 && typeof standard.validate === 'function'
}

/** A value that a schema accepts, as the schema gives it, or the faults of the value. */
export type Checked<Output> = { readonly value: Output } | { readonly faults: readonly Fault[] }

/** What is wrong with a value: the field's path, and the rule that it violates. */
export interface Fault {
  /** The names on the way to the field; empty for the whole value. */
  readonly path: readonly string[]
  /** `must be string`, without a message of a host or another library, which may repeat the value. */
  readonly requirement: string
  /** The rule in the words of the schema; {@link requirement} for a message that the library has made. */
  readonly rule: string
}

/**
 * Validates a value.
 *
 * @throws `TypeError` for a schema that validates asynchronously
 */
export function checkValue<Output>(schema: StandardSchema<unknown, Output>, value: unknown): Checked<Output> {
  const result = schema['~standard'].validate(value)
  if (result instanceof Promise) throw new TypeError('a schema must validate synchronously')
  return result.issues ? { faults: result.issues.map(toFault) } : { value: result.value }
}

/** Reads a fault of a validation. */
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

/** A message that valibot has made, which repeats the value: `Invalid length: Expected >=3 but received 1`. */
const MADE = /^Invalid ([^:]+): (?:Expected .* but r|R)eceived /s

/** @param what the word of the message. @param expected empty for none */
function madeRule(what: string, expected: string): string {
  if (what === 'key') return expected === 'never' ? 'is unknown' : 'must be given'
  if (expected === '') return `must be a valid ${what}`
  return /^(?:length|code points|graphemes)$/.test(what)
    ? `must have length ${expected}`
    : `must be ${expected}`
}

// --- Fast path ---

/**
 * Makes a quick check whether a schema accepts a value and gives it back as it is: four times as fast as valibot for a list, which it copies.
 * Only lists, plain objects and words of valibot are looked into.
 *
 * @returns a check; false leaves the verdict to {@link checkValue}
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
      // A result that JSON writes in another way is copied.
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
