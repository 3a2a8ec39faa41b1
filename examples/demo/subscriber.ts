import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Event } from 'business-api-kit'
import { receiveWebhook } from 'business-api-kit/webhooks'

/** The demo's webhook subscriber, in place of a customer's server. */
export interface Subscriber {
  /** Returns the URL for an endpoint's events. @param path `<organization id>` or `<organization id>/<program>` */
  urlOf(path: string): string
  /** Sets the secret that was returned when the organization registered this URL. */
  setSecret(path: string, secret: string): void
  close(): Promise<void>
}

/**
 * Starts a subscriber on a free port of this machine. If you need one to copy, see examples/receive-webhook.ts.
 *
 * @param onEvent called with each verified event of an organization, but not with the copies for its programs
 */
export async function startSubscriber(onEvent: (event: Event) => void): Promise<Subscriber> {
  const secrets = new Map<string, string>()
  const server: Server = createServer((request, response) => {
    receive(request, response).catch(() => {
      if (!response.headersSent) response.writeHead(400).end()
    })
  })

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { event } = await receiveWebhook(request, { secret: secrets.get(request.url ?? '') ?? 'none' })
    // Respond before doing any work.
    response.writeHead(204).end()
    if (request.url?.lastIndexOf('/') === 0) onEvent(event)
  }

  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    urlOf: (path) => `http://127.0.0.1:${port}/${path}`,
    setSecret: (path, secret) => void secrets.set(`/${path}`, secret),
    async close() {
      const closed = once(server.close(), 'close')
      server.closeAllConnections()
      await closed
    },
  }
}

/** Describes an event in one line, for example `12:04:31 received client.created evt_… (Bleu Nuit Ceramics)`. */
export function describeEvent({ id, type, createdAt, data }: Event): string {
  const [name] = Object.values(data).flatMap((value) => nameOf(value) ?? [])
  return `${createdAt.slice(11, 19)} received ${type} ${id}${name === undefined ? '' : ` (${name})`}`
}

/** The name of a client is that of its business. */
function nameOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if ('name' in value && typeof value.name === 'string') return value.name
  return 'business' in value ? nameOf(value.business) : undefined
}
