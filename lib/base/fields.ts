import * as v from 'valibot'

// The building blocks of every schema. A schema is the only source of validation, the TypeScript type and the OpenAPI document, so each
// block has all three: the rule, the error message, and JSON Schema keywords.

/** The longest id that the API hands out or a host may bring; a prefix and a ULID need 31. */
const ID_MAX = 64
/** Statuses, stages, providers: words, not prose. */
const WORD_MAX = 64
/**
 * The longest decimal string: numeric(15,3) has twelve digits before the point, and a currency up to four after the
 * point.
 */
const DECIMAL_MAX = 20
/** The largest number of a numeric(15,3). */
const AMOUNT_MAX = 999_999_999_999.999

const EMAIL_MAX = 254
const CONTROL = String.raw`\x00-\x1f\x7f-\x9f`
/**
 * A single @, at most 64 characters before the @, a dot in the domain, no empty label, no white space or control
 * character. The OpenAPI document publishes a pattern of ASCII, which passes a little more.
 */
const EMAIL_PATTERN: RegExp = new RegExp(
  String.raw`^[^\s@${CONTROL}]{1,64}@[^\s@.${CONTROL}]+(?:\.[^\s@.${CONTROL}]+)+$`,
  'u',
)

/** Returns whether a string can be stored unchanged: PostgreSQL rejects NUL and silently replaces a lone surrogate. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/**
 * Returns a schema for a string with `min` to `max` Unicode code points, as JSON Schema counts (specification, section 8).
 */
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

/** Makes the schema of an email address: checked leniently, never with white space, stored as given. */
export function email() {
  const requirement = `must be an email address of at most ${EMAIL_MAX} characters`
  return v.pipe(
    v.string(requirement),
    v.maxCodePoints(EMAIL_MAX, requirement),
    v.check(isStorable, requirement),
    v.check(isEmail, requirement),
  )
}

/** Returns whether a string has the shape of an email address. Two addresses that look alike must not differ in an unseen character. */
export function isEmail(text: string): boolean {
  return EMAIL_PATTERN.test(text) && !/\p{Cf}/u.test(text)
}

/** Makes the schema of a number from `min` to `max` with at most three decimals, as columns of numeric(15,3) keep it. */
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
    // No negative zero.
    v.transform((value) => value + 0),
  )
}

/** Returns whether a number has at most three decimals. */
export function hasThreeDecimals(value: number): boolean {
  return Number(value.toFixed(3)) === value
}

/** With a time zone, because without one the same string means a different time on each machine. */
const ISO_MOMENT = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i

/** Returns whether a string is ISO 8601 with a time zone, and a day of the calendar. RFC 3339 allows `t` and `z`. */
export function isIsoMoment(text: string): boolean {
  const match = ISO_MOMENT.exec(text)
  if (!match || Number.isNaN(Date.parse(text.toUpperCase()))) return false
  const [, year, month, day] = match
  // A parser may take 30 February for 2 March.
  return new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day)
}

/** Returns whether every store keeps a moment: beyond, a year has another number of digits, or is unknown to some database. */
export function isKept(time: Date): boolean {
  return time.getTime() >= 0 && time.getTime() < Date.UTC(10_000)
}

/** Returns whether a string is a moment that every store keeps. */
export function isMoment(text: string): boolean {
  return isIsoMoment(text) && isKept(new Date(text.toUpperCase()))
}

/** Makes the schema of a moment in a string; the output is a timestamp. */
export function moment(requirement: string = 'must be ISO 8601 with a time zone, from 1970 to 9999') {
  return v.pipe(
    v.string(requirement),
    v.check(isMoment, requirement),
    v.transform((text) => new Date(text.toUpperCase()).toISOString()),
  )
}

/** The moment of all examples. */
export const EXAMPLE_TIME = '2026-03-14T09:26:53.589Z'

/** Returns the example of an id: the same everywhere, so ids which belong together agree. */
export function exampleId(kind: string): string {
  return `${kind}_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC`
}

/**
 * Makes the schema of a record's id.
 *
 * @param kind the prefix of the example: `cli`
 */
export function id(kind: string, description: string) {
  return v.pipe(v.string(), v.maxLength(ID_MAX), v.description(description), v.examples([exampleId(kind)]))
}

/**
 * Makes the schema of a word. The usual values are examples; the type stays string, because a host may have more
 * values.
 */
export function word(description: string, ...usual: [string, ...string[]]) {
  return v.pipe(
    v.string(),
    v.maxCodePoints(WORD_MAX),
    v.check(isStorable),
    v.description(description),
    v.examples(usual),
  )
}

/**
 * Returns a schema for any string in a response or an event.
 *
 * @param max Unicode code points
 */
export function prose(max: number, description: string, example: string) {
  return v.pipe(
    v.string(),
    v.maxCodePoints(max),
    v.check(isStorable),
    v.description(description),
    v.examples([example]),
  )
}

/** Makes the schema of a timestamp: ISO 8601 in UTC with milliseconds. */
export function timestamp(description: string, example: string = EXAMPLE_TIME) {
  return v.pipe(
    v.string(),
    v.isoTimestamp(),
    v.maxLength(24),
    v.description(description),
    v.examples([example]),
  )
}

/**
 * Makes the schema of money as a decimal string with exactly the currency's decimals (specification, section 2,
 * invoices, rule 1).
 */
export function money(description: string, example: string) {
  return v.pipe(
    v.string(),
    v.regex(/^[0-9]+(\.[0-9]+)?$/),
    v.maxLength(DECIMAL_MAX),
    v.description(`${description} A decimal string, never to be parsed into floating point.`),
    v.examples([example]),
  )
}

/** Makes the schema of an ISO 4217 code. */
export function currency() {
  return v.pipe(
    v.string(),
    v.regex(/^[A-Z]{3}$/),
    v.maxLength(3),
    v.description('ISO 4217 currency code.'),
    v.examples(['TND']),
  )
}

/** Makes the schema of a JSON number with at most three decimals. */
export function amount(description: string, example: number, min = -AMOUNT_MAX, max = AMOUNT_MAX) {
  return v.pipe(
    v.number(),
    v.minValue(min),
    v.maxValue(max),
    v.description(description),
    v.examples([example]),
  )
}

/** Makes the schema of a whole number from `min` on. */
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
