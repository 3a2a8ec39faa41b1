/** The longest wait that an error reports: one day. A timer of 25 days or more would fire at once. */
const WAIT_MAX_MS = 86_400_000

/** As HTTP writes dates (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. `Date.parse` alone reads a year from `soon 7`. */
const DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/**
 * Reads a Retry-After header: whole seconds or a date. A date is compared with the response's own `Date` header, because the clock
 * of this machine may be wrong.
 *
 * @returns milliseconds from 0 to a day; null without a header that can be read
 */
export function readRetryAfter(headers: Headers, now: number): number | null {
  const value = headers.get('retry-after')?.trim() ?? ''
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, WAIT_MAX_MS)
  const date = parseDate(value)
  if (date === null) return null
  return Math.min(Math.max(date - (parseDate(headers.get('date') ?? '') ?? now), 0), WAIT_MAX_MS)
}

function parseDate(value: string): number | null {
  const date = DATE.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(date) ? null : date
}
