import { setMaxListeners } from 'node:events'
import type { AttemptHeaders, ClaimedDelivery } from './claims.ts'
import type { SecretOpener } from './secret-sealing.ts'
import { signWebhook } from './signature.ts'
import { standardHeaders } from './standard-webhooks.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from './webhook-sender.ts'

/** The headers that the service adds to an attempt. */
export interface ServiceHeaders {
  /** `X-SERVICE` in `X-SERVICE-Event-Id`. */
  readonly headerPrefix: string
  /** True: the headers of Standard Webhooks too, for every endpoint; false: for endpoints that have chosen these headers. */
  readonly standardWebhooks: boolean
}

/**
 * Makes the request of an attempt (specification, section 6): the endpoint's own headers under the headers of the service,
 * signed anew for each attempt.
 *
 * @param timestamp Unix seconds, by the store's clock
 * @throws `BusinessApiError` with code `secret_unavailable`
 */
export function makeRequest(
  delivery: Sendable,
  sealer: SecretOpener,
  { headerPrefix, standardWebhooks }: ServiceHeaders,
  timestamp: number,
): WebhookRequest {
  const secrets = delivery.sealedSecrets.map((sealed) => sealer.unseal(sealed, delivery))
  const headers = {
    ...eventHeaders(delivery, headerPrefix),
    [`${headerPrefix}-Signature`]: signWebhook(delivery.body, secrets, timestamp),
    ...(standardWebhooks || delivery.standardWebhooks ? standardHeaders(delivery, secrets, timestamp) : {}),
  }
  const { url, body } = delivery
  if (delivery.sealedHeaders === null) return { url, headers, body }
  const own = without(headers, sealer.unsealHeaders(delivery, delivery))
  return { url, headers: { ...own, ...headers }, body }
}

/** The headers that follow from the event: the log keeps none of them. */
export function eventHeaders(
  { eventId, type }: Pick<Sendable, 'eventId' | 'type'>,
  headerPrefix: string,
): WebhookRequest['headers'] {
  return {
    'Content-Type': 'application/json',
    [`${headerPrefix}-Event-Id`]: eventId,
    [`${headerPrefix}-Event-Type`]: type,
  }
}

/** The parts of a delivery that make a request. */
export type Sendable = Omit<ClaimedDelivery, 'id' | 'attempt'>

/** Leaves out own headers with a name of the service, in any case: a sender would send both. */
function without(
  headers: WebhookRequest['headers'],
  own: WebhookRequest['headers'],
): WebhookRequest['headers'] {
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  return Object.fromEntries(Object.entries(own).filter(([name]) => !names.has(name.toLowerCase())))
}

/** Longest duration of an attempt in milliseconds. The shipped sender ends by itself after 10 seconds. */
export const ATTEMPT_MAX_MS = 12_000

/** Time for a sender to end an interrupted attempt, in milliseconds; then the attempt ends without its sender. */
export const INTERRUPT_MAX_MS = 500

/** Ends all attempts of a loop at once. */
export interface Interruption {
  /** The signal that senders receive. */
  readonly signal: AbortSignal
  /**
   * Called before senders have ended. Not listeners of the signal: Node searches all listeners whenever a listener is
   * added or removed.
   */
  readonly listeners: Set<() => void>
  interrupt(): void
}

/** Creates an interruption for any number of attempts. */
export function createInterruption(): Interruption {
  const controller = new AbortController()
  const listeners = new Set<() => void>()
  // A sender may add a listener for each attempt, which Node takes for a leak from the eleventh on.
  setMaxListeners(0, controller.signal)
  return {
    signal: controller.signal,
    listeners,
    interrupt() {
      controller.abort()
      for (const listener of listeners) listener()
    },
  }
}

/**
 * Makes one attempt. The attempt also fails if the sender throws, never answers or returns a value that is not an
 * answer.
 *
 * @param onError receives the errors of a faulty sender
 * @throws the error that `onError` throws
 */
