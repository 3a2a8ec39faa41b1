import { constants } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext } from 'node:tls'
import type { buildConnector, Client, Dispatcher } from 'undici'
import { EXCERPT_MAX_BYTES } from './body-excerpt.ts'
import type { Deadline } from './deadline.ts'
import { type AddressGuard, createTimings, type DialTarget, dial, type Timings } from './dial.ts'
import { connectMetered, type MeteredSocket } from './metered-socket.ts'
import { createReadingTurns } from './reading-turns.ts'
import {
  CONNECTION_FAILED,
  CONNECTION_RESET,
  INVALID_RESPONSE,
  SendError,
  toSendError,
} from './send-error.ts'
import { loadUndici } from './undici.ts'

/** One POST, and what is known of it so far. */
export interface Exchange {
  readonly path: string
  /** Names and values in turn. */
  readonly headers: string[]
  readonly body: string
  readonly deadline: Deadline
  /** Filled in as the parts happen. */
  readonly timings: Timings
}

/** An answer, its body as far as it was read. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly chunks: readonly Uint8Array[]
}

/** A connection that stays open from one exchange to the next. The first exchange opens it. */
export interface Connection {
  readonly origin: string
  /** Whether a further exchange finds it open. */
  readonly isOpen: boolean
  /** Makes one exchange; never two at once. Rejects with a {@link SendError} and nothing else. */
  exchange(exchange: Exchange): Promise<Answer>
  /** Resolves when it is closed. */
  destroy(): Promise<void>
}

/** Makes a connection, not opened yet. `onClosed` hears that the socket was closed, by whatever side. */
export type OpenConnection = (origin: string, onClosed: () => void) => Connection

/** Of an idle connection when the other side does not say how long it keeps it: Node and uvicorn close theirs after 5 s. */
const KEEP_ALIVE_MS = 4000
/** However long the other side offers: with thousands of endpoints not all can stay open. */
const KEEP_ALIVE_MAX_MS = 30_000
/** How long before the other side this one closes: an event must not set out to a connection that is being closed. */
const KEEP_ALIVE_MARGIN_MS = 1000

/** Answers of 1xx before the answer itself. One or two are usual. */
const INTERIM_ANSWERS_MAX = 16

const CLIENT_OPTIONS: Client.Options = {
  pipelining: 1,
  // The deadline covers both.
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: KEEP_ALIVE_MS,
  keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
  keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
}

/**
 * Loads undici and readies what all connections share.
 *
 * Each connection is an undici `Client`. undici's pools are not used: they do not tell which exchange dialled and which
 * found a connection open, and on that depends what a broken one means, and where an attempt's time went.
 */
export async function loadConnections(
  guard: AddressGuard,
  ca: string[] | undefined,
): Promise<OpenConnection> {
  const undici = await loadUndici()
  const turns = createReadingTurns()
  // A further handshake on a connection would cost this side more than the other.
  const secureContext = createSecureContext({ secureOptions: constants.SSL_OP_NO_RENEGOTIATION, ca })
  // rejectUnauthorized is said, as an environment variable can turn it off otherwise.
  const encrypt = undici.buildConnector({ timeout: 0, rejectUnauthorized: true, secureContext })

  return (origin, onClosed) => {
    let timings = createTimings()
    let hasDialled = false
    let dialled: MeteredSocket | undefined
    let stream: Duplex | undefined

    const client = new undici.Client(origin, { ...CLIENT_OPTIONS, connect: open })
    client.on('disconnect', onClosed)

    function open(target: buildConnector.Options, callback: buildConnector.Callback): void {
      hasDialled = true
      const connect: DialTarget['connect'] = (options) => connectMetered(options, turns)
      dialled = dial({ ...readTarget(target, encrypt), connect }, guard, timings, (error, opened) => {
        if (error) return callback(error, null)
        stream = opened
        dialled?.meterAnswers(opened)
        // A Socket to the types; a Duplex has all that undici needs of one.
        callback(null, opened as Socket)
      })
    }

    async function destroy(): Promise<void> {
      dialled?.socket.destroy()
      await client.destroy()
    }

    function post({ path, headers, body, deadline }: Exchange): Promise<Answer> {
      return new Promise((resolve, reject) => {
        deadline.onEnd((error) => {
          reject(error)
          void destroy()
        })
        const handler = receive(timings, () => dialled, resolve, reject)
        client.dispatch({ method: 'POST', path, headers, body }, handler)
      })
    }

    return {
      origin,
      get isOpen() {
        return stream?.destroyed === false
      },
      async exchange(exchange) {
        timings = exchange.timings
        hasDialled = false
        try {
          return await post(exchange)
        } catch (error) {
          if (hasDialled || !wasClosedUnused(error, timings)) throw error
          // The client has lost its connection and opens another one.
          return await post(exchange)
        }
      },
      destroy,
    }
  }
}

function readTarget(
  target: buildConnector.Options,
  encrypt: buildConnector.connector,
): Omit<DialTarget, 'connect'> {
  const { hostname, port, protocol } = target
  if (protocol !== 'https:') return { hostname, port: Number(port || 80), secure: null }
  // A name in the handshake has no dot at its end, even if the URL has one.
  const servername = isIP(hostname) ? '' : hostname.replace(/\.+$/, '')
  return {
    hostname,
    port: Number(port || 443),
    secure: (stream, done) => encrypt({ ...target, servername, httpSocket: stream as Socket }, done),
  }
}

/**
 * Whether the other side closed an idle connection in the moment in which we wrote on it. That is nobody's failure, and
 * as the attempt would wait 30 seconds for the next one, it is made again at once. Should the request have been read all
 * the same, then it arrives twice with the same event id, as any webhook may.
 */
function wasClosedUnused(error: unknown, { firstByteMs }: Timings): boolean {
  return error instanceof SendError && error.code === CONNECTION_RESET && firstByteMs === null
}

/** Takes in an answer, and no more of its body than is kept. */
function receive(
  timings: Timings,
  meter: () => MeteredSocket | undefined,
  resolve: (answer: Answer) => void,
  reject: (error: SendError) => void,
): Dispatcher.DispatchHandler {
  let sentAt = 0
  let status = 0
  let headers: Answer['headers'] = {}
  const chunks: Uint8Array[] = []
  let size = 0
  let interimAnswers = 0

  return {
    onRequestStart() {
      meter()?.begin()
      sentAt = performance.now()
    },
    onResponseStarted() {
      timings.firstByteMs ??= performance.now() - sentAt
    },
    onResponseStart(controller, statusCode, responseHeaders) {
      if (statusCode < 200 && ++interimAnswers > INTERIM_ANSWERS_MAX) {
        const message = `more than ${INTERIM_ANSWERS_MAX} interim answers`
        return controller.abort(new SendError(INVALID_RESPONSE, message))
      }
      meter()?.advance()
      // A status of 1xx comes first and is replaced by the answer's own.
      status = statusCode
      headers = responseHeaders
    },
    onResponseData(controller, chunk) {
      meter()?.advance()
      chunks.push(chunk)
      size += chunk.length
      if (size < EXCERPT_MAX_BYTES) return
      resolve({ status, headers, chunks })
      // It may go on for ever. Closing costs the next attempt a handshake; reading on costs as much as they like to send.
      controller.abort(new Error('enough was read'))
    },
    onResponseEnd() {
      meter()?.end()
      resolve({ status, headers, chunks })
    },
    onResponseError(_controller, error) {
      reject(toSendError(error, CONNECTION_FAILED))
    },
  }
}
