import * as v from 'valibot'
import { BusinessApiError, INVALID_INPUT, NOT_FOUND, refused } from './errors.ts'
import * as field from './fields.ts'
import { type IdKind, isIdOf } from './ids.ts'
import { findUnknown, isPlain, PLAIN, printName } from './options.ts'
import { toFault } from './standard-schema.ts'
import { suggest } from './suggest.ts'

/** The host's id for an organization: any string that a database can store. */
export const OrganizationIdSchema: v.GenericSchema<string> = field.text(1, 64)

/** An id to search for. An id that no store can hold becomes the empty id, which no record has. */
export const IdSchema: v.GenericSchema<string> = v.pipe(
  v.string('must be a string'),
  v.transform((id) => (field.isStorable(id) ? id : '')),
)

/** Makes the schema of an id that a caller has chosen for a new record, in the form of `createIds()`. */
export function newIdOf(kind: IdKind): v.GenericSchema<string> {
  const requirement = `must be ${kind}_ and a ULID, 26 digits and capital letters`
  return v.pipe(
    v.string(requirement),
    v.check((id) => isIdOf(kind, id), requirement),
  )
}

/** Returns a schema for one of several words. */
export function oneOf<const Word extends string>(words: readonly Word[]): v.GenericSchema<Word> {
  return v.picklist(words, `must be one of ${words.join(', ')}`)
}

/** Returns a schema for a list of one or more of several words. */
export function someOf<const Word extends string>(words: readonly Word[]): v.GenericSchema<Word[]> {
  const requirement = `must be one or more of ${words.join(', ')}`
  return v.pipe(v.array(v.picklist(words, requirement), requirement), v.minLength(1, requirement))
}

/** Returns a schema for a list of one or more words, each once. @param requirement the error message: "must be …" */
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

/** Makes the schema of a whole number from `min` to `max`, both included. */
export function whole(min: number, max: number): v.GenericSchema<number, number> {
  const requirement = `must be a whole number from ${min} to ${max}`
  return v.pipe(
    v.number(requirement),
    v.check((value) => Number.isInteger(value) && value >= min && value <= max, requirement),
  )
}

/** Makes the schema of a moment as a host gives it; the output is a timestamp. @param requirement the error message: "must be …" */
export function moment(requirement: string): v.GenericSchema<Date | string, string> {
  const date = v.pipe(
    v.date(),
    v.check(field.isKept, requirement),
    v.transform((time) => time.toISOString()),
  )
  return v.union([date, field.moment(requirement)], requirement)
}

/** The schema of a moment: a `Date`, or ISO 8601 with a time zone. */
export const MomentSchema: v.GenericSchema<Date | string, string> = moment(
  'must be a Date, or ISO 8601 with a time zone, from 1970 to 9999',
)

/**
 * Checks an input of the host's code. An error names each wrong field and the rule that the field breaks, and repeats
 * no value: a value may be a key that was passed in the wrong place.
 *
 * A name that does not exist is an error, because a misspelled filter would select everything, and so is everything but a plain object.
 * Three kinds of input are read elsewhere, and ignore unknown names: HTTP request bodies, the data of `publish`, and an import's fields
 * that only reads and exports show.
 *
 * @param action the start of the error's message: "Cannot create an API key"
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
  /** The values that the call itself names, such as `keyId`: unknown names in the input. */
  readonly named?: object
}

/** Returns a copy of an input without the fields that are `undefined`. */
export function withoutUndefined<Input extends object>(input: Input): Defined<Input> {
  return Object.fromEntries(
    Object.entries(input).filter(([, value]) => value !== undefined),
  ) as Defined<Input>
}

/** An input whose fields may all be absent or `undefined`. */
export type Optional<Input> = { readonly [Field in keyof Input]?: Input[Field] | undefined }

/** An object with the fields that may be `undefined` absent instead. */
export type Defined<Input> = {
  [Name in keyof Input as undefined extends Input[Name] ? Name : never]?: Exclude<Input[Name], undefined>
} & { [Name in keyof Input as undefined extends Input[Name] ? never : Name]: Input[Name] }

/**
 * Returns the record that a store has found. The error does not repeat the id: the id may be a key that was passed in
 * the wrong place.
 *
 * @param action what is being done: "Cannot revoke an API key"
 * @throws `BusinessApiError` with code `not_found` for `null`
 */
export function found<Found>(record: Found | null, action: string): Found {
  if (record !== null) return record
  throw refused(action, NOT_FOUND, 'the organization has no such record')
}

// --- Calls ---

/** A call of the host's code with its checked input. */
export interface Call<Input> {
  /** The beginning of every error message: `Cannot revoke an API key`. */
  readonly action: string
  readonly organizationId: string
  readonly input: Input
}

/**
 * Reads the input of a call: the host's object, and what the call names itself, `{ keyId }`.
 *
 * @throws `BusinessApiError` with code `invalid_input`
 */
export type ReadCall<Input> = (organizationId: string, given?: unknown, named?: object) => Call<Input>

/** The checked fields of a call. */
export type Fields<Entries extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<Entries, undefined>>

/** How a call reads a field that is `undefined`. */
export interface CallRules {
  /**
   * Default: the field is absent. True: the schema decides, and `exactOptional` rejects it. For calls that without the field act on
   * more records, or grant something without end.
   */
  readonly judgesUndefined?: boolean
}

/**
 * Defines a call by its input.
 *
 * @param action the beginning of every error message: `Cannot list API keys`
 * @param entries the schemas of the fields beside the organization's id, without nested fields
 */
export function defineCall<Entries extends v.ObjectEntries>(
  action: string,
  entries: Entries,
  { judgesUndefined = false }: CallRules = {},
): ReadCall<Fields<Entries>> {
  // A single schema, so an error names every field that cannot be used.
  const schema = v.object({ organizationId: OrganizationIdSchema, ...entries })
  return (organizationId, given = {}, named = {}) => {
    const rules = { named: { ...named, organizationId: organizationId ?? null }, judgesUndefined }
    const { organizationId: owner, ...checked } = read(schema, given, action, rules) as Checked
    return { action, organizationId: owner, input: checked as Fields<Entries> }
  }
}

type Checked = Readonly<Record<string, unknown>> & { readonly organizationId: string }
