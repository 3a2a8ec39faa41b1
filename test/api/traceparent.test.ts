import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { tracingChannel } from 'node:diagnostics_channel'
import { after, type TestContext, test } from 'node:test'
import type { AttemptTrace, BusinessApiOptions } from '../../lib/index.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, type WebhookRequest } from '../../lib/webhooks.ts'
import { rawHead, rawRequest, recordOf, serve, startPlatform } from './_api.ts'

// The trace of a create is passed on to its delivery attempts. Tested with a real socket, PostgreSQL and
// the delivery loop.

const platform = await startPlatform()
after(() => platform.close())

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACEPARENT = `00-${TRACE_ID}-00f067aa0ba902b7-01`
const OTHER = `00-${TRACE_ID}-1111111111111111-00`

/**
 * Creates a client with the given headers and delivers its events. Returns the requests and the trace of each attempt.
 */
async function createAndDeliver(
  t: TestContext,
  headers: readonly string[],
  options: BusinessApiOptions = {},
) {
  const { id, key } = await platform.organization()
  const settings = createDeveloperSettings(platform.store, {
    allowPlaintextSecrets: true,
    allowPrivateNetworks: true,
  })
  await settings.endpoints.register(id, { url: 'https://hooks.example/', types: ['client.created'] })
  const server = await serve(platform.apiWith(options))
  t.after(() => server.close())
  const body = JSON.stringify({ name: 'Atlas Ceramics' })
  const head = rawHead(
    'POST /api/v1/clients',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    'Connection: close',
    ...headers,
  )
  recordOf(await rawRequest(server, head + body))

  const traces: (string | null)[] = []
  const onAttempt = (attempt: unknown) => void traces.push((attempt as AttemptTrace).traceparent)
  const requests: WebhookRequest[] = []
  const sender = {
    async send(request: WebhookRequest) {
      requests.push(request)
      return { status: 200, error: null, bodyExcerpt: '', durationMs: 1 }
    },
    close: async () => {},
  }
  const channel = tracingChannel<object, object>('business-api:attempt')
  channel.start.subscribe(onAttempt)
  try {
    await createDeliveryLoop(platform.loopStore, sender, { allowPlaintextSecrets: true }).runOnce()
  } finally {
    channel.start.unsubscribe(onAttempt)
  }
  return { traces, requests }
}

test("POST with a traceparent: attempts have the trace, but subscribers don't see it", async (t) => {
  const { traces, requests } = await createAndDeliver(t, [`Traceparent: ${TRACEPARENT}`])
  assert.deepEqual(traces, [TRACEPARENT])
  assert.equal(requests.length, 1)
  assert.equal(JSON.stringify(requests).includes(TRACE_ID), false)
  assert.equal(
    Object.keys(requests[0]?.headers ?? {}).some((name) => /^trace/i.test(name)),
    false,
  )
})

test('POST with a missing or malicious traceparent succeeds, and attempts have no trace', async (t) => {
  for (const headers of [
    [],
    [`Traceparent: ${TRACEPARENT}`, `Traceparent: ${OTHER}`],
    ["Traceparent: 00-'); drop table business_api.events; --"],
    [`Traceparent: ${'0'.repeat(4000)}`],
    [`Traceparent: 00-${'0'.repeat(32)}-${'0'.repeat(16)}-00`],
  ]) {
    assert.deepEqual((await createAndDeliver(t, headers)).traces, [null], headers.join())
  }
})

test("traceparent option: the host's current trace is used instead of the header", async (t) => {
  const header = `Traceparent: ${TRACEPARENT}`
  assert.deepEqual((await createAndDeliver(t, [header], { traceparent: () => OTHER })).traces, [OTHER])
  assert.deepEqual((await createAndDeliver(t, [header], { traceparent: () => undefined })).traces, [null])
  const failing = (): string => {
    throw new Error('no tracer')
  }
  assert.deepEqual((await createAndDeliver(t, [header], { traceparent: failing })).traces, [null])
})

test('traceparent option: called in the context of the request, with or without a hook', async (t) => {
  const context = new AsyncLocalStorage<string>()
  const traceparent = (): string | undefined => context.getStore()
  const { id, key } = await platform.organization()
  for (const hooks of [{}, { onRequest: async () => null }]) {
    const api = platform.apiWith({ traceparent, ...hooks })
    const server = await serve((request, response) => context.run(OTHER, () => api(request, response)))
    t.after(() => server.close())
    const body = JSON.stringify({ name: 'Atlas Ceramics' })
    const head = rawHead(
      'POST /api/v1/clients',
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      'Connection: close',
    )
    recordOf(await rawRequest(server, head + body))
  }
  const rows = await platform.sql`select traceparent from business_api.events where organization_id = ${id}`
  assert.deepEqual(
    rows.map((row) => row.traceparent),
    [OTHER, OTHER, OTHER, OTHER],
  )
})
