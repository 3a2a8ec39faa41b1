import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { type BusinessApiStore, createBusinessApi, type Event, SCOPES } from '../../lib/index.ts'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender, signWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase } from '../_database.ts'

// The other side of the examples: a whole platform as customers know it: a PostgreSQL, the API on a port, and webhooks
// over real sockets.

export interface TestPlatform {
  readonly databaseUrl: string
  /** The URL of the API. */
  readonly url: string
  readonly organizationId: string
  /** An API key with every scope. */
  readonly key: string
  /** What a client of the API needs: the URL and the key. */
  readonly api: { readonly url: string; readonly key: string }
  readonly store: BusinessApiStore
  /** The host's own calls. */
  readonly calls: Platform
  /** Registers an endpoint; gives the secret. */
  register(url: string): Promise<string>
  /** Makes the due attempts; retries are due at once. Gives the outcomes. */
  deliver(): Promise<object>
  /** Has everything sent again that was sent, under the same event ids. */
  redeliverAll(): Promise<void>
  /** Counts the attempts of all deliveries together. */
  countAttempts(): Promise<number>
  close(): Promise<void>
}

const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const secretKeys = ['ab'.repeat(31).concat('01')]

/** Starts a platform with an organization. */
export async function startPlatform(): Promise<TestPlatform> {
  const database = await createTestDatabase()
  const store = createPostgresStore(database.url)
  const settings = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys })
  const sender = createWebhookSender(DEVELOPMENT)
  const loop = createDeliveryLoop(store, sender, {
    secretKeys,
    retryDelaysMs: [0, 0, 0, 0],
    logger: false,
  })
  const server = createServer(createBusinessApi(store, { rateLimit: false }))
  const organizationId = 'org_example'
  const { key } = await settings.apiKeys.create(organizationId, { name: 'Test', scopes: SCOPES })
  const url = await listen(server)
  return {
    databaseUrl: database.url,
    url,
    organizationId,
    key,
    api: { url, key },
    store,
    calls: createPlatform(store),
    register: async (to) => (await settings.endpoints.register(organizationId, { url: to })).secret,
    deliver: () => loop.runOnce(),
    async redeliverAll() {
      const { data } = await settings.deliveries.list(organizationId)
      for (const { id } of data) await settings.deliveries.redeliver(organizationId, id)
    },
    async countAttempts() {
      const { data } = await settings.deliveries.list(organizationId, { limit: 200 })
      return data.reduce((sum, { attempts }) => sum + attempts, 0)
    },
    async close() {
      await sender.close()
      server.close()
      await store.close()
      await database.drop()
    },
  }
}

/** Listens on a free port; gives the URL. */
export async function listen(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Returns the URL of a port that was free a moment ago, for a program that must know the secret before listening. */
export async function freeUrl(): Promise<string> {
  const server = createServer()
  const url = await listen(server)
  server.close()
  await once(server, 'close')
  return url
}

/** A path in a folder that goes with the test file. */
export function temporaryPath(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'business-api-'))
  // Again and again for a second: a program that is just ending may write a last file.
  after(() => rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  return join(folder, name)
}

/** The body of an event in the platform's form. */
export function bodyOf(
  id: string,
  type: Event['type'],
  data: object,
  createdAt = '2026-03-14T09:26:53.589Z',
): string {
  return JSON.stringify({ id, type, createdAt, data })
}

/** Posts a signed body; gives the status. */
export async function post(
  url: string,
  body: string,
  secret: string,
  signature = signWebhook(body, secret),
): Promise<number> {
  const headers = { 'Content-Type': 'application/json', 'X-SERVICE-Signature': signature }
  return (await fetch(url, { method: 'POST', headers, body })).status
}

/** Asserts a subscriber's answers to requests that are not to be trusted, too long or no event. */
export async function assertRefusals(url: string, body: string, secret: string): Promise<void> {
  const late = Math.floor(Date.now() / 1000) - 400
  assert.equal(await post(url, body, 'whsec_of_somebody_else'), 400)
  assert.equal(await post(url, `${body} `, secret, signWebhook(body, secret)), 400)
  assert.equal(await post(url, body, secret, signWebhook(body, secret, late)), 400)
  assert.equal((await fetch(url)).status, 405)
  const large = body + ' '.repeat(1024 * 1024)
  assert.equal(await post(url, large, secret), 413)
  for (const noEvent of ['null', '[]', '"evt_1"', '{}', body.slice(0, -1), '']) {
    assert.equal(await post(url, noEvent, secret), 400, noEvent)
  }
}
