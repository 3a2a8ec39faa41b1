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
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
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

/** What is wrong with a value: the field's path, and the rule that it violates. Repeats no value. */
export interface Fault {
  /** The names on the way to the field; empty for the whole value. */
  readonly path: readonly string[]
  /** `must be string`: made of the expected type, because the messages of many libraries repeat the value. */
  readonly requirement: string
  /** The rule in the words of the schema. A message that the library has made is replaced by {@link requirement}. */
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

function toFault({ message, path = [], expected }: StandardIssue & { readonly expected?: unknown }): Fault {
  const requirement = `must be ${typeof expected === 'string' ? expected : 'as its schema says'}`
  const isMade = message.startsWith('Invalid ') && typeof expected === 'string'
  return {
    path: path.map((step) => String(typeof step === 'object' ? step.key : step)),
    requirement,
    rule: message.startsWith('Invalid key') ? 'must be given' : isMade ? requirement : message,
  }
}