export function attempt(
  sender: WebhookSender,
  request: WebhookRequest,
  { signal, listeners }: Interruption,
  onError: (error: unknown) => void,
): Promise<WebhookAnswer> {
  // A single promise: a race of two and an async function around the race cost as much as the signature.
  return new Promise((resolve, reject) => {
    const begunAt = performance.now()
    let timer = setTimeout(end, ATTEMPT_MAX_MS, 'timeout')
    let isEnded = false
    listeners.add(interrupt)

    function interrupt(): void {
      clearTimeout(timer)
      timer = setTimeout(end, INTERRUPT_MAX_MS, 'interrupted')
    }

    /** @param given the sender's result, or the error of an attempt that the sender doesn't end */
    function end(given: WebhookAnswer | string): void {
      if (isEnded) return
      const durationMs = performance.now() - begunAt
      const answer =
        typeof given === 'string' ? failed(given, durationMs) : toStorable(given, request.url, durationMs)
      isEnded = true
      clearTimeout(timer)
      listeners.delete(interrupt)
      resolve(answer)
    }

    /** A sender of the host's own may resolve with anything. */
    function endAnswered(answer: WebhookAnswer): void {
      if (typeof answer !== 'object' || answer === null)
        throw new TypeError('Cannot read the result of the sender')
      end(answer)
    }

    function endFaulty(error: unknown): void {
      if (isEnded) return
      try {
        onError(error)
      } catch (thrown) {
        reject(thrown)
      }
      end('sender_failed')
    }

    try {
      Promise.resolve(sender.send(request, signal)).then(endAnswered).catch(endFaulty)
    } catch (error) {
      endFaulty(error)
    }
  })
}

/** Returns whether an answer is a success: any 2xx (specification, section 6, rule 1 of delivery). */
export function isSuccess({ status }: Pick<WebhookAnswer, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}

// --- Headers in the log ---

/** The headers of a response that the log keeps: what a support case asks for, and nothing that can be a credential. */
const LOGGED_NAMES = [
  ...['content-type', 'content-length', 'content-encoding', 'date', 'server', 'via', 'allow', 'retry-after'],
  ...[
    'x-request-id',
    'x-correlation-id',
    'x-amzn-requestid',
    'x-amz-cf-id',
    'cf-ray',
    'x-vercel-id',
    'x-cache',
  ],
]
const LOGGED_VALUE_MAX = 100

/** Returns the headers of an attempt for the log; null for a success. */
export function loggedHeaders(
  delivery: Pick<Sendable, 'eventId' | 'type' | 'headerNames'>,
  request: Pick<WebhookRequest, 'headers'>,
  answer: WebhookAnswer,
  headerPrefix: string,
): AttemptHeaders | null {
  if (isSuccess(answer)) return null
  const own = new Set(delivery.headerNames)
  const known = eventHeaders(delivery, headerPrefix)
  const sent = Object.entries(request.headers).filter(([name]) => !(name in known))
  return {
    request: within(
      600,
      sent.filter(([name]) => own.has(name)).map(([name]) => [name, '(hidden)']),
    ),
    signed: within(
      500,
      sent.filter(([name]) => !own.has(name)),
    ),
    response: within(900, Object.entries(answer.headers ?? {})),
  }
}

/** Leaves out the entries beyond a number of characters. */
function within(
  max: number,
  entries: readonly (readonly [string, string])[],
): Readonly<Record<string, string>> {
  let left = max
  const kept = entries.filter(([name, value]) => {
    left -= name.length + value.length
    return left >= 0
  })
  return Object.fromEntries(kept)
}

/** @param headers as a sender gives them: a sender may be the host's own */
function readHeaders(headers: WebhookAnswer['headers']): Readonly<Record<string, string>> {
  const given = new Map(Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]))
  return Object.fromEntries(
    LOGGED_NAMES.flatMap((name) => {
      const value = given.get(name)
      return value === undefined ? [] : [[name, readText(String(value), LOGGED_VALUE_MAX)]]
    }),
  )
}

function failed(error: string, durationMs: number): WebhookAnswer {
  return { status: null, error, bodyExcerpt: '', durationMs }
}

// --- Limits of an answer ---

/** Equal to the shipped sender's. */
const EXCERPT_MAX_LENGTH = 4096
const ERROR_MAX_LENGTH = 100
const LOCATION_MAX_LENGTH = 500

/** Makes an answer that any store can keep: a sender may be the host's own, and a single answer must not spoil a batch. */
function toStorable(answer: WebhookAnswer, url: string, measuredMs: number): WebhookAnswer {
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
    ...(answer.headers && { headers: readHeaders(answer.headers) }),
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
