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
 * Creates the sender of webhooks: HTTP/1.1 on kept connections, only to the public internet (see `judgeUrl`). It follows no redirect, uses no proxy
 * from the environment and decompresses nothing. The first attempt or `prepare` loads undici; nothing is opened before. Closing waits for
 * attempts in flight, by default as long as an attempt can take, and ends at most a second later, even on a silent network.
 *
 * The `error` of a result is a {@link SendErrorCode}. Once the head of a response has arrived, the result has its status, even if the body is too
 * long, breaks off or never ends.
 *
 * @throws `TypeError` or `RangeError` for an invalid option
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
      // The next attempt loads again: the cause may have been a lack of file descriptors.
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
        // The time for loading undici does not count as the subscriber's.
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

/** Time for interrupted attempts to close their sockets, in ms. */
const CLOSE_GRACE_MS = 500

/** The parts of a URL that an attempt needs. */
interface UrlParts {
  readonly origin: string
  readonly path: string
}

/** Maximum number of remembered URLs. */
const TARGETS_MAX = 1000

/**
 * Returns a function that reads URLs and remembers the allowed URLs, because the verdict on a URL without a lookup never
 * changes. The function throws `SendError` for a URL that is rejected without a lookup.
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

/** Headers that only the connection and the sender set. The same headers of a request are left out. */
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

/** @returns names and values in turn; of two names that differ in case only, the later counts */
function writeHeaders(own: WebhookRequest['headers'], userAgent: string): string[] {
  const names = ['user-agent', 'accept']
  // Firewalls commonly reject requests without Accept.
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

/** Returns the value of a header, the first of several, without the white space around it, which undici leaves. */
function firstOf(value: string | string[] | undefined): string | undefined {
  return (typeof value === 'string' ? value : value?.[0])?.trim()
}

function fail({ code, message }: SendError, timings: Timings, durationMs: number): WebhookAnswer {
  // The timings of a rejected destination are withheld: an existing name takes longer or shorter to resolve than a
  // missing name. Otherwise a copy, because a name that resolves after the deadline still changes the original.
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
