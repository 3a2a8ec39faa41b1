import { judgeAddresses, judgeUrl } from '../destination.ts'
import { readExcerpt } from './body-excerpt.ts'
import { type Answer, loadConnections } from './connection.ts'
import { type Connections, createConnections } from './connections.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { type AddressGuard, createTimings, shareLookups, type Timings } from './dial.ts'
import { readRetryAfter } from './retry-after.ts'
import { DESTINATION_REFUSED, SENDER_FAILED, SendError, toSendError } from './send-error.ts'
import { readSenderOptions, type WebhookSenderOptions } from './sender-options.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from './webhook-sender.ts'

/**
 * Sends webhooks over HTTP/1.1 on connections that are kept open, to the public internet only (see `judgeUrl`): no
 * redirect is followed, no proxy of the environment used, nothing decompressed. Opens nothing before the first attempt,
 * and loads undici only then. Closing waits for the attempts under way.
 *
 * The `error` of an answer is one of {@link SendErrorCode}. A 2xx counts although its body is longer than what is kept;
 * one whose body neither ends nor reaches that length in time is a `timeout`.
 *
 * @throws `TypeError` or `RangeError` for an option that cannot be used
 */
export function createWebhookSender(options: WebhookSenderOptions = {}): WebhookSender {
  const { destinations, timeoutMs, maxConnectionsPerOrigin, userAgent, lookup, ca } =
    readSenderOptions(options)
  const guard: AddressGuard = {
    resolve: shareLookups(lookup),
    judge: (addresses) => judgeAddresses(addresses, destinations),
  }
  let connections: Promise<Connections> | undefined
  let closing: Promise<void> | undefined

  async function open(): Promise<Connections> {
    return createConnections(await loadConnections(guard, ca), maxConnectionsPerOrigin)
  }

  async function post(request: WebhookRequest, deadline: Deadline, timings: Timings): Promise<Answer> {
    const verdict = judgeUrl(request.url, destinations)
    if (!verdict.allowed) throw new SendError(DESTINATION_REFUSED, verdict.detail)
    const { origin, pathname, search } = verdict.url
    const headers = writeHeaders(request.headers, userAgent)
    if (closing) throw new SendError(SENDER_FAILED, 'the sender is closed')
    connections ??= open()
    const { take, giveBack } = await connections
    const connection = await take(origin, deadline)
    try {
      return await connection.exchange({
        path: pathname + search,
        headers,
        body: request.body,
        deadline,
        timings,
      })
    } finally {
      giveBack(connection)
    }
  }

  async function close(): Promise<void> {
    await (await connections?.catch(() => undefined))?.close()
  }

  return {
    async send(request, signal) {
      const startedAt = performance.now()
      const timings = createTimings()
      const deadline = startDeadline(timeoutMs, signal)
      try {
        const answer = await post(request, deadline, timings)
        return succeed(answer, timings, performance.now() - startedAt)
      } catch (error) {
        return fail(toSendError(error, SENDER_FAILED), timings, performance.now() - startedAt)
      } finally {
        deadline.clear()
      }
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}

/** Headers that are the connection's business and the sender's name: a request's own of these are left out. */
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

/** @returns names and values in turn; of two that differ in case only, the later one */
function writeHeaders(own: WebhookRequest['headers'], userAgent: string): string[] {
  const headers = ['User-Agent', userAgent]
  const names: string[] = []
  const entries = Object.entries(own).reverse()
  for (const [name, value] of entries) {
    const key = name.toLowerCase()
    if (SENDERS_OWN.has(key) || names.includes(key)) continue
    names.push(key)
    headers.push(name, value)
  }
  return headers
}

function succeed({ status, headers, chunks }: Answer, timings: Timings, durationMs: number): WebhookAnswer {
  return {
    status,
    error: null,
    bodyExcerpt: readExcerpt(chunks, firstOf(headers['content-encoding'])),
    retryAfterMs: readRetryAfter(firstOf(headers['retry-after']), firstOf(headers.date), Date.now()),
    durationMs,
    timings,
  }
}

/** Of a header that was sent more than once. */
function firstOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.[0]
}

function fail({ code, message }: SendError, timings: Timings, durationMs: number): WebhookAnswer {
  return { status: null, error: code, detail: message, bodyExcerpt: '', durationMs, timings }
}
