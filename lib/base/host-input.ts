import * as v from 'valibot'
import { BusinessApiError, INVALID_INPUT, NOT_FOUND, refused } from './errors.ts'
import * as field from './fields.ts'
import { type IdKind, isIdOf } from './ids.ts'
import { findUnknown, isPlain, PLAIN, printName } from './options.ts'
import { toFault } from './standard-schema.ts'
import { suggest } from './suggest.ts'

/** The host's id for an organization. Can be any string that a database can store. */
export const OrganizationIdSchema: v.GenericSchema<string> = field.text(1, 64)

/** An id to look up. An id that no store could contain becomes an empty string, which doesn't match any record. */
export const IdSchema: v.GenericSchema<string> = v.pipe(
  v.string('must be a string'),
  v.transform((id) => (field.isStorable(id) ? id : '')),
)

/** Creates a schema for a new record's id, chosen by the caller. The format must match `createIds()`. */
export function newIdOf(kind: IdKind): v.GenericSchema<string> {
  const requirement = `must be ${kind}_ and a ULID, 26 digits and capital letters`
  return v.pipe(
    v.string(requirement),
    v.check((id) => isIdOf(kind, id), requirement),
  )
}

/** Creates a schema that only allows the given words. */
export function oneOf<const Word extends string>(words: readonly Word[]): v.GenericSchema<Word> {
  return v.picklist(words, `must be one of ${words.join(', ')}`)
}

/** Creates a schema for a non-empty list that only allows the given words. */
export function someOf<const Word extends string>(words: readonly Word[]): v.GenericSchema<Word[]> {
  const requirement = `must be one or more of ${words.join(', ')}`
  return v.pipe(v.array(v.picklist(words, requirement), requirement), v.minLength(1, requirement))
}

/** Creates a schema for a non-empty list of unique words. @param requirement the error message, "must be …" */
export function setOf<Word extends string>(
  isKnown: (word: Word) => boolean,
  requirement: string,
): v.GenericSchema<readonly Word[]> {
  const word = v.custom<Word>((given) => typeof given === 'string' && isKnown(given as Word), requirement)
  return v.pipe(
    v.array(word, requirement),
    v.minLength(1, requirement),
    v.check((words) => new Set(words).size === words.length, requirement),
  )
}

/** Creates a schema for an integer from `min` to `max` (inclusive). */
export function whole(min: number, max: number): v.GenericSchema<number, number> {
  const requirement = `must be a whole number from ${min} to ${max}`
  return v.pipe(
    v.number(requirement),
    v.check((value) => Number.isInteger(value) && value >= min && value <= max, requirement),
  )
}

/** Creates a schema for a time passed by the host. The output is a timestamp. @param requirement "must be …" */
export function moment(requirement: string): v.GenericSchema<Date | string, string> {
  const date = v.pipe(
    v.date(),
    v.check(field.isKept, requirement),
    v.transform((time) => time.toISOString()),
  )
  return v.union([date, field.moment(requirement)], requirement)
}

/** Schema for a time, either a `Date` or an ISO 8601 string with a time zone. */
export const MomentSchema: v.GenericSchema<Date | string, string> = moment(
  'must be a Date, or ISO 8601 with a time zone, from 1970 to 9999',
)

/**
 * Validates input from the host's code. The error lists every invalid field and the rule it violates, but never a
 * value, since that could be an API key passed in the wrong place.
 *
 * We reject unknown names, because a misspelled filter would match everything. We also reject anything but plain
 * objects. Three kinds of input aren't read here and ignore unknown names: HTTP request bodies, the data passed to
 * `publish`, and import fields that are only used in reads and exports.
 *
 * @param action the start of the error message, for example "Cannot create an API key"
 * @throws `BusinessApiError` with code `invalid_input`
 */
