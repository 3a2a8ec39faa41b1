import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { captureWebhooks, waitForDelivery } from '../../lib/testing.ts'
import { createHost, ORGANIZATION as organizationId } from './_host.ts'

const TICKET = { ticketId: 't', subject: 'Help', status: 'open' }

async function publishTo(t: TestContext, status: number) {
  const host = createHost(t)
  const captured = await captureWebhooks({ settings: host.settings, organizationId, answer: () => status })
  t.after(() => captured.close())
  const eventId = await host.platform.publish(organizationId, 'support.ticket_created', TICKET)
  return { ...host, captured, eventId }
}

test("waitForDelivery() resolves with an event's deliveries once all endpoints have it", async (t) => {
  const { store, loop, eventId, captured } = await publishTo(t, 204)
  const waiting = waitForDelivery(store, { organizationId, eventId })
  loop.start()
  const deliveries = await waiting
  assert.deepEqual(
    deliveries.map(({ state, endpointId, attempts }) => ({ state, endpointId, attempts })),
    [{ state: 'delivered', endpointId: captured.endpointId, attempts: 1 }],
  )
})

test("waitForDelivery() for one endpoint doesn't wait for the others", async (t) => {
  const { store, settings, platform, loop, captured } = await publishTo(t, 204)
  const other = await settings.endpoints.register(organizationId, { url: 'http://127.0.0.1:65535/' })
  const eventId = await platform.publish(organizationId, 'support.ticket_created', TICKET)
  const endpointId = captured.endpointId ?? ''
  loop.start()
  assert.equal((await waitForDelivery(store, { organizationId, eventId, endpointId })).length, 1)
  const both = waitForDelivery(store, { organizationId, eventId, timeoutMs: 50 })
  await assert.rejects(
    both,
    new RegExp(`to ${other.id} is pending after 1 attempts \\(the last one: connection_refused\\)`),
  )
})

test('waitForDelivery() reports on timeout that no loop is running', async (t) => {
  const { store, eventId } = await publishTo(t, 204)
  await assert.rejects(waitForDelivery(store, { organizationId, eventId, timeoutMs: 20 }), {
    message: new RegExp(
      `^Event ${eventId} was not delivered within 20 ms: dlv_\\w+ to we_\\w+ is pending after 0 attempts due at \\S+. Does a delivery loop run\\?$`,
    ),
  })
})

test('waitForDelivery() reports that an unknown event has no deliveries', async (t) => {
  const { store } = createHost(t)
  await assert.rejects(
    waitForDelivery(store, { organizationId, eventId: 'evt_none', timeoutMs: 1 }),
    /it has no deliveries\. Was the event committed/,
  )
})

test("waitForDelivery() rejects as soon as a delivery can't succeed anymore", async (t) => {
  const { store, loop, eventId } = await publishTo(t, 410)
  await loop.runOnce()
  const begunAt = performance.now()
  await assert.rejects(
    waitForDelivery(store, { organizationId, eventId, timeoutMs: 60_000 }),
    /was not delivered: dlv_\w+ to we_\w+ is failed because of gone after 1 attempts \(the last one: 410\)$/,
  )
  assert.ok(performance.now() - begunAt < 5000)
})
