import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { verifyWebhook } from '../../lib/webhooks.ts'

/** The subscriber of a customer, and what has arrived. */
export interface Receiver {
  readonly url: string
  readonly server: Server
  /** The signing secrets by path. */
  readonly secrets: Map<string, readonly string[]>
  /** Requests without a valid signature. */
  readonly forged: string[]
  readonly arrivals: number
  /** The ids of the events of a type about a record. */
  eventsAbout(path: string, type: string, recordId: string): ReadonlySet<string>
  /** The number of events of a type. */
  countOf(path: string, type: string): number
}

/** Listens. `/sometimes` answers every tenth request with 500, an event at most once. */
export async function startReceiver(): Promise<Receiver> {
  const secrets = new Map<string, readonly string[]>()
  const forged: string[] = []
  const events = new Map<string, Set<string>>()
  const failed = new Set<string>()
  let arrivals = 0

  function enter(name: string, eventId: string): void {
    const ids = events.get(name) ?? new Set()
    events.set(name, ids.add(eventId))
  }

  const server = createServer(async (request, response) => {
    const { url: path = '', headers } = request
    const body = await text(request)
    const event = JSON.parse(body)
    arrivals++
    try {
      verifyWebhook(body, String(headers['x-service-signature']), [...(secrets.get(path) ?? [])])
    } catch (error) {
      forged.push(`${path} ${event.type}: ${error}`)
    }
    if (path === '/sometimes' && arrivals % 10 === 0 && !failed.has(event.id)) {
      failed.add(event.id)
      response.statusCode = 500
      response.end('not now')
      return
    }
    enter(`${path} ${event.type}`, event.id)
    if (event.data.invoiceId !== undefined) enter(`${path} ${event.type} ${event.data.invoiceId}`, event.id)
    response.end('ok')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    secrets,
    forged,
    get arrivals() {
      return arrivals
    },
    eventsAbout: (path, type, recordId) => events.get(`${path} ${type} ${recordId}`) ?? new Set(),
    countOf: (path, type) => events.get(`${path} ${type}`)?.size ?? 0,
  }
}
