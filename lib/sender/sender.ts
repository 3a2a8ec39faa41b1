import { readTimeout } from '../base/options.ts'
import { readRetryAfter } from '../base/retry-after.ts'
import { withDeadline } from '../base/time.ts'
import {
  type DestinationRules,
  judgeAddresses,
  judgeDestination,
  judgeUnresolved,
  judgeUrl,
} from '../webhooks/destination.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from '../webhooks/webhook-sender.ts'
import { readExcerpt } from './body-excerpt.ts'
import { type HttpResponse, loadConnections } from './connection.ts'
import { type ConnectionPool, createConnectionPool } from './connection-pool.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { type AddressGuard, createTimings, shareLookups, type Timings } from './dial.ts'
import { DESTINATION_REFUSED, SENDER_FAILED, SendError, toSendError } from './send-error.ts'
import { readSenderOptions, type WebhookSenderOptions } from './sender-options.ts'

/**
 * Creates a webhook sender. It uses HTTP/1.1 with keep-alive and only connects to the public internet (see `judgeUrl`).
 * It doesn't follow redirects, use proxies from the environment, or decompress anything. The first attempt or `prepare`
 * loads undici, and nothing is opened before that. Closing waits for in-flight attempts (by default, as long as an
 * attempt can take), plus up to a second if the network isn't responding.
 * If a result has an `error`, it's a {@link SendErrorCode}. Once a response head has been received, the result has its
 * status, even if the body is too long, is cut short or never ends.
 *
 * @throws `TypeError` or `RangeError` for invalid options
 * @example
 * ```ts
 * const sender = createWebhookSender({ timeoutMs: 5_000, userAgent: 'Acme-Webhooks/1.0' })
 * ```
 */
export function createWebhookSender(options: WebhookSenderOptions = {}): WebhookSender & AsyncDisposable {
  const { destinations, timeoutMs, maxConnectionsPerOrigin, userAgent, lookup, ca } =
    readSenderOptions(options)
  const guard: AddressGuard = {
    resolve: shareLookups(lookup),
    judge: (addresses) => judgeAddresses(addresses, destinations),
    judgeUnresolved: (hostname, error) => judgeUnresolved(hostname, error, destinations),
  }
  const readTarget = createTargets(destinations)
  const inFlight = new Set<Deadline>()
  let pool: Promise<ConnectionPool> | undefined
  let opened: ConnectionPool | undefined
  let closing: Promise<void> | undefined

  async function open(): Promise<ConnectionPool> {
    if (closing) throw new SendError(SENDER_FAILED, 'the sender is closed')
    pool ??= load()
    return pool
  }

  async function load(): Promise<ConnectionPool> {
    try {
      opened = createConnectionPool(await loadConnections(guard, ca), maxConnectionsPerOrigin)
      return opened
    } catch (error) {
      // Try again next time. We may have just run out of file descriptors.
      pool = undefined
      throw error
    }
  }

  async function closePool(): Promise<void> {
    await pool?.catch(() => undefined)
    await opened?.close()
  }

  async function close(waitMs: number): Promise<void> {
    const closed = closePool()
    await withDeadline(closed, waitMs, () => {
      for (const deadline of inFlight) deadline.interrupt()
    })
    await withDeadline(closed, CLOSE_GRACE_MS, () => {})
  }

  const sender: WebhookSender & AsyncDisposable = {
    judge: (url) => judgeDestination(url, { ...destinations, lookup }),
    async prepare() {
      await open().catch((cause) => {
        throw new Error(`Cannot send webhooks because ${cause.message}`, { cause })
      })
    },
    async send({ url, headers, body }, signal) {
      const timings = createTimings()
      let startedAt = performance.now()
      let deadline: Deadline | undefined
      try {
        const { origin, path } = readTarget(url)
        const { take, giveBack } = opened && !closing ? opened : await open()
        // Don't count the time it takes to load undici.
        startedAt = performance.now()
        deadline = startDeadline(timeoutMs, signal)
        inFlight.add(deadline)
        const taken = take(origin, deadline)
        const connection = taken instanceof Promise ? await taken : taken
        try {
          const exchange = { path, headers: writeHeaders(headers, userAgent), body, deadline, timings }
          const answer = await connection.exchange(exchange)
          return succeed(answer, timings, performance.now() - startedAt)
        } finally {
          giveBack(connection)
        }
      } catch (error) {
        return fail(toSendError(error, SENDER_FAILED), timings, performance.now() - startedAt)
      } finally {
        deadline?.clear()
        if (deadline) inFlight.delete(deadline)
      }
    },
    close(options) {
      const waitMs = readTimeout(options, timeoutMs)
      closing ??= close(waitMs)
      return closing
    },
    [Symbol.asyncDispose]: () => sender.close(),
  }
  return sender
}

