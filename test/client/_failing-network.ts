import { once } from 'node:events'
import {
  createServer,
  request as forward,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createSocketServer,
  type Socket,
  type Server as SocketServer,
} from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { breakConnection } from '../faults/_proxy.ts'

/** What happens to an attempt between the client and the API. */
export type Step =
  | 'passes'
  | 'refused'
  | 'cut before the request was read'
  | 'reset after half of the request went through'
  | 'reset before the last byte of the request went through'
  | 'cut after the request was read'
  | 'carried out, and the answer lost'
  | 'carried out, and reset before the answer'
  | 'carried out, and reset in the middle of the answer'
  | 'carried out, and the head of the answer cut'
  | 'carried out, and the body of the answer cut'
  | 'carried out, and the body of the answer cut without a length'
  | 'carried out, and answered with nothing for too long'
  | 'carried out, and answered 500'
  | '502 of a proxy'
  | '503'
  | '503 for some seconds'
  | '429'
  | '429 until a time'

/** All steps that fail. */
export const FAILURES: readonly Exclude<Step, 'passes'>[] = [
  'refused',
  'cut before the request was read',
  'reset after half of the request went through',
  'reset before the last byte of the request went through',
  'cut after the request was read',
  'carried out, and the answer lost',
  'carried out, and reset before the answer',
  'carried out, and reset in the middle of the answer',
  'carried out, and the head of the answer cut',
  'carried out, and the body of the answer cut',
  'carried out, and the body of the answer cut without a length',
  'carried out, and answered with nothing for too long',
  'carried out, and answered 500',
  '502 of a proxy',
  '503',
  '503 for some seconds',
  '429',
  '429 until a time',
]

/** A network in front of the API, using real sockets. */
export interface FailingNetwork {
  /** The URL for the client. */
  readonly url: string
  /** The number of attempts by step, including those that reached the API. */
  readonly counts: Map<Step, number>
  /** Decides what happens to the next attempt. */
  next: () => Step
  /** The fetch for the client. Sends refused attempts to a port without a listener. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  close(): void
}

/** Starts a network in front of an API. */
export async function startFailingNetwork(apiUrl: string): Promise<FailingNetwork> {
  const server = createServer((request, response) => {
    void handle(request, response).catch(() => request.socket.destroy())
  })
  const url = await listen(server)
  // Closes all connections before reading anything.
  const closing = createServer()
  closing.on('connection', (socket) => socket.destroy())
  const closingUrl = await listen(closing)
  // Forwards everything up to the given step and then resets both connections.
  const resetting = createSocketServer((near) => {
    let request = Buffer.alloc(0)
    near.on('error', () => {})
    near.on('data', (chunk: Buffer) => {
      request = Buffer.concat([request, chunk])
      if (isWhole(request)) void forwardAndReset(apiUrl, request, near)
    })
  })
  const resettingUrl = await listen(resetting)
  const refusedUrl = await freeUrl()
  const network: FailingNetwork = {
    url,
    counts: new Map(),
    next: () => 'passes',
    fetch(target, init) {
      const step = network.next()
      network.counts.set(step, (network.counts.get(step) ?? 0) + 1)
      const origins: Partial<Record<Step, string>> = {
        refused: refusedUrl,
        'cut before the request was read': closingUrl,
      }
      const origin = origins[step] ?? (/\breset\b/.test(step) ? resettingUrl : url)
      const headers = { ...(init.headers as Record<string, string>), 'x-step': step }
      return fetch(target.replace(url, origin), { ...init, headers })
    },
    close() {
      server.close()
      server.closeAllConnections()
      closing.close()
      resetting.close()
    },
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const step = request.headers['x-step'] as Step
    const body = await buffer(request)
    if (step === 'cut after the request was read') return void request.socket.destroy()
    if (/^\d/.test(step)) {
      const soon = new Date(Date.now() + 5000).toUTCString()
      const retryAfter = step === '429 until a time' ? soon : step === '503 for some seconds' ? '5' : '0'
      response.writeHead(Number(step.slice(0, 3)), { 'Retry-After': retryAfter }).end('<html>')
      return
    }
    const answer = await pass(apiUrl, request, body)
    if (step === 'passes') return void response.writeHead(answer.status, answer.headers).end(answer.body)
    if (step === 'carried out, and answered with nothing for too long') return
    if (step === 'carried out, and answered 500')
      return void response.writeHead(500).end('{"error":"Internal error"}')
    const half = answer.body.subarray(0, answer.body.length / 2)
    const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
    const texts: Partial<Record<Step, (string | Buffer)[]>> = {
      'carried out, and the head of the answer cut': [head],
      'carried out, and the body of the answer cut': [
        `${head}Content-Length: ${answer.body.length}\r\n\r\n`,
        half,
      ],
      'carried out, and the body of the answer cut without a length': [
        `${head}Connection: close\r\n\r\n`,
        half,
      ],
    }
    for (const text of texts[step] ?? []) request.socket.write(text)
    request.socket.end()
  }
  return network
}

/** Returns `true` if all bytes of a request have been received. */
function isWhole(request: Buffer): boolean {
  const head = request.indexOf('\r\n\r\n')
  const length = Number(
    /content-length: *(\d+)/i.exec(request.toString('latin1', 0, Math.max(head, 0)))?.[1] ?? 0,
  )
  return head >= 0 && request.length >= head + 4 + length
}

/** Long enough to read the bytes before a reset. */
const READING_MS = 30

async function forwardAndReset(apiUrl: string, request: Buffer, near: Socket): Promise<void> {
  const step = /^x-step: *(.*)$/im.exec(request.toString('latin1'))?.[1]?.trim() as Step
  const far = connect(Number(new URL(apiUrl).port), '127.0.0.1').on('error', () => {})
  if (step === 'reset after half of the request went through') {
    far.write(request.subarray(0, request.length / 2))
    await sleep(READING_MS)
  } else if (step === 'reset before the last byte of the request went through') {
    far.write(request.subarray(0, -1))
    await sleep(READING_MS)
  } else {
    const answered = once(far, 'data') as Promise<[Buffer]>
    far.write(request)
    const [answer] = await answered
    if (step === 'carried out, and reset in the middle of the answer') {
      near.write(answer.subarray(0, answer.length / 2))
      await sleep(READING_MS)
    }
  }
  breakConnection(far)
  breakConnection(near)
}

async function pass(apiUrl: string, request: IncomingMessage, body: Buffer) {
  const headers = { ...request.headers, host: new URL(apiUrl).host }
  const passed = forward(`${apiUrl}${request.url}`, { method: request.method ?? 'GET', headers })
  const answered = once(passed, 'response') as Promise<[IncomingMessage]>
  passed.end(body)
  const [answer] = await answered
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await buffer(answer) }
}

async function listen(server: Server | SocketServer): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Returns the URL of a port without a listener. */
async function freeUrl(): Promise<string> {
  const server = createServer()
  const url = await listen(server)
  server.close()
  await once(server, 'close')
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'error')
  return url
}
