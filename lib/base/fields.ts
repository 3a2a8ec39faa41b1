import * as v from 'valibot'

// The building blocks for all schemas. A schema is the single source of truth for validation, the TypeScript type and
// the OpenAPI document, so each block defines a rule, an error message and the JSON Schema keywords.

/** Maximum id length, for both API-generated and host-generated ids. A prefix and a ULID take 31 characters. */
const ID_MAX = 64
/** Maximum length of a word, like a status, stage or provider. */
const WORD_MAX = 64
/** Maximum length of a decimal string. `numeric(15,3)` has 12 digits before the decimal point and up to 4 after it. */
const DECIMAL_MAX = 20
/** The largest `numeric(15,3)` value. */
const AMOUNT_MAX = 999_999_999_999.999

const EMAIL_MAX = 254
const CONTROL = String.raw`\x00-\x1f\x7f-\x9f`
/**
 * Matches an email address with exactly one @, up to 64 characters before it, and a domain that has a dot and no empty
 * labels. Whitespace and control characters aren't allowed. The OpenAPI document uses a slightly looser ASCII pattern.
 */
const EMAIL_PATTERN: RegExp = new RegExp(
  String.raw`^[^\s@${CONTROL}]{1,64}@[^\s@.${CONTROL}]+(?:\.[^\s@.${CONTROL}]+)+$`,
  'u',
)

/** Returns `true` if we can store a string unchanged. PostgreSQL rejects NUL and silently replaces lone surrogates. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** Creates a schema for a string of `min` to `max` code points, like in JSON Schema (see section 8 of the spec). */
export function text(min: number, max: number) {
  const requirement =
    min > 0
      ? `must be a string of ${min} to ${max} characters`
      : `must be a string of at most ${max} characters`
  return v.pipe(
    v.string(requirement),
    v.minCodePoints(min, requirement),
    v.maxCodePoints(max, requirement),
    v.check(isStorable, 'must not contain NUL or a lone surrogate'),
  )
}

/** Creates an email address schema. Whitespace isn't allowed, and the address is stored as is. */
export function email() {
  const requirement = `must be an email address of at most ${EMAIL_MAX} characters`
  return v.pipe(
    v.string(requirement),
    v.maxCodePoints(EMAIL_MAX, requirement),
    v.check(isStorable, requirement),
    v.check(isEmail, requirement),
  )
}

/** Returns `true` if a string looks like an email address. Rejects invisible characters. */
export function isEmail(text: string): boolean {
  return EMAIL_PATTERN.test(text) && !/\p{Cf}/u.test(text)
}

/** Creates a schema for a number from `min` to `max` with up to three decimal places, like a `numeric(15,3)` column. */
export function decimal(
  min: number = -AMOUNT_MAX,
  max: number = AMOUNT_MAX,
): v.GenericSchema<number, number> {
  const requirement = `must be a number from ${min} to ${max} with at most three decimals`
  return v.pipe(
    v.number(requirement),
    v.minValue(min, requirement),
    v.maxValue(max, requirement),
    v.check(hasThreeDecimals, requirement),
    // Turns -0 into 0.
    v.transform((value) => value + 0),
  )
}

/** Returns `true` if a number has at most three decimal places. */
export function hasThreeDecimals(value: number): boolean {
  return Number(value.toFixed(3)) === value
}

/** We require a time zone, because without one the same string means a different time on each machine. */
const ISO_MOMENT = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i

/** Returns `true` if a string is an ISO 8601 timestamp with a time zone and an existing date. Allows `t` and `z`. */
export function isIsoMoment(text: string): boolean {
  const match = ISO_MOMENT.exec(text)
  if (!match || Number.isNaN(Date.parse(text.toUpperCase()))) return false
  const [, year, month, day] = match
  // Date.parse() may read February 30 as March 2.
  return new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day)
}

/** Returns `true` if a time is between 1970 and 9999, the range that every store supports. */
export function isKept(time: Date): boolean {
  return time.getTime() >= 0 && time.getTime() < Date.UTC(10_000)
}

/** Returns `true` if a string is a timestamp that every store supports. */
export function isMoment(text: string): boolean {
  return isIsoMoment(text) && isKept(new Date(text.toUpperCase()))
}

/** Creates a schema for a time that's passed as a string. The output is a UTC timestamp. */
export function moment(requirement: string = 'must be ISO 8601 with a time zone, from 1970 to 9999') {
  return v.pipe(
    v.string(requirement),
    v.check(isMoment, requirement),
    v.transform((text) => new Date(text.toUpperCase()).toISOString()),
  )
}

/** The timestamp we use in all examples. */
export const EXAMPLE_TIME = '2026-03-14T09:26:53.589Z'

/** Returns the example id for a kind of record. It's always the same, so ids match across related examples. */
export function exampleId(kind: string): string {
  return `${kind}_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC`
}

/**
 * Creates a schema for record ids.
 *
 * @param kind the prefix in the example id, for example `cli`
 */
export function id(kind: string, description: string) {
  return v.pipe(v.string(), v.maxLength(ID_MAX), v.description(description), v.examples([exampleId(kind)]))
}

/** Creates a schema for a word. The usual values are only listed as examples, since hosts can have others. */
export function word(description: string, ...usual: [string, ...string[]]) {
  return prose(WORD_MAX, description, ...usual)
}

/**
 * Creates a schema for any string in a response or event.
 *
 * @param max maximum length in Unicode code points
 */
export function prose(max: number, description: string, ...examples: [string, ...string[]]) {
  return v.pipe(
    v.string(),
    v.maxCodePoints(max),
    v.check(isStorable),
    v.description(description),
    v.examples(examples),
  )
}

const UTC = /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,3})?Z$/

/** Returns `true` if a string is an ISO 8601 timestamp in UTC with an existing date. */
export function isUtc(text: string): boolean {
  return UTC.test(text) && isIsoMoment(text)
}

/** Creates a timestamp schema (ISO 8601, UTC, up to milliseconds). */
export function timestamp(description: string, example: string = EXAMPLE_TIME) {
  return v.pipe(
    v.string(),
    v.check(isUtc, `must be a time in UTC like ${EXAMPLE_TIME}`),
    v.description(description),
    v.examples([example]),
  )
}

/**
 * Creates a schema for a money amount, which is a decimal string with exactly as many decimal places as the currency
 * has (see section 2 of the spec, invoices, rule 1).
 */
export function money(description: string, example: string) {
  return v.pipe(
    v.string(),
    v.regex(/^[0-9]+(\.[0-9]+)?$/),
    v.maxLength(DECIMAL_MAX),
    v.description(`${description} Decimal string; do not parse it as a floating-point number.`),
    v.examples([example]),
  )
}

/** Creates a schema for an ISO 4217 currency code. */
export function currency() {
  return v.pipe(
    v.string(),
    v.regex(/^[A-Z]{3}$/),
    v.maxLength(3),
    v.description('Three-letter ISO 4217 currency code.'),
    v.examples(['TND']),
  )
}

/** Creates a schema for a JSON number with up to three decimal places. */
export function amount(description: string, example: number, min = -AMOUNT_MAX, max = AMOUNT_MAX) {
  return v.pipe(
    v.number(),
    v.minValue(min),
    v.maxValue(max),
    v.description(description),
    v.examples([example]),
  )
}

/** Creates a schema for an integer no smaller than `min`. */
export function count(min: number, description: string, example: number) {
  return v.pipe(
    v.number(),
    v.integer(),
    v.minValue(min),
    v.maxValue(2_147_483_647),
    v.description(description),
    v.examples([example]),
  )
}
