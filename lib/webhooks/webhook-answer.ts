import type { WebhookAnswer } from './webhook-sender.ts'

// What the log keeps of a response. The host may use its own sender, so nothing about a response is certain.

/** Returns whether a response is a success: any 2xx (specification, section 6, rule 1 of delivery). */
export function isSuccess({ status }: Pick<WebhookAnswer, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}

/** Equal to the shipped sender's. */
const EXCERPT_MAX_LENGTH = 4096
const ERROR_MAX_LENGTH = 100
const LOCATION_MAX_LENGTH = 500

/** Makes a response that any store can keep: the host may use its own sender, and one response must not spoil a batch. */
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

/** The headers of a response that the log keeps; of a 2xx the first ones, so most attempts take few bytes. */
const SUCCESS_NAMES = [
  ...['content-type', 'server', 'x-request-id', 'x-correlation-id', 'x-amzn-requestid', 'x-amz-cf-id'],
  ...['cf-ray', 'x-vercel-id'],
]
const LOGGED_NAMES = [
  ...SUCCESS_NAMES,
  ...['content-length', 'content-encoding', 'date', 'via', 'allow', 'retry-after', 'x-cache'],
]
const LOGGED_VALUE_MAX = 100

/** Returns the headers of a response that the log keeps. */
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

/** PostgreSQL stores neither NUL nor a lone surrogate. */
function readText(text: string | null, maxLength: number): string {
  if (typeof text !== 'string') return ''
  // A pair that is cut in two is left out: U+FFFD would say that the text was not UTF-8.
  const cut = text.length > maxLength ? text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, '') : text
  return cut.toWellFormed().replaceAll('\0', '\\u{0}')
}

/**
 * Returns where a redirect points, for the log: without credentials, query and fragment, which may be secret. A `URL` writes
 * everything but visible ASCII as percent-encoded bytes.
 *
 * @param base the URL that redirects, for a relative `Location`
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

/** The longest timer of Node. */
const MS_MAX = 2 ** 31 - 1

function readMs(ms: number | null | undefined): number | null {
  return typeof ms === 'number' && ms >= 0 && ms <= MS_MAX ? ms : null
}
