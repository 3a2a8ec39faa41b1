import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { createBusinessApi } from 'business-api-kit'
import { createPlatform } from 'business-api-kit/platform'
import { createPostgresStore } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createWebhookSender, verifyWebhook } from 'business-api-kit/webhooks'
import Stripe from 'stripe'
import { createTestDatabase } from '../_database.ts'

// Everything without fakes: the API, PostgreSQL, the loop, the sender and a subscriber's socket.

interface Arrival {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const secretKeys = ['ab'.repeat(31).concat('01')]
const stripe = new Stripe('sk_test_unused')

test('events of the API and the host arrive, and the official stripe package accepts each of them', async (t) => {
  const database = await createTestDatabase()
  const store = createPostgresStore(database.url)
  const arrivals: Arrival[] = []
  const server = createServer(async (request, response) => {
    arrivals.push({ headers: request.headers, body: await text(request) })
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sender = createWebhookSender(DEVELOPMENT)
  const loop = createDeliveryLoop(store, sender, { secretKeys })
  t.after(async () => {
    await sender.close()
    server.close()
    await store.close()
    await database.drop()
  })

  const settings = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const { id, secret } = await settings.endpoints.register('org_a', { url })
  const { key } = await settings.apiKeys.create('org_a', { name: 'Website', scopes: ['clients:write'] })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ name: 'Écume Ceramics 🏺' })
  const created = await createBusinessApi(store)(
    new Request('http://x/api/v1/clients', { method: 'POST', headers, body }),
  )
  assert.equal(created.status, 200)
  await loop.runOnce()

  const types = arrivals.map(({ headers: { 'x-service-event-type': type } }) => type)
  assert.deepEqual(types.sort(), ['business.created', 'client.created'])
  for (const arrival of arrivals.splice(0)) assertAccepted(arrival, [secret])

  const { secret: newSecret } = await settings.endpoints.rotateSecret('org_a', id)
  const ticket = { ticketId: 'tic_1', subject: 'Help', status: 'open' }
  const eventId = await createPlatform(store).publish('org_a', 'support.ticket_created', ticket)
  await loop.runOnce()
  const [rotated] = arrivals
  assert.ok(rotated)
  assert.equal(rotated.headers['x-service-event-id'], eventId)
  assert.equal(String(rotated.headers['x-service-signature']).split('v1=').length, 3)
  assertAccepted(rotated, [secret, newSecret])
  assert.throws(() => stripe.webhooks.constructEvent(`${rotated.body} `, signatureOf(rotated), newSecret))
})

function signatureOf({ headers }: Arrival): string {
  return String(headers['x-service-signature'])
}

/** Checks every active secret with stripe's verifier and our own. */
function assertAccepted(arrival: Arrival, secrets: readonly string[]): void {
  for (const secret of secrets) {
    const event = stripe.webhooks.constructEvent(arrival.body, signatureOf(arrival), secret)
    assert.equal(event.id, arrival.headers['x-service-event-id'])
    verifyWebhook(arrival.body, signatureOf(arrival), secret)
  }
}