/** How long interrupted attempts get to close their sockets, in milliseconds. */
const CLOSE_GRACE_MS = 500

interface UrlParts {
  readonly origin: string
  readonly path: string
}

/** Maximum number of URLs to cache. */
const TARGETS_MAX = 1000

/**
 * Returns a function that parses URLs. Allowed URLs are cached, since checking a URL without a lookup always has the
 * same result. The function throws `SendError` if the URL isn't allowed.
 */
function createTargets(destinations: DestinationRules): (url: string) => UrlParts {
  const targets = new Map<string, UrlParts>()

  return (text) => {
    const known = targets.get(text)
    if (known) return known
    const verdict = judgeUrl(text, destinations)
    if (!verdict.allowed) throw new SendError(DESTINATION_REFUSED, verdict.detail)
    const { origin, pathname, search } = verdict.url
    const target = { origin, path: pathname + search }
    if (targets.size >= TARGETS_MAX) targets.clear()
    targets.set(text, target)
    return target
  }
}

/** Headers reserved for the connection and the sender. Removed from requests. */
const SENDERS_OWN = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'user-agent',
])

/** @returns alternating names and values. If two names only differ in case, the last one wins */
function writeHeaders(own: WebhookRequest['headers'], userAgent: string): string[] {
  const names = ['user-agent', 'accept']
  // Many firewalls reject requests with no Accept header.
  const headers = ['User-Agent', userAgent, 'Accept', '*/*']
  for (const [name, value] of Object.entries(own)) {
    const key = name.toLowerCase()
    if (SENDERS_OWN.has(key)) continue
    const known = names.indexOf(key)
    const place = known === -1 ? names.push(key) - 1 : known
    headers[2 * place] = name
    headers[2 * place + 1] = value
  }
  return headers
}

function succeed(
  { status, headers, chunks }: HttpResponse,
  timings: Timings,
  durationMs: number,
): WebhookAnswer {
  return {
    status,
    error: null,
    bodyExcerpt: readExcerpt(chunks, firstOf(headers['content-encoding'])),
    headers: Object.fromEntries(Object.keys(headers).map((name) => [name, firstOf(headers[name]) ?? ''])),
    ...(status >= 300 && status < 400 && { location: firstOf(headers.location) ?? null }),
    retryAfterMs: readRetryAfter(firstOf(headers['retry-after']), firstOf(headers.date), Date.now()),
    durationMs,
    timings,
  }
}

/** Returns a header's first value, trimmed because undici doesn't do that. */
function firstOf(value: string | string[] | undefined): string | undefined {
  return (typeof value === 'string' ? value : value?.[0])?.trim()
}

function fail({ code, message }: SendError, timings: Timings, durationMs: number): WebhookAnswer {
  // Don't show timings for rejected destinations, because how long a lookup takes reveals whether a name exists.
  // Otherwise, return a copy, since a lookup that finishes after the deadline still changes the original.
  const shown = code === DESTINATION_REFUSED ? createTimings() : { ...timings }
  return {
    status: null,
    error: code,
    wasMade: code !== SENDER_FAILED,
    detail: message,
    bodyExcerpt: '',
    durationMs,
    timings: shown,
  }
}
