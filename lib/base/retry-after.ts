/** The only HTTP date format still in use. `Date.parse` on its own accepts nearly anything. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
const SECONDS = /^\d+$/

/**
 * Parses a `Retry-After` header.
 *
 * @param date the `Date` header of the response. A date to wait for is compared with it, because both are by the
 * other side's clock
 * @param now milliseconds since 1970, used if the response has no date
 * @returns how long to wait in milliseconds, 0 if the date has passed, or `null` if there is no valid header
 */
export function readRetryAfter(
  value: string | undefined,
  date: string | undefined,
  now: number,
): number | null {
  if (value === undefined) return null
  if (SECONDS.test(value)) return Number(value) * 1000
  const until = parseHttpDate(value)
  return until === null ? null : Math.max(0, until - (parseHttpDate(date) ?? now))
}

function parseHttpDate(text: string | undefined): number | null {
  const time = text !== undefined && HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? null : time
}
