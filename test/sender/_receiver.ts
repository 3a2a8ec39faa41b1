import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer, type ServerOptions } from 'node:https'
import { type AddressInfo, createServer as createRawServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { CERTIFICATE, PRIVATE_KEY } from './_receiver-certificate.ts'

/** A request as received. */
export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as written. */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

/** A subscriber on this machine. */
export interface Receiver {
  readonly port: number
  /** `http://127.0.0.1:<port>`, or with https. */
  readonly origin: string
  /** All requests that have arrived whole. */
  readonly requests: readonly Received[]
  /** The connections that are open. */
  readonly sockets: ReadonlySet<Socket>
  /** The number of connections so far. */
  readonly accepted: number
  /** Resolves at the next connection. */
  nextSocket(): Promise<Socket>
}

/** Answers a request that has arrived whole. */
export type AnswerRequest = (response: ServerResponse, request: Received) => void

/** Starts a subscriber that speaks HTTP. Ends with the test. */
export function startReceiver(context: TestContext, answer: AnswerRequest = answerOk): Promise<Receiver> {
  const requests: Received[] = []
  return start(context, createServer(receive(requests, answer)), 'http', requests)
}

/** Starts a subscriber that speaks HTTPS with {@link CERTIFICATE}. Ends with the test. */
export function startSecureReceiver(
  context: TestContext,
  answer: AnswerRequest = answerOk,
  own: ServerOptions = {},
): Promise<Receiver> {
  const requests: Received[] = []
  const options = { cert: CERTIFICATE, key: PRIVATE_KEY, ...own }
  return start(context, createSecureServer(options, receive(requests, answer)), 'https', requests)
}

/** Starts a server that passes each connection to `onSocket`. Ends with the test. */
export function startRawReceiver(
  context: TestContext,
  onSocket: (socket: Socket) => void,
  protocol: 'http' | 'https' = 'http',
): Promise<Receiver> {
  return start(context, createRawServer(onSocket), protocol, [])
}

/** Answers a connection once with these bytes, after the first bytes received. */
export function replyWith(text: string): (socket: Socket) => void {
  return (socket) => void socket.once('data', () => socket.write(text))
}

/** Resolves when a connection is closed by either side. */
export function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed) resolve()
    else socket.on('close', () => resolve())
  })
}

function answerOk(response: ServerResponse): void {
  response.end('ok')
}

function receive(requests: Received[], answer: AnswerRequest): RequestListener {
  return async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = '', url: path = '', headers, rawHeaders } = request
    const received = { method, path, headers, rawHeaders, body: Buffer.concat(chunks).toString() }
    requests.push(received)
    answer(response, received)
  }
}

async function start(
  context: TestContext,
  server: Server,
  protocol: 'http' | 'https',
  requests: readonly Received[],
): Promise<Receiver> {
  const sockets = new Set<Socket>()
  let accepted = 0
  server.on('connection', (socket) => {
    accepted += 1
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  context.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })

  return {
    port,
    origin: `${protocol}://127.0.0.1:${port}`,
    requests,
    sockets,
    get accepted() {
      return accepted
    },
    async nextSocket() {
      const [socket] = await once(server, 'connection')
      return socket
    },
  }
}

/** Reads and says nothing. */
export function listen(socket: Socket): void {
  socket.resume()
}

/** Answers with the start at once, then one drop every 10 ms. */
export function drip(start: string, drop: string): (socket: Socket) => void {
  return (socket) => {
    socket.once('data', () => {
      socket.write(start)
      const timer = setInterval(() => socket.write(drop), 10)
      socket.on('close', () => clearInterval(timer))
    })
  }
}
