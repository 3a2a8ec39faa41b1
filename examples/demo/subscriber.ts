import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Event } from 'business-api-kit'
import { receiveWebhook } from 'business-api-kit/webhooks'

/** The subscriber of the demo's webhooks, in the place of a customer's server. */
export interface Subscriber {
  /** Gives the URL for an organization's events. */
  urlOf(organizationId: string): string
  /** Sets the secret that an organization received when registering that URL. */
  setSecret(organizationId: string, secret: string): void
  close(): Promise<void>
}

/**
 * Starts a subscriber on a free port of this machine. A subscriber to copy is examples/receive-webhook.ts.
 *
 * @param onEvent called with each verified event
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
    // First the answer, then the work.
    response.writeHead(204).end()
    onEvent(event)
  }

  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    urlOf: (organizationId) => `http://127.0.0.1:${port}/${organizationId}`,
    setSecret: (organizationId, secret) => void secrets.set(`/${organizationId}`, secret),
    async close() {
      const closed = once(server.close(), 'close')
      server.closeAllConnections()
      await closed
    },
  }
}

/** An event in a line: `12:04:31 received client.created evt_… (Bleu Nuit Ceramics)`. */
export function describeEvent({ id, type, createdAt, data }: Event): string {
  const [name] = Object.values(data).flatMap((value) => nameOf(value) ?? [])
  return `${createdAt.slice(11, 19)} received ${type} ${id}${name === undefined ? '' : ` (${name})`}`
}

/** The name of a client is in the client's business. */
function nameOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if ('name' in value && typeof value.name === 'string') return value.name
  return 'business' in value ? nameOf(value.business) : undefined
}
