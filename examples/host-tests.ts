// A test of an application that records a payment and checks the webhook that its customer receives. The store is in
// memory. The webhook is signed, sent and verified as in production, and no test has to wait for a retry.
//
//   npx tsx --test examples/host-tests.ts

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createMemoryStore } from 'business-api-kit/memory'
import { createPlatform } from 'business-api-kit/platform'
import { createDeveloperSettings } from 'business-api-kit/settings'
import {
  type CapturedWebhooks,
  captureWebhooks,
  createFakeClock,
  waitForDelivery,
} from 'business-api-kit/testing'
import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'

const organizationId = 'org_example'
const development = { allowHttp: true, allowPrivateNetworks: true }
const clock = createFakeClock()
const store = createMemoryStore({ clock })
const platform = createPlatform(store, { clock })
const settings = createDeveloperSettings(store, { ...development, allowPlaintextSecrets: true, clock })
const sender = createWebhookSender(development)
const loop = createDeliveryLoop(store, sender, { allowPlaintextSecrets: true, logger: false })

let captured: CapturedWebhooks
let answer = 204

before(async () => {
  captured = await captureWebhooks({ settings, organizationId, clock, answer: () => answer })
})
after(async () => {
  await captured.close()
  await sender.close()
})

/** The code to test, which is called when a bank transfer arrives. */
async function receiveTransfer(invoiceId: string, amount: string, transferId: string): Promise<void> {
  await platform.invoices.recordPayment(organizationId, { invoiceId, amount, idempotencyKey: transferId })
}

async function issueInvoice(): Promise<string> {
  const dueDate = new Date(clock() + 30 * 24 * 60 * 60 * 1000)
  const { id: invoiceId } = await platform.invoices.create(organizationId, {
    currency: 'TND',
    total: '1250',
    dueDate,
  })
  await platform.invoices.issue(organizationId, { invoiceId })
  return invoiceId
}

test('a transfer that settles an invoice tells the customer once, also when the bank repeats it', async () => {
  const invoiceId = await issueInvoice()
  await receiveTransfer(invoiceId, '1250', 'transfer-1')
  await receiveTransfer(invoiceId, '1250', 'transfer-1')
  await loop.runOnce()
  const paid = await captured.next('invoice.paid')
  assert.equal(paid.data.invoiceId, invoiceId)
  assert.equal(captured.events.filter(({ type }) => type === 'invoice.paid').length, 1)
})

test('a customer whose server is down gets the event with the retry', async () => {
  const invoiceId = await issueInvoice()
  await loop.runOnce()
  answer = 500
  await receiveTransfer(invoiceId, '1250', 'transfer-2')
  await loop.runOnce()
  answer = 204
  clock.advance(30_000)
  await loop.runOnce()
  const { id: eventId, data } = await captured.next('invoice.paid')
  assert.equal(data.invoiceId, invoiceId)
  const [delivery] = await waitForDelivery(store, { organizationId, eventId })
  assert.equal(delivery?.attempts, 2)
})
