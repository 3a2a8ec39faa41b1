import * as v from 'valibot'
import { BusinessApiError, INVALID_INPUT, NOT_FOUND } from './errors.ts'
import * as field from './fields.ts'
import { type IdKind, isIdOf } from './ids.ts'

/** The host's name for an organization: any text that a database can keep. */
export const OrganizationIdSchema: v.GenericSchema<string> = field.text(1, 64)

/** An id to look for. One that no store could hold is as unknown as the empty one. */
export const IdSchema: v.GenericSchema<string> = v.pipe(
  v.string('must be a string'),
  v.transform((id) => (field.isStorable(id) ? id : '')),
)

/** The id that a caller has chosen for a new record, as `createIds()` makes them. */
export function newIdOf(kind: IdKind): v.GenericSchema<string> {
  const requirement = `must be ${kind}_ and a ULID, 26 digits and capital letters`
  return v.pipe(
    v.string(requirement),
    v.check((id) => isIdOf(kind, id), requirement),
  )
}

/** With a time zone, as the same text without one means another moment on each machine. */
const ISO_MOMENT = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/

/** A moment as a host gives it: a `Date`, or ISO 8601 with a time zone. */
export function moment(requirement: string): v.GenericSchema<Date | string, Date> {
  const text = v.pipe(
    v.string(),
    v.check(isIsoMoment, requirement),
    v.transform((iso) => new Date(iso)),
  )
  return v.union([v.date(), text], requirement)
}

/** A whole number from `min` to `max`. */
export function whole(min: number, max: number): v.GenericSchema<number, number> {
  const requirement = `must be a whole number from ${min} to ${max}`
  return v.pipe(
    v.number(requirement),
    v.check((value) => Number.isInteger(value) && value >= min && value <= max, requirement),
  )
}

const momentRequirement = 'must be a Date, or ISO 8601 with a time zone, from 1970 to 9999'

/** A moment as a host gives it, as a timestamp. */
export const MomentSchema: v.GenericSchema<Date | string, string> = v.pipe(
  moment(momentRequirement),
  // Elsewhere a year has another number of digits, or is none that every database knows.
  v.check((time) => time.getTime() >= 0 && time.getTime() < Date.UTC(10_000), momentRequirement),
  v.transform((time) => time.toISOString()),
)

function isIsoMoment(text: string): boolean {
  const match = ISO_MOMENT.exec(text)
  if (!match || Number.isNaN(Date.parse(text))) return false
  const [, year, month, day] = match
  // A parser may take 30 February for 2 March.
  return new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day)
}

/**
 * Checks an input of the host's code. The text of a refusal names the fields and what they must be and repeats no
 * value: one of them may be a key that was passed in the wrong place.
 *
 * @param action what is being done: "Cannot create an API key"
 * @returns a copy with the known fields only
 * @throws `BusinessApiError` with code `invalid_input`
 */
export function read<Schema extends v.GenericSchema>(
  schema: Schema,
  input: unknown,
  action: string,
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, input)
  if (result.success) return result.output
  const reasons = new Set(result.issues.map((issue) => `${issue.path?.[0].key} ${requirementOf(issue)}`))
  throw new BusinessApiError(INVALID_INPUT, `${action} as ${[...reasons].join('; ')}`)
}

/** The library's own schemas say what they require; valibot's own messages, for what is left, name what was received. */
function requirementOf({ message, expected }: v.BaseIssue<unknown>): string {
  if (message.startsWith('Invalid key')) return 'must be given'
  return message.startsWith('Invalid ') ? `must be ${expected}` : message
}

/** What a caller has given: a field left `undefined` is one left out. */
export function withoutUndefined(input: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))
}

/**
 * What a store has found. The id is not repeated: it may be a key that was passed in the wrong place.
 *
 * @param action what is being done: "Cannot revoke an API key"
 * @throws `BusinessApiError` with code `not_found` for `null`
 */
export function found<Found>(record: Found | null, action: string): Found {
  if (record !== null) return record
  throw new BusinessApiError(NOT_FOUND, `${action} as the organization has none of that id`)
}
