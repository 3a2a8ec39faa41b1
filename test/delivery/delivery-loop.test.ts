import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { createWebhookSender } from '../../lib/sender/sender.ts'
import type { DeliveryDetails } from '../../lib/webhooks/deliveries.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { newEntry } from '../_audit.ts'
import { named } from '../_service.ts'
import {
  AN_HOUR_MS,
  addEndpoint,
  claimAndVanish,
  createTestSender,
  describeOnMemory,
  describeOnPostgres,
  describeOnStores,
  eventIdOf,
  ids,
  ORG,
  onlyDelivery,
  plainHeaders,
  publish,
  SECRET,
} from './_loop.ts'

import { signatureOf, timestampOf } from './_signatures.ts'

const FAILED = { status: 500 }

// Requests and signatures (specification, section 6), including with different clocks.

describeOnStores('Deliveries', (under) => {
  const event = () => publish(under.store)

  test('each event is sent once to every enabled endpoint of the organization that is subscribed to its type', async () => {
    const { store } = under
    const [all, some, none, paused, disabled, removed] = [
      await addEndpoint(store, { url: 'https://all.test/' }),
      await addEndpoint(store, { url: 'https://some.test/', types: ['lead.created', 'client.created'] }),
      await addEndpoint(store, { url: 'https://none.test/', types: ['invoice.paid'] }),
      await addEndpoint(store, { url: 'https://paused.test/' }),
      await addEndpoint(store, { url: 'https://disabled.test/' }),
      await addEndpoint(store, { url: 'https://removed.test/' }),
    ]
    assert.ok(all && some && none)
    await addEndpoint(store, { url: 'https://foreign.test/' }, 'org_2')
    await store.endpoints.setState({
      organizationId: ORG,
      endpointId: paused,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    await store.endpoints.setState({
      organizationId: ORG,
      endpointId: disabled,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    await store.endpoints.remove({ organizationId: ORG, endpointId: removed, entry: newEntry() })
    const lead = await publish(store, { type: 'lead.created' })
    const client = await publish(store, { type: 'client.created' })
    const project = await publish(store, { type: 'project.completed' })
    const sender = createTestSender()
    const counts = await under.loop(sender).runOnce()
    assert.deepEqual(sender.requests.map((request) => `${request.url} ${eventIdOf(request)}`).sort(), [
      `https://all.test/ ${lead.id}`,
      `https://all.test/ ${client.id}`,
      `https://all.test/ ${project.id}`,
      `https://some.test/ ${lead.id}`,
      `https://some.test/ ${client.id}`,
    ])
    assert.deepEqual(counts, { delivered: 5, retried: 0, failed: 0 })
    assert.deepEqual(await under.loop(sender).runOnce(), { delivered: 0, retried: 0, failed: 0 })
  })

  test('a request has the content type, the three headers of the service, those of the endpoint, and no others', async () => {
    await addEndpoint(under.store, plainHeaders({ Authorization: 'Basic abc', 'X-Team': 'billing' }))
    const { id } = await publish(under.store, { type: 'invoice.paid' })
    const sender = createTestSender()
    await under.loop(sender).runOnce()
    assert.deepEqual(sender.requests[0]?.headers, {
      Authorization: 'Basic abc',
      'X-Team': 'billing',
      'Content-Type': 'application/json',
      'X-SERVICE-Event-Id': id,
      'X-SERVICE-Event-Type': 'invoice.paid',
      'X-SERVICE-Signature': signatureOf(sender),
    })
    assert.match(signatureOf(sender), /^t=\d{10},v1=[0-9a-f]{64}$/)
  })

  test('the header prefix can be changed', async () => {
    await addEndpoint(under.store)
    const { id, body } = await event()
    const sender = createTestSender()
    await under.loop(sender, {}, named(under.store, { headerPrefix: 'X-Acme' })).runOnce()
    const { 'X-Acme-Signature': signature, ...others } = sender.requests[0]?.headers ?? {}
    assert.deepEqual(others, {
      'Content-Type': 'application/json',
      'X-Acme-Event-Id': id,
      'X-Acme-Event-Type': 'project.completed',
    })
    verifyWebhook(body, signature, SECRET)
  })

  test("custom headers don't replace the service's headers in any spelling", async () => {
    const headers = plainHeaders({
      'content-type': 'text/plain',
      'x-service-event-id': 'evt_forged',
      'X-Service-Event-Type': 'forged',
      'X-SERVICE-SIGNATURE': 't=1,v1=0',
      'X-Service': 'mine',
    })
    await addEndpoint(under.store, headers)
    const { id, body } = await event()
    const sender = createTestSender()
    await under.loop(sender).runOnce()
    assert.deepEqual(sender.requests[0]?.headers, {
      'X-Service': 'mine',
      'Content-Type': 'application/json',
      'X-SERVICE-Event-Id': id,
      'X-SERVICE-Event-Type': 'project.completed',
      'X-SERVICE-Signature': signatureOf(sender),
    })
    verifyWebhook(body, signatureOf(sender), SECRET)
  })

  test('over a real connection the exact body arrives with a matching signature', async (t) => {
    const subscriber = await startSubscriber()
    t.after(() => subscriber.close())
    const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
    t.after(() => sender.close())
    await addEndpoint(under.store, { url: subscriber.url })
    const { id, body } = await event()
    assert.deepEqual(await under.loop(sender).runOnce(), { delivered: 1, retried: 0, failed: 0 })
    const [received] = subscriber.received
    assert.ok(received)
    assert.deepEqual(received.bytes, Buffer.from(body))
    verifyWebhook(received.bytes, received.headers['x-service-signature'], SECRET)
    assert.equal(received.headers['content-type'], 'application/json')
    assert.equal(received.headers['x-service-event-id'], id)
    assert.equal(received.headers['x-service-event-type'], 'project.completed')
  })

  test('a signature is valid for 300 seconds before and after t, and no longer', async () => {
    await addEndpoint(under.store)
    const { body } = await event()
    const sender = createTestSender()
    const sentAt = Date.now()
    await under.loop(sender).runOnce()
    const header = signatureOf(sender)
    const t = timestampOf(header)
    assert.ok(Math.abs(t - sentAt / 1000) < 5)
    const verifyAt = (seconds: number) => verifyWebhook(body, header, SECRET, { clock: () => seconds * 1000 })
    assert.equal(verifyAt(t - 300).timestamp, t)
    assert.equal(verifyAt(t + 300).timestamp, t)
    assert.throws(() => verifyAt(t - 301), { code: 'signature_expired' })
    assert.throws(() => verifyAt(t + 301), { code: 'signature_expired' })
  })

  test('both secrets sign during a rotation, current one first, and after the overlap only the current one', async () => {
    const endpointId = await addEndpoint(under.store, { sealedSecret: 'plain.whsec_first' })
    const { body } = await event()
    await under.store.endpoints.rotateSecret({
      organizationId: ORG,
      changeId: ids('chg'),
      endpointId,
      sealedSecret: 'plain.whsec_second',
      overlapMs: 60_000,
      entry: newEntry(),
    })
    const sender = createTestSender()
    const loop = under.loop(sender)
    await loop.runOnce()
    const both = signatureOf(sender)
    assert.match(both, /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/)
    const [time = '', current = '', previous = ''] = both.split(',')
    verifyWebhook(body, `${time},${current}`, 'whsec_second')
    verifyWebhook(body, `${time},${previous}`, 'whsec_first')

    await under.letTimePass(60_001)
    const { body: laterBody } = await event()
    await loop.runOnce()
    const clock = () => timestampOf(signatureOf(sender, 2)) * 1000
    assert.match(signatureOf(sender, 2), /^t=\d+,v1=[0-9a-f]{64}$/)
    verifyWebhook(laterBody, signatureOf(sender, 2), 'whsec_second', { clock })
  })

  test('a rotation without an overlap leaves one signature', async () => {
    const endpointId = await addEndpoint(under.store, { sealedSecret: 'plain.whsec_first' })
    const { body } = await event()
    await under.store.endpoints.rotateSecret({
      organizationId: ORG,
      changeId: ids('chg'),
      endpointId,
      sealedSecret: 'plain.whsec_second',
      overlapMs: 0,
      entry: newEntry(),
    })
    const sender = createTestSender()
    await under.loop(sender).runOnce()
    assert.match(signatureOf(sender), /^t=\d+,v1=[0-9a-f]{64}$/)
    verifyWebhook(body, signatureOf(sender), 'whsec_second')
  })
})

describeOnMemory('By a clock that stands still', (under) => {
  test('a retry is made at the end of the backoff, not a millisecond before, and signed for that time', async () => {
    let now = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
    const store = createMemoryStore({ clock: () => now })
    await addEndpoint(store)
    const { body } = await publish(store)
    const sender = createTestSender(() => FAILED)
    const loop = under.loop(sender, {}, store)
    const delivery = (): Promise<DeliveryDetails> => onlyDelivery(store)
    for (const [index, waitMs] of [30_000, 60_000, 120_000, 240_000].entries()) {
      await loop.runOnce()
      const dueAt = Date.parse((await delivery()).dueAt ?? '')
      // The attempt ended slightly before the result was recorded.
      assert.ok(dueAt <= now + waitMs && dueAt > now + waitMs - 2000, `${dueAt - now} ms`)
      now = dueAt - 1
      await loop.runOnce()
      assert.equal(sender.requests.length, index + 1)
      now = dueAt + 1
    }
    await loop.runOnce()
    assert.deepEqual([(await delivery()).state, sender.requests.length], ['failed', 5])
    const times = sender.requests.map((_, index) => timestampOf(signatureOf(sender, index + 1)))
    const waits = times.slice(1).map((time, index) => time - (times[index] ?? 0))
    for (const [index, seconds] of [30, 60, 120, 240].entries()) {
      // The `t` of a signature has no fraction.
      assert.ok(Math.abs((waits[index] ?? 0) - seconds) <= 1, `${waits}`)
    }
    for (const [index, time] of times.entries()) {
      verifyWebhook(body, signatureOf(sender, index + 1), SECRET, { clock: () => time * 1000 })
    }
  })
})

describeOnPostgres('With the application’s clock off by an hour', (under) => {
  for (const offsetMs of [-AN_HOUR_MS, AN_HOUR_MS]) {
    test(`${offsetMs < 0 ? 'behind' : 'ahead'}, t, waits and leases go by the database; only the body's createdAt and the ids do not`, async (t) => {
      const real = Date.now
      t.mock.method(Date, 'now', () => real() + offsetMs)
      await addEndpoint(under.store)
      const { id: eventId } = await publish(under.store)
      const sender = createTestSender(() => FAILED)
      const loop = under.loop(sender)
      await loop.runOnce()
      const seconds = real() / 1000
      assert.ok(Math.abs(timestampOf(signatureOf(sender)) - seconds) < 5)
      const { dueAt, attemptLog } = await onlyDelivery(under.store)
      assert.ok(Math.abs(Date.parse(dueAt ?? '') - real() - 30_000) < 5000)
      assert.ok(Math.abs(Date.parse(attemptLog[0]?.startedAt ?? '') - real()) < 5000)
      const event = await under.store.eventLog.get(ORG, eventId)
      assert.ok(
        Math.abs(Date.parse(event?.createdAt ?? '') - real()) < 5000,
        'the log goes by the database too',
      )
      await loop.runOnce()
      assert.equal(sender.requests.length, 1)
      await under.letTimePass(30_000)
      await loop.runOnce()
      assert.equal(sender.requests.length, 2)

      // Leases also end by the database's clock.
      await under.letTimePass(60_000)
      await claimAndVanish(under.store, 30_000)
      await loop.runOnce()
      assert.equal(sender.requests.length, 2)
      await under.letTimePass(30_000)
      await loop.runOnce()
      assert.equal(sender.requests.length, 3)
    })
  }
})

interface Received {
  readonly headers: IncomingMessage['headers']
  readonly bytes: Buffer
}

async function startSubscriber() {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    received.push({ headers: request.headers, bytes: Buffer.concat(chunks) })
    response.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
