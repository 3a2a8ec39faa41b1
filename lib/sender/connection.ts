import { constants } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type TLSSocket } from 'node:tls'
import type { buildConnector, Client, Dispatcher } from 'undici'
import { EXCERPT_MAX_BYTES } from './body-excerpt.ts'
import type { Deadline } from './deadline.ts'
import { type AddressGuard, createTimings, type DialTarget, dial, type Timings } from './dial.ts'
import { connectMetered, type MeteredSocket } from './metered-socket.ts'
import { createReadingTurns } from './reading-turns.ts'
import { keepKnownHeaders } from './request-head.ts'
import {
  CONNECTION_FAILED,
  CONNECTION_RESET,
  INVALID_RESPONSE,
  SendError,
  toHandshakeError,
  toSendError,
} from './send-error.ts'
import { loadUndici } from './undici.ts'

/** One POST, with the timings known so far. */
export interface TimedPost {
  readonly path: string
  /** Names and values in turn. */
  readonly headers: string[]
  readonly body: string
  readonly deadline: Deadline
  /** Filled in as the exchange goes on. */
  readonly timings: Timings
}

/** A response, with the part of the body that was read. */
export interface HttpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly chunks: readonly Uint8Array[]
}

/** A connection that stays open from one exchange to the next. The first exchange opens the connection. */
export interface HttpConnection {
  readonly origin: string
  /** True if a further exchange finds the connection open. */
  readonly isOpen: boolean
  /** Makes an exchange; never two at once. Rejects with a {@link SendError} only. */
  exchange(exchange: TimedPost): Promise<HttpResponse>
  /** Closes the connection. Resolves when the connection is closed. */
  destroy(): Promise<void>
}

/** Makes a connection, not opened yet. `onClosed` is called when either side has closed the socket. */
export type OpenConnection = (origin: string, onClosed: () => void) => HttpConnection

/**
 * Lifetime of an idle connection in milliseconds, unless the other side announces a time: Node and uvicorn close idle connections
 * after 5 s.
 */
const KEEP_ALIVE_MS = 4000
/**
 * Maximum lifetime of an idle connection in milliseconds, also when the other side announces more: with thousands of endpoints, not all
 * connections can stay open.
 */
const KEEP_ALIVE_MAX_MS = 30_000
/**
 * Milliseconds by which this side closes earlier than the other side: an attempt must not start on a connection that is
 * being closed.
 */
const KEEP_ALIVE_MARGIN_MS = 1000

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
 * Loads undici and prepares the TLS context that all connections share.
 *
 * Each connection is an undici `Client`. undici's pools are not used, because a pool does not tell an exchange that
 * dialled from an exchange on an open connection. The meaning of a broken connection and the timings of an attempt
 * depend on that difference.
 *
 * @param ca certificate authorities in PEM; `undefined` for Node's
 */
export async function loadConnections(
  guard: AddressGuard,
  ca: string[] | undefined,
): Promise<OpenConnection> {
  const undici = await loadUndici()
  const turns = createReadingTurns()
  // A renegotiation would cost this side more than the other side.
  const secureContext = createSecureContext({ secureOptions: constants.SSL_OP_NO_RENEGOTIATION, ca })
  // rejectUnauthorized is explicit, because an environment variable can turn the default off.
  const encrypt = undici.buildConnector({ timeout: 0, rejectUnauthorized: true, secureContext })

  return (origin, onClosed) => {
    let timings = createTimings()
    let headers: readonly string[] = []
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
        keepKnownHeaders(opened, () => headers)
        // The types ask for a Socket; undici needs no more than a Duplex has.
        callback(null, opened as Socket)
      })
    }

    async function destroy(): Promise<void> {
      dialled?.socket.destroy()
      await client.destroy()
    }

    function post({ path, headers, body, deadline }: TimedPost): Promise<HttpResponse> {
      return new Promise((resolve, reject) => {
        const { handler, fail } = receive(timings, () => dialled, resolve, reject)
        deadline.onEnd((error) => {
          fail(error)
          void destroy()
        })
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
        headers = exchange.headers
        hasDialled = false
        try {
          return await post(exchange)
        } catch (error) {
          if (hasDialled || !wasClosedUnused(error, timings)) throw error
          // The client has lost its connection and opens another connection.
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
  // A name in the handshake never ends with a dot, even if the name in the URL does.
  const servername = isIP(hostname) ? '' : hostname.replace(/\.+$/, '')
  return {
    hostname,
    port: Number(port || 443),
    secure(stream, done) {
      const options = { ...target, servername, httpSocket: stream as Socket }
      // undici returns the socket, although its types do not say so.
      const socket = encrypt(options, (error, opened) => {
        if (error) done(toHandshakeError(error, socket), null)
        else done(null, opened)
      }) as unknown as TLSSocket | undefined
    },
  }
}

/**
 * Returns whether the other side closed an idle connection at the moment of the write. Neither side has failed, and the
 * next attempt would be 30 seconds later, so the exchange is made again at once. A request that was read nevertheless
 * arrives twice with the same event id, as any webhook may.
 */
function wasClosedUnused(error: unknown, { firstByteMs }: Timings): boolean {
  return error instanceof SendError && error.code === CONNECTION_RESET && firstByteMs === null
}

/** The receipt of a response. */
interface Receipt {
  readonly handler: Dispatcher.DispatchHandler
  /** Ends the exchange. The response's head, once it has arrived, is the result: a fault of the body changes no status. */
  fail(error: SendError): void
}

/** Receives a response, and only the part of the body that is kept. */
function receive(
  timings: Timings,
  meter: () => MeteredSocket | undefined,
  resolve: (response: HttpResponse) => void,
  reject: (error: SendError) => void,
): Receipt {
  let head: Pick<HttpResponse, 'status' | 'headers'> | undefined
  const chunks: Uint8Array[] = []
  let size = 0

  function succeed(): boolean {
    if (head) resolve({ status: head.status, headers: head.headers, chunks })
    return head !== undefined
  }

  function fail(error: SendError): void {
    if (!succeed()) reject(error)
  }

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart() {
      const sentAt = performance.now()
      meter()?.begin(() => {
        timings.firstByteMs ??= performance.now() - sentAt
      })
    },
    onResponseStart(controller, status, headers) {
      if (status < 200) return controller.abort(new SendError(INVALID_RESPONSE, `status ${status}`))
      meter()?.advance()
      head = { status, headers }
    },
    onResponseData(controller, chunk) {
      meter()?.advance()
      chunks.push(chunk)
      size += chunk.length
      if (size < EXCERPT_MAX_BYTES) return
      // The body may have no end. Closing costs the next attempt a handshake; reading on costs as much as the other
      // side sends.
      controller.abort(new Error('enough was read'))
    },
    onResponseEnd() {
      meter()?.end()
      succeed()
    },
    onResponseError(_controller, error) {
      fail(toSendError(meter()?.fault ?? error, CONNECTION_FAILED))
    },
  }
  return { handler, fail }
}
