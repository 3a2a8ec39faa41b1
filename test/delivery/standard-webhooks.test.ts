import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { createPlatform } from 'business-api-kit/platform'
import { createPostgresStore } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createWebhookSender, verifyWebhook } from 'business-api-kit/webhooks'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { Webhook as SvixWebhook } from 'svix'
import { createTestDatabase } from '../_database.ts'
import { named } from '../_service.ts'

// A delivery over a socket that is verified with the packages subscribers use. Our own signature is verified
// by `stripe` and the Standard Webhooks headers by `standardwebhooks` and `svix`, all with the secret shown
// to the administrator.

interface Arrival {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const secretKeys = ['ab'.repeat(31).concat('02')]
const stripe = new Stripe('sk_test_unused')

const verifiers: Readonly<Record<string, (arrival: Arrival, secret: string) => unknown>> = {
  'business-api-kit': ({ body, headers }, secret) =>
    verifyWebhook(body, headers['x-service-signature'], secret),
  stripe: ({ body, headers }, secret) =>
    stripe.webhooks.constructEvent(body, String(headers['x-service-signature']), secret),
  standardwebhooks: ({ body, headers }, secret) => new Webhook(secret).verify(body, textsOf(headers)),
  svix: ({ body, headers }, secret) => new SvixWebhook(secret).verify(body, textsOf(headers)),
}

function textsOf(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

test('stripe, standardwebhooks and svix verify the same delivery with the same secret, even during a rotation', async (t) => {
  const database = await createTestDatabase()
  const store = createPostgresStore(database.url)
  const arrivals: Arrival[] = []
  const server = createServer(async (request, response) => {
    arrivals.push({ headers: request.headers, body: await text(request) })
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sender = createWebhookSender(DEVELOPMENT)
  t.after(async () => {
    await sender.close()
    server.close()
    await store.close()
    await database.drop()
  })
  const settings = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const { businesses } = createPlatform(store)
  const deliver = async (standardWebhooks = false): Promise<Arrival> => {
    await businesses.create('org_a', { name: 'Écume Ceramics 🏺' })
    await createDeliveryLoop(named(store, { standardWebhooks }), sender, { secretKeys }).runOnce()
    const [arrival, ...others] = arrivals.splice(0)
    assert.ok(arrival && others.length === 0)
    return arrival
  }

  const { id, secret } = await settings.endpoints.register('org_a', { url })
  const plain = await deliver()
  assert.deepEqual(
    Object.keys(plain.headers).filter((name) => name.startsWith('webhook-')),
    [],
  )
  assertVerified(await deliver(true), [secret])

  await settings.endpoints.update('org_a', id, { standardWebhooks: true })
  const delivery = await deliver()
  assertVerified(delivery, [secret])
  const { headers, body } = delivery
  assert.equal(headers['webhook-id'], JSON.parse(body).id)
  assert.match(String(headers['x-service-signature']), new RegExp(`^t=${headers['webhook-timestamp']},v1=`))

  const { secret: newSecret } = await settings.endpoints.rotateSecret('org_a', id)
  assertVerified(await deliver(), [newSecret, secret])
})

/** Every verifier accepts the delivery with every secret, and rejects any other body or secret. */
function assertVerified(delivery: Arrival, secrets: readonly string[]): void {
  const wrong = `whsec_${Buffer.alloc(32).toString('base64')}`
  for (const [name, verify] of Object.entries(verifiers)) {
    for (const secret of secrets) {
      verify(delivery, secret)
      assert.throws(() => verify({ ...delivery, body: `${delivery.body} ` }, secret), Error, name)
    }
    assert.throws(() => verify(delivery, wrong), Error, name)
  }
}
