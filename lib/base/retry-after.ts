/** Matches the three HTTP date formats (RFC 9110, section 5.6.7). `Date.parse` alone would accept nearly any string. */
const HTTP_DATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*(?:, \d\d(?: [A-Z][a-z]{2} \d\d|-[A-Z][a-z]{2}-)\d\d \d\d:\d\d:\d\d GMT| [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/
const SECONDS = /^\d+$/

/**
 * Returns how long a `Retry-After` header asks us to wait.
 *
 * @param date the response's `Date` header. We compare dates with it because the clocks may differ
 * @param now milliseconds since 1970. Used if the response doesn't have a date
 * @returns milliseconds, 0 if the date is in the past, or `null` if the header is absent or invalid
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
  // Dates without a time zone are in UTC.
  const time =
    text !== undefined && HTTP_DATE.test(text) ? Date.parse(text.replace(/\d$/, '$& GMT')) : Number.NaN
  return Number.isNaN(time) ? null : time
}
