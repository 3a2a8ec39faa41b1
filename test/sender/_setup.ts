import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import type { TestContext } from 'node:test'
import { createWebhookSender } from '../../lib/sender/sender.ts'
import type { WebhookSenderOptions } from '../../lib/sender/sender-options.ts'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from '../../lib/webhooks/webhook-sender.ts'

/** A sender that may send to this machine, as in development. It's closed after the test. */
export function createLocalSender(context: TestContext, options: WebhookSenderOptions = {}): WebhookSender {
  return createSender(context, { allowPrivateNetworks: true, allowHttp: true, ...options })
}

/** A sender that is closed after the test. */
export function createSender(context: TestContext, options: WebhookSenderOptions): WebhookSender {
  const sender = createWebhookSender(options)
  context.after(() => sender.close())
  return sender
}

/** A request in the form of the delivery loop. */
export function makeRequest(url: string, headers: Record<string, string> = {}): WebhookRequest {
  return {
    url,
    headers: {
      'Content-Type': 'application/json',
      'X-SERVICE-Event-Id': 'evt_01',
      'X-SERVICE-Event-Type': 'client.created',
      'X-SERVICE-Signature': 't=1,v1=00',
      ...headers,
    },
    body: '{"id":"evt_01","text":"é 🏺"}',
  }
}

/** Resolves every name to these addresses. */
export function resolveTo(...addresses: string[]): Lookup {
  return (_hostname, _options, callback) => callback(null, addresses.map(toLookupAddress))
}

/** An address in the form returned by `dns.lookup`. */
export function toLookupAddress(address: string): LookupAddress {
  return { address, family: address.includes(':') ? 6 : 4 }
}

/** Asserts that an attempt failed with this code and a detail for the operator. */
export function assertFailed(answer: WebhookAnswer, error: string, detail = /./): void {
  assert.deepEqual(
    { status: answer.status, error: answer.error },
    { status: null, error },
    answer.detail ?? '',
  )
  assert.match(answer.detail ?? '', detail)
  assert.equal(answer.bodyExcerpt, '')
}
