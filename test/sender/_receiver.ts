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
  /** Alternating names and values as sent. */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

/** A subscriber on this machine. */
export interface Receiver {
  readonly port: number
  /** `http://127.0.0.1:<port>` or with https. */
  readonly origin: string
  /** All requests that have been received completely. */
  readonly requests: readonly Received[]
  /** The open connections. */
  readonly sockets: ReadonlySet<Socket>
  /** The number of connections so far. */
  readonly accepted: number
  /** Resolves at the next connection. */
  nextSocket(): Promise<Socket>
}

/** Responds to a request that has been received completely. */
export type AnswerRequest = (response: ServerResponse, request: Received) => void

/** Starts an HTTP subscriber that ends with the test. */
export function startReceiver(context: TestContext, answer: AnswerRequest = answerOk): Promise<Receiver> {
  const requests: Received[] = []
  return start(context, createServer(receive(requests, answer)), 'http', requests)
}

/** Starts an HTTPS subscriber with {@link CERTIFICATE} that ends with the test. */
export function startSecureReceiver(
  context: TestContext,
  answer: AnswerRequest = answerOk,
  own: ServerOptions = {},
): Promise<Receiver> {
  const requests: Received[] = []
  const options = { cert: CERTIFICATE, key: PRIVATE_KEY, ...own }
  return start(context, createSecureServer(options, receive(requests, answer)), 'https', requests)
}

/** Starts a server that passes each connection to `onSocket`. It ends with the test. */
export function startRawReceiver(
  context: TestContext,
  onSocket: (socket: Socket) => void,
  protocol: 'http' | 'https' = 'http',
): Promise<Receiver> {
  return start(context, createRawServer(onSocket), protocol, [])
}

/** Sends these bytes once on each connection, after the first bytes received. */
export function replyWith(text: string): (socket: Socket) => void {
  return (socket) => void socket.once('data', () => socket.write(text))
}

/** Resolves when either side has closed a connection. */
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

/** Reads but never responds. */
export function listen(socket: Socket): void {
  socket.resume()
}

/** Responds with the start right away and then with one piece every 10 ms. */
export function drip(start: string, drop: string): (socket: Socket) => void {
  return (socket) => {
    socket.once('data', () => {
      socket.write(start)
      const timer = setInterval(() => socket.write(drop), 10)
      socket.on('close', () => clearInterval(timer))
    })
  }
}
