import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import type { SettingsPageOptions } from '../../lib/settings-page.ts'
import type { WebhookSender } from '../../lib/webhooks/webhook-sender.ts'
import { named } from '../_service.ts'
import { BASE, ORGANIZATION, setUp, type Under } from './_page.ts'
import { type Seeded, type SeedTexts, seed } from './_seed.ts'

/** A host with the page on a new port. */
export interface Host extends Under {
  readonly origin: string
  readonly base: string
  readonly seeded: Seeded
  /** Answers requests outside the page. */
  other(request: IncomingMessage, response: ServerResponse): void
  close(): Promise<void>
}

/** The parts of a host with text of other people. */
export interface HostOptions {
  readonly seeds?: SeedTexts
  readonly sender?: WebhookSender
  /** True: the organization has nothing. Default false. */
  readonly isEmpty?: boolean
}

/** A sender with the answers of a subscriber. */
export const SENDER: WebhookSender = {
  async send() {
    const timings = { dnsMs: 3, connectMs: 12, tlsMs: 25, firstByteMs: 48 }
    return { status: 204, error: null, bodyExcerpt: '', durationMs: 88, timings }
  },
  async close() {},
}

export async function startHost({
  seeds,
  sender = SENDER,
  isEmpty = false,
  ...options
}: Partial<SettingsPageOptions> & HostOptions = {}): Promise<Host> {
  const store = named(createMemoryStore(), { baseUrl: 'https://api.example.com' })
  const api = createBusinessApi(store, { logger: false })
  const under = setUp({ store, api, settings: { sender }, ...options })
  under.access = {
    organizationId: ORGANIZATION,
    organizationName: 'Jasmin Digital',
    actor: 'ada@example.com',
    can: 'everything',
  }
  // Of a host without anything, no test asks for ids.
  const seeded = isEmpty ? ({} as Seeded) : await seed(store, under.settings, ORGANIZATION, seeds)
  const server = createServer((request, response) => {
    void under.page(request, response, () => host.other(request, response))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const host: Host = Object.assign(under, {
    origin,
    base: origin + BASE,
    seeded,
    other: (_: IncomingMessage, response: ServerResponse) => void response.writeHead(404).end(),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  })
  return host
}
