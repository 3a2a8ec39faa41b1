// Subscribers in a separate process, with a ledger of all arrivals.
//
//   node --import tsx test/faults/_receiver.ts '{"secret":"whsec_…"}'
//
// Prints one line of JSON, `{ "port": … }`, when the process listens. Ends with the standard input. The URL decides the behaviour
// of a subscriber: `/answering`, `/slow?ms=100`, `/failing?times=1` (500 to the first attempts of each event), `/status?of=404`,
// `/cut` (closes the connection without a response), `/silent`, or `/gated`: it answers at once, but from `/hold` on keeps all
// requests waiting until `/release`. `/counts` and `/ledger` return the arrivals so far.

import { createHash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { verifyWebhook } from '../../lib/webhooks.ts'

/** The arguments of the subscribers. */
export interface ReceiverConfig {
  /** The signing secret of all subscribers. */
  readonly secret: string
}

/** Numbers of the arrived requests. */
export interface Counts {
  /** Requests with a whole body. */
  requests: number
  /** Requests without an answer that the sender has not given up. */
  open: number
  /** Requests with a wrong signature for the arrived body. */
  forged: number
  /** Requests that came while an earlier request of the same event was open at the same subscriber. */
  overlaps: number
}

/** The arrivals of an event at a subscriber. */
export interface Arrival {
  /** The subscriber: path and query of the URL. */
  readonly path: string
  /** By the header of the service. */
  readonly eventId: string
  count: number
  /** Requests without an answer that the sender has not given up. */
  open: number
  /** SHA-256 of the bodies in hex, each once. */
  readonly bodies: string[]
}

const { secret } = JSON.parse(process.argv[2] ?? '{}') as ReceiverConfig
const counts: Counts = { requests: 0, open: 0, forged: 0, overlaps: 0 }
const ledger = new Map<string, Arrival>()
const gate = new EventEmitter().setMaxListeners(0)
let isHeld = false

const orders: Record<string, () => unknown> = {
  '/counts': () => counts,
  '/ledger': () => [...ledger.values()],
  '/hold': () => {
    isHeld = true
  },
  '/release': () => {
    isHeld = false
    gate.emit('release')
  },
}

const server = createServer((request, response) => {
  const order = orders[request.url ?? '']
  if (order) response.end(JSON.stringify(order() ?? null))
  else receive(request, response)
}).listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }))
})
process.stdin.resume().on('end', () => process.exit())

function receive(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  // A request that was cut off halfway has not arrived.
  request.on('error', () => {})
  request.on('end', () => {
    counts.requests++
    counts.open++
    const arrival = enter(request, Buffer.concat(chunks))
    if (arrival.open > 0) counts.overlaps++
    arrival.open++
    response.on('close', () => {
      counts.open--
      arrival.open--
    })
    void answer(response, arrival)
  })
}

function enter({ url: path = '', headers }: IncomingMessage, body: Buffer): Arrival {
  const eventId = String(headers['x-service-event-id'])
  const known = ledger.get(`${path} ${eventId}`)
  const arrival = known ?? { path, eventId, count: 0, open: 0, bodies: [] }
  ledger.set(`${path} ${eventId}`, arrival)
  arrival.count++
  const digest = createHash('sha256').update(body).digest('hex')
  if (!arrival.bodies.includes(digest)) arrival.bodies.push(digest)
  if (!isSigned(body, headers['x-service-signature'])) counts.forged++
  return arrival
}

function isSigned(body: Buffer, signature: string | string[] | undefined): boolean {
  try {
    verifyWebhook(body, signature, secret)
    return true
  } catch {
    return false
  }
}

async function answer(response: ServerResponse, { path, count }: Arrival): Promise<void> {
  const { pathname, searchParams } = new URL(path, 'http://localhost')
  if (pathname === '/silent') return
  if (pathname === '/cut') return void response.destroy()
  if (pathname === '/status') response.statusCode = Number(searchParams.get('of'))
  if (pathname === '/gated' && isHeld) await once(gate, 'release')
  if (pathname === '/slow') await sleep(Number(searchParams.get('ms')))
  if (pathname === '/failing' && count <= Number(searchParams.get('times'))) response.statusCode = 500
  response.end('ok')
}