export function read<Entries extends v.ObjectEntries>(
  schema: v.ObjectSchema<Entries, undefined>,
  input: unknown,
  action: string,
  { named = {}, judgesUndefined = true }: ReadRules = {},
): Fields<Entries> {
  const own = isPlain(input) ? input : {}
  const given = judgesUndefined ? { ...own, ...named } : withoutUndefined({ ...own, ...named })
  const known = Object.keys(schema.entries).filter((name) => !Object.hasOwn(named, name))
  const unknown = findUnknown(judgesUndefined ? own : withoutUndefined(own), known)
  const result = v.safeParse(schema, given)
  if (result.success && unknown === undefined && own === input) return result.output
  const [reasons, fields] = [new Set<string>(), new Set<string>()]
  if (own !== input) reasons.add(`the input must be ${PLAIN}`)
  if (unknown !== undefined) {
    reasons.add(`${printName(unknown, known)} is unknown${suggest(unknown, known)}`)
    fields.add(printName(unknown, known))
  }
  for (const { path, rule } of (result.issues ?? []).map(toFault)) {
    const name = path[0] ?? ''
    reasons.add(`${name} ${rule}`)
    fields.add(name)
  }
  throw new BusinessApiError(INVALID_INPUT, `${action} because ${[...reasons].join('; ')}`, {
    fields: [...fields],
  })
}

interface ReadRules extends CallRules {
  /** Values that are passed as separate arguments, like `keyId`. The input can't contain their names. */
  readonly named?: object
}

/** Returns a copy of the input without `undefined` fields. */
export function withoutUndefined<Input extends object>(input: Input): Defined<Input> {
  return Object.fromEntries(
    Object.entries(input).filter(([, value]) => value !== undefined),
  ) as Defined<Input>
}

/** An input with only optional fields, which can also be `undefined`. */
export type Optional<Input> = { readonly [Field in keyof Input]?: Input[Field] | undefined }

/** Makes fields that can be `undefined` optional. */
export type Defined<Input> = {
  [Name in keyof Input as undefined extends Input[Name] ? Name : never]?: Exclude<Input[Name], undefined>
} & { [Name in keyof Input as undefined extends Input[Name] ? never : Name]: Input[Name] }

/**
 * Returns the record found by a store. The error doesn't include the id, which could be a misplaced API key.
 *
 * @param action the start of the error message, for example "Cannot revoke an API key"
 * @throws `BusinessApiError` with code `not_found` if `record` is `null`
 */
export function found<Found>(record: Found | null, action: string): Found {
  if (record !== null) return record
  throw refused(action, NOT_FOUND, 'the organization has no such record')
}

// --- Calls ---

/** A call from the host's code, with validated input. */
export interface Call<Input> {
  /** The start of every error message, for example `Cannot revoke an API key`. */
  readonly action: string
  readonly organizationId: string
  readonly input: Input
}

/**
 * Validates a call's input, including separate arguments like `{ keyId }`.
 *
 * @throws `BusinessApiError` with code `invalid_input`
 */
export type ReadCall<Input> = (organizationId: string, given?: unknown, named?: object) => Call<Input>

/** A call's validated fields. */
export type Fields<Entries extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<Entries, undefined>>

/** How a call treats `undefined` fields. */
export interface CallRules {
  /**
   * If `true`, the schema decides, and `exactOptional` rejects `undefined`. Use this for calls that would affect more
   * records or grant something forever if the field was missing. By default, `undefined` means absent.
   */
  readonly judgesUndefined?: boolean
}

/**
 * Defines a call by its input.
 *
 * @param action the start of every error message, for example `Cannot list API keys`
 * @param entries schemas for all fields except the organization's id. Nested fields aren't supported
 */
export function defineCall<Entries extends v.ObjectEntries>(
  action: string,
  entries: Entries,
  { judgesUndefined = false }: CallRules = {},
): ReadCall<Fields<Entries>> {
  // Use a single schema so the error lists every invalid field.
  const schema = v.object({ organizationId: OrganizationIdSchema, ...entries })
  return (organizationId, given = {}, named = {}) => {
    const rules = { named: { ...named, organizationId: organizationId ?? null }, judgesUndefined }
    const { organizationId: owner, ...checked } = read(schema, given, action, rules) as Checked
    return { action, organizationId: owner, input: checked as Fields<Entries> }
  }
}

type Checked = Readonly<Record<string, unknown>> & { readonly organizationId: string }
