import { constants } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type TLSSocket } from 'node:tls'
import type { buildConnector, Client, Dispatcher } from 'undici'
import { EXCERPT_MAX_BYTES } from './body-excerpt.ts'
import type { Deadline } from './deadline.ts'
import { type AddressGuard, createTimings, type DialTarget, dial, type Timings } from './dial.ts'
import { connectMetered, createReadingTurns, type MeteredSocket } from './metered-socket.ts'
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

/** A POST request and its timings. */
export interface TimedPost {
  readonly path: string
  /** Alternating names and values. */
  readonly headers: string[]
  readonly body: string
  readonly deadline: Deadline
  /** Filled in as the exchange progresses. */
  readonly timings: Timings
}

/** A response, with as much of the body as we read. */
export interface HttpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly chunks: readonly Uint8Array[]
}

/** A keep-alive connection. The first exchange opens it. */
export interface HttpConnection {
  readonly origin: string
  /** `true` if the connection is open and can be reused. */
  readonly isOpen: boolean
  /** Sends a request and receives its response. One exchange at a time. Only rejects with {@link SendError}. */
  exchange(exchange: TimedPost): Promise<HttpResponse>
  /** Resolves once the connection is closed. */
  destroy(): Promise<void>
}

/** Creates a connection that isn't open yet. `onClosed` is called after either side closes the socket. */
export type OpenConnection = (origin: string, onClosed: () => void) => HttpConnection

/** Idle timeout in milliseconds, unless the other side sets one. Node and uvicorn use 5 s. */
const KEEP_ALIVE_MS = 4000
/**
 * Maximum idle timeout in milliseconds, even if the other side allows more. With thousands of endpoints, we can't keep
 * all of their connections open.
 */
const KEEP_ALIVE_MAX_MS = 30_000
/**
 * How much earlier than the other side we close a connection, in milliseconds. Keeps attempts from starting on a
 * connection that is about to be closed.
 */
const KEEP_ALIVE_MARGIN_MS = 1000

const CLIENT_OPTIONS: Client.Options = {
  pipelining: 1,
  // Our own deadline covers these.
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: KEEP_ALIVE_MS,
  keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
  keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
}

/**
 * Loads undici and creates the TLS context that all connections share.
 * Each connection is an undici `Client`. We can't use undici's pools, which don't tell us whether an exchange opened or
 * reused a connection. We need to know that to handle broken connections and to report timings.
 *
 * @param ca PEM certificate authorities. Defaults to Node's
 */
export async function loadConnections(
  guard: AddressGuard,
  ca: string[] | undefined,
): Promise<OpenConnection> {
  const undici = await loadUndici()
  const turns = createReadingTurns()
  // Renegotiation costs us more than the other side.
  const secureContext = createSecureContext({ secureOptions: constants.SSL_OP_NO_RENEGOTIATION, ca })
  // Set rejectUnauthorized explicitly because an environment variable can change its default.
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
        // undici's type wants a Socket, but a Duplex has everything it needs.
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
          // The client lost the connection, so this opens another.
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
  // The server name in the handshake can't have a trailing dot, even if the URL's hostname does.
  const servername = isIP(hostname) ? '' : hostname.replace(/\.+$/, '')
  return {
    hostname,
    port: Number(port || 443),
    secure(stream, done) {
      const options = { ...target, servername, httpSocket: stream as Socket }
      // undici returns the socket, but its types don't say so.
      const socket = encrypt(options, (error, opened) => {
        if (error) done(toHandshakeError(error, socket), null)
        else done(null, opened)
      }) as unknown as TLSSocket | undefined
    },
  }
}

/**
 * Returns `true` if the other side closed an idle connection just as we were writing to it. Neither side did anything
 * wrong, and the next attempt would be 30 seconds away, so we retry right away. If the server did read the request,
 * it's delivered twice with the same event id, as can happen with any webhook.
 */
function wasClosedUnused(error: unknown, { firstByteMs }: Timings): boolean {
  return error instanceof SendError && error.code === CONNECTION_RESET && firstByteMs === null
}

/** Receives a response, reading only as much of the body as we keep. */
function receive(
  timings: Timings,
  meter: () => MeteredSocket | undefined,
  resolve: (response: HttpResponse) => void,
  reject: (error: SendError) => void,
) {
  let head: Pick<HttpResponse, 'status' | 'headers'> | undefined
  const chunks: Uint8Array[] = []
  let size = 0

  function succeed(): boolean {
    if (head) resolve({ status: head.status, headers: head.headers, chunks })
    return head !== undefined
  }

  /** Ends the exchange. If we already have the response head, the exchange succeeds with that, otherwise it fails. */
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
      // The body may never end. Closing the connection costs a handshake, but reading the rest could take forever.
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
