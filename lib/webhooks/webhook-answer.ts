import type { WebhookAnswer } from './webhook-sender.ts'

// Prepares responses for the log. The host may use its own sender, so we can't trust anything in a response.

/** Returns `true` for any 2xx (see section 6 of the spec, delivery rule 1). */
export function isSuccess({ status }: Pick<WebhookAnswer, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}

/** Same as the built-in sender's limit */
const EXCERPT_MAX_LENGTH = 4096
const ERROR_MAX_LENGTH = 100
const LOCATION_MAX_LENGTH = 500

/** Sanitizes a response for storage. Otherwise a custom sender's bad response could break an entire batch. */
export function toStorable(answer: WebhookAnswer, url: string, measuredMs: number): WebhookAnswer {
  const status = readStatus(answer.status)
  const error = readText(answer.error, ERROR_MAX_LENGTH) || (status === null ? 'sender_failed' : null)
  const { dnsMs, connectMs, tlsMs, firstByteMs } = answer.timings ?? {}
  return {
    status,
    error,
    wasMade: answer.wasMade !== false,
    detail: answer.detail ?? null,
    bodyExcerpt: readText(answer.bodyExcerpt, EXCERPT_MAX_LENGTH),
    location: answer.location == null ? null : readLocation(String(answer.location), url),
    ...(answer.headers && { headers: readHeaders(answer) }),
    retryAfterMs: readMs(answer.retryAfterMs == null ? null : Math.min(answer.retryAfterMs, MS_MAX)),
    durationMs: readMs(answer.durationMs) ?? measuredMs,
    timings: {
      dnsMs: readMs(dnsMs),
      connectMs: readMs(connectMs),
      tlsMs: readMs(tlsMs),
      firstByteMs: readMs(firstByteMs),
    },
  }
}

/** Response headers to log. We only log the first group for 2xx to save space, since most attempts succeed. */
const SUCCESS_NAMES = [
  ...['content-type', 'server', 'x-request-id', 'x-correlation-id', 'x-amzn-requestid', 'x-amz-cf-id'],
  ...['cf-ray', 'x-vercel-id'],
]
const LOGGED_NAMES = [
  ...SUCCESS_NAMES,
  ...['content-length', 'content-encoding', 'date', 'via', 'allow', 'retry-after', 'x-cache'],
]
const LOGGED_VALUE_MAX = 100

function readHeaders({ status, headers }: WebhookAnswer): Readonly<Record<string, string>> {
  const given = new Map(Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]))
  const names = isSuccess({ status }) ? SUCCESS_NAMES : LOGGED_NAMES
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = given.get(name)
      return value === undefined ? [] : [[name, readText(String(value), LOGGED_VALUE_MAX)]]
    }),
  )
}

function readStatus(status: number | null): number | null {
  return status !== null && Number.isInteger(status) && status >= 100 && status <= 999 ? status : null
}

/** Removes NUL and lone surrogates, which PostgreSQL can't store. */
function readText(text: string | null, maxLength: number): string {
  if (typeof text !== 'string') return ''
  // Don't truncate in the middle of a surrogate pair. U+FFFD would make it look as if the response wasn't valid UTF-8.
  const cut = text.length > maxLength ? text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, '') : text
  return cut.toWellFormed().replaceAll('\0', '\\u{0}')
}

/**
 * Returns the redirect target to log. Credentials, query and fragment are removed because they may be secret. `URL`
 * percent-encodes everything except visible ASCII.
 *
 * @param base the URL that redirected, used to resolve a relative `Location`
 */
function readLocation(location: string, base: string): string | null {
  if (location === '') return null
  if (!URL.canParse(location, base)) {
    const plain = location
      .toWellFormed()
      .replace(/[?#].*$/s, '')
      .replace(/^.*@/s, '')
    return plain.replace(/[^!-~]/gu, encodeURIComponent).slice(0, LOCATION_MAX_LENGTH) || null
  }
  const url = Object.assign(new URL(location, base), { username: '', password: '', search: '', hash: '' })
  return url.href.slice(0, LOCATION_MAX_LENGTH)
}

/** Maximum delay of a Node timer */
const MS_MAX = 2 ** 31 - 1

function readMs(ms: number | null | undefined): number | null {
  return typeof ms === 'number' && ms >= 0 && ms <= MS_MAX ? ms : null
}
