import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { createBusinessApi } from 'business-api-kit'
import { createMemoryStore } from 'business-api-kit/memory'
import { createPlatform } from 'business-api-kit/platform'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop } from 'business-api-kit/webhooks'
import { traceBusinessApi, traceparent } from '../../examples/opentelemetry.ts'

const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const store = createMemoryStore()

function spans(): { name: string; attributes: object; parent: string | undefined }[] {
  const finished = exporter.getFinishedSpans()
  const names = new Map(finished.map((span) => [span.spanContext().spanId, span.name]))
  return finished.map(({ name, attributes, parentSpanContext }) => ({
    name,
    attributes,
    parent: names.get(parentSpanContext?.spanId ?? ''),
  }))
}

test('examples/opentelemetry makes a span of a request, with the store calls as children', async () => {
  const { key } = await createDeveloperSettings(store).apiKeys.create('org_a', {
    name: 'Traced',
    scopes: ['clients:read'],
  })
  const api = createBusinessApi(store)
  const stop = traceBusinessApi(provider.getTracer('test'))
  const request = new Request('http://x/api/v1/clients?limit=2', {
    headers: { authorization: `Bearer ${key}` },
  })
  assert.equal((await api(request)).status, 200)
  stop()

  const attributes = {
    'http.request.method': 'GET',
    'http.response.status_code': 200,
    'business_api.operation_id': 'listClients',
    'business_api.organization_id': 'org_a',
  }
  assert.deepEqual(
    spans().filter(({ name }) => name !== 'apiKeys.markUsed'),
    [
      { name: 'apiKeys.identify', attributes: {}, parent: 'GET /api/v1/clients' },
      { name: 'clients.admitAndList', attributes: {}, parent: 'GET /api/v1/clients' },
      { name: 'GET /api/v1/clients', attributes, parent: undefined },
    ],
  )
})

test('examples/opentelemetry makes a span of each attempt, and no span once stopped', async () => {
  exporter.reset()
  const { endpoints } = createDeveloperSettings(store, {
    allowPlaintextSecrets: true,
    allowPrivateNetworks: true,
  })
  await endpoints.register('org_a', { url: 'https://hooks.example/' })
  const sender = {
    send: async () => ({ status: 503, error: null, bodyExcerpt: '', durationMs: 1 }),
    close: async () => {},
  }
  const loop = createDeliveryLoop(store, sender)
  const ticket = { ticketId: 'tic_1', subject: 'Help', status: 'open' }
  const publish = () => createPlatform(store).publish('org_a', 'support.ticket_created', ticket)

  const stop = traceBusinessApi(provider.getTracer('test'))
  const eventId = await publish()
  await loop.runOnce()
  stop()
  const attempts = spans().filter(({ name }) => name === 'POST support.ticket_created')
  assert.equal(attempts.length, 1)
  const { attributes } = attempts[0] ?? { attributes: {} }
  assert.deepEqual(
    { ...attributes, 'business_api.endpoint_id': 'we' },
    {
      'business_api.organization_id': 'org_a',
      'business_api.endpoint_id': 'we',
      'business_api.event_id': eventId,
      'business_api.attempt': 1,
      'http.response.status_code': 503,
    },
  )

  exporter.reset()
  await publish()
  await loop.runOnce()
  assert.deepEqual(spans(), [])
})

test('examples/opentelemetry links the attempts of an event to the request that wrote the event', async () => {
  exporter.reset()
  const settings = createDeveloperSettings(store, {
    allowPlaintextSecrets: true,
    allowPrivateNetworks: true,
  })
  const { key } = await settings.apiKeys.create('org_links', { name: 'Traced', scopes: ['clients:write'] })
  await settings.endpoints.register('org_links', { url: 'https://hooks.example/', types: ['client.created'] })
  const sender = {
    send: async () => ({ status: 200, error: null, bodyExcerpt: '', durationMs: 1 }),
    close: async () => {},
  }
  const loop = createDeliveryLoop(store, sender)
  const api = createBusinessApi(store, { traceparent })
  const stop = traceBusinessApi(provider.getTracer('test'))
  const request = new Request('http://x/api/v1/clients', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Atlas Ceramics' }),
  })
  assert.equal((await api(request)).status, 200)
  await loop.runOnce()
  stop()

  const finished = exporter.getFinishedSpans()
  const created = finished.find(({ name }) => name === 'POST /api/v1/clients')
  const attempts = finished.filter(({ name }) => name === 'POST client.created')
  assert.equal(attempts.length, 1)
  const [link] = attempts[0]?.links ?? []
  assert.equal(link?.context.spanId, created?.spanContext().spanId)
  assert.equal(link?.context.traceId, created?.spanContext().traceId)
  assert.equal(link?.context.isRemote, true)
  assert.equal(attempts[0]?.parentSpanContext, undefined)
  assert.notEqual(attempts[0]?.spanContext().traceId, created?.spanContext().traceId)
  assert.equal(traceparent(), undefined)
})
