import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { createWebhookSender } from '../../lib/sender/sender.ts'
import type { DeliveryAttempt, DeliveryDetails } from '../../lib/webhooks/deliveries.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { newEntry } from '../_audit.ts'
import {
  AN_HOUR_MS,
  addEndpoint,
  claimAndVanish,
  createGate,
  createTestSender,
  deliveriesOf,
  describeOnMemory,
  describeOnPostgres,
  describeOnStores,
  eventIdOf,
  ids,
  ORG,
  onlyDelivery,
  plainHeaders,
  publish,
  publishMany,
  SECRET,
  type TestSender,
} from './_loop.ts'

// Specification, section 6, rule by rule, and what it leaves open.

const FAILED = { status: 500 }

/** The signature header of the request that was made as the `number`th. */
function signatureOf({ requests }: TestSender, number = 1): string {
  return requests[number - 1]?.headers['X-SERVICE-Signature'] ?? ''
}

/** The `t` of a signature header, in Unix seconds. */
function timestampOf(signature: string): number {
  return Number(/^t=(\d+),/.exec(signature)?.[1])
}

describeOnStores('Deliveries', (under) => {
  const event = () => publish(under.store)

  test('each event reaches every enabled endpoint of its organization that wants its type, once', async () => {
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
    assert.deepEqual(counts, { delivered: 5, retried: 0, deadLettered: 0 })
    assert.deepEqual(await under.loop(sender).runOnce(), { delivered: 0, retried: 0, deadLettered: 0 })
  })

  test('a request has the content type, the three headers of the service, the endpoint’s own, and no other', async () => {
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

  test('the prefix of the headers can be another', async () => {
    await addEndpoint(under.store)
    const { id, body } = await event()
    const sender = createTestSender()
    await under.loop(sender, { headerPrefix: 'X-Acme' }).runOnce()
    const { 'X-Acme-Signature': signature, ...others } = sender.requests[0]?.headers ?? {}
    assert.deepEqual(others, {
      'Content-Type': 'application/json',
      'X-Acme-Event-Id': id,
      'X-Acme-Event-Type': 'project.completed',
    })
    verifyWebhook(body, signature, SECRET)
  })

  test('headers of the endpoint’s own do not stand in for those of the service, however they are written', async () => {
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

  test('over a real connection the body arrives byte for byte as it was recorded, and is signed as it arrives', async (t) => {
    const subscriber = await startSubscriber()
    t.after(() => subscriber.close())
    const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
    t.after(() => sender.close())
    await addEndpoint(under.store, { url: subscriber.url })
    const { id, body } = await event()
    assert.deepEqual(await under.loop(sender).runOnce(), { delivered: 1, retried: 0, deadLettered: 0 })
    const [received] = subscriber.received
    assert.ok(received)
    assert.deepEqual(received.bytes, Buffer.from(body))
    verifyWebhook(received.bytes, received.headers['x-service-signature'], SECRET)
    assert.equal(received.headers['content-type'], 'application/json')
    assert.equal(received.headers['x-service-event-id'], id)
    assert.equal(received.headers['x-service-event-type'], 'project.completed')
  })

  test('a delivery is timely by its own t: 300 seconds before and after it, and not one more', async () => {
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

  test('during a rotation two secrets sign, the current one first, and after its overlap one', async () => {
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

describeOnStores('Attempts', (under) => {
  test('any 2xx delivers; every other status, and no answer, is a failed attempt', async () => {
    const delivering = [200, 201, 202, 204, 299]
    const failing = [199, 300, 301, 304, 400, 401, 404, 429, 500, 503]
    const errors = ['timeout', 'connection_refused', 'dns_failed']
    const answers = new Map<string, { status: number | null; error: string | null }>()
    for (const outcome of [...delivering, ...failing, ...errors]) {
      const endpointId = await addEndpoint(under.store, { url: `https://answers-${outcome}.test/` })
      answers.set(
        endpointId,
        typeof outcome === 'number' ? { status: outcome, error: null } : { status: null, error: outcome },
      )
    }
    await publish(under.store)
    const sender = createTestSender(({ url }) => {
      const [, outcome = ''] = /answers-(\w+)\./.exec(url) ?? []
      return /^\d+$/.test(outcome) ? { status: Number(outcome) } : { status: null, error: outcome }
    })
    const counts = await under.loop(sender).runOnce()
    assert.deepEqual(counts, { delivered: 5, retried: 13, deadLettered: 0 })
    for (const { endpointId, state, attempts, finishedAt, dueAt, attemptLog } of await deliveriesOf(
      under.store,
    )) {
      const { status = null, error = null } = answers.get(endpointId) ?? {}
      const isDelivered = delivering.includes(status ?? 0)
      const what = `${status} ${error}`
      assert.deepEqual([state, attempts], [isDelivered ? 'delivered' : 'pending', 1], what)
      assert.deepEqual([finishedAt !== null, dueAt === null], [isDelivered, isDelivered], what)
      assert.deepEqual(
        attemptLog.map((attempt) => [attempt.number, attempt.status, attempt.error]),
        [[1, status, error]],
      )
    }
  })

  test('are five, 30, 60, 120 and 240 seconds after one another, with the same event id and body; then it is a dead letter', async () => {
    const waits = [30_000, 60_000, 120_000, 240_000]
    await addEndpoint(under.store)
    const { id, body } = await publish(under.store)
    const sender = createTestSender(() => FAILED)
    const loop = under.loop(sender)
    for (const [index, waitMs] of waits.entries()) {
      assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 1, deadLettered: 0 })
      const { state, attempts, dueAt, reason, finishedAt } = await onlyDelivery(under.store)
      assert.deepEqual([state, attempts, reason, finishedAt], ['pending', index + 1, null, null])
      assert.ok(dueAt)
      await under.letTimePass(waitMs - 1000)
      assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 0 })
      await under.letTimePass(1000)
    }
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 1 })
    await under.letTimePass(AN_HOUR_MS)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 0 })

    assert.deepEqual(sender.eventIds, [id, id, id, id, id])
    assert.deepEqual(new Set(sender.requests.map((request) => request.body)), new Set([body]))
    const { state, attempts, dueAt, reason, finishedAt, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, dueAt, reason], ['dead_lettered', 5, null, 'http_500'])
    assert.ok(finishedAt)
    assert.deepEqual(
      attemptLog.map(({ number, status }) => [number, status]),
      [1, 2, 3, 4, 5].map((number) => [number, 500]),
    )
  })

  test('wait from the end of the attempt before, however long it took', async () => {
    const TOOK_MS = 120
    await addEndpoint(under.store)
    await publish(under.store)
    const gate = createGate()
    const sender = createTestSender(async () => {
      await gate.opened
      return FAILED
    })
    const running = under.loop(sender).runOnce()
    await sender.sent(1)
    setTimeout(gate.open, TOOK_MS)
    await running
    const { dueAt, attemptLog } = await onlyDelivery(under.store)
    const waitedMs = Date.parse(dueAt ?? '') - Date.parse(attemptLog[0]?.startedAt ?? '')
    // Timestamps are cut to milliseconds, and a timer may be one early.
    assert.ok(waitedMs >= 30_000 + TOOK_MS - 2 && waitedMs < 30_000 + TOOK_MS + 500, `${waitedMs} ms`)
  })

  test('a first success after failures ends it', async () => {
    await addEndpoint(under.store)
    await publish(under.store)
    const sender = createTestSender((_request, number) => ({ status: number < 3 ? 503 : 204 }))
    const loop = under.loop(sender)
    for (let attempt = 1; attempt <= 5; attempt++) {
      await loop.runOnce()
      await under.letTimePass(AN_HOUR_MS)
    }
    const { state, attempts, reason } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, reason, sender.requests.length], ['delivered', 3, null, 3])
  })

  test('Retry-After lengthens a wait after 429 and 503, and never shortens one', async () => {
    const asked: [number, number, number][] = [
      [429, 90_000, 90_000],
      [503, 45_000, 45_000],
      [429, 5000, 30_000],
      [503, 2 * AN_HOUR_MS, AN_HOUR_MS],
      [500, 90_000, 30_000],
    ]
    for (const [status, retryAfterMs] of asked) {
      await addEndpoint(under.store, { url: `https://subscriber.test/${status}/${retryAfterMs}` })
    }
    await publish(under.store)
    const sender = createTestSender(({ url }) => {
      const [status, retryAfterMs] = url.split('/').slice(3).map(Number)
      return { status: status ?? 0, retryAfterMs: retryAfterMs ?? 0 }
    })
    await under.loop(sender).runOnce()
    const endpoints = new Map((await under.store.endpoints.list(ORG)).map(({ id, url }) => [id, url]))
    for (const { endpointId, dueAt, attemptLog } of await deliveriesOf(under.store)) {
      const expected = asked.find(([status, retryAfterMs]) =>
        endpoints.get(endpointId)?.endsWith(`/${status}/${retryAfterMs}`),
      )
      const waitMs = Date.parse(dueAt ?? '') - Date.parse(attemptLog[0]?.startedAt ?? '')
      assert.equal(Math.round(waitMs / 1000), (expected?.[2] ?? 0) / 1000, String(expected))
    }
  })

  test('410 is the last attempt, disables the endpoint and has what waits for it skipped', async () => {
    const endpointId = await addEndpoint(under.store)
    const first = await publish(under.store)
    const sender = createTestSender(() => ({ status: 410 }))
    const loop = under.loop(sender)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, deadLettered: 1 })
    const { state, reason, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state, reason, attempts], ['dead_lettered', 'gone', 1])
    const [endpoint] = await under.store.endpoints.list(ORG)
    assert.deepEqual(
      [endpoint?.id, endpoint?.state, endpoint?.disabledReason],
      [endpointId, 'disabled', 'gone'],
    )

    await publish(under.store)
    await loop.runOnce()
    assert.deepEqual(sender.eventIds, [first.id])
    const [, second] = await deliveriesOf(under.store)
    assert.deepEqual([second?.state, second?.attempts], ['skipped', 0])
  })

  test('a dead letter that is sent again has a new round of five, with the same event id', async () => {
    await addEndpoint(under.store)
    const { id, body } = await publish(under.store)
    const sender = createTestSender(() => FAILED)
    const loop = under.loop(sender, { retryDelaysMs: [0, 0, 0, 0] })
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 4, deadLettered: 1 })
    const { id: deliveryId } = await onlyDelivery(under.store)
    assert.deepEqual(
      await under.store.deliveries.recover({
        organizationId: ORG,
        ids: [deliveryId],
        filter: {},
        limit: 10,
        entry: newEntry(),
      }),
      [deliveryId],
    )
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 4, deadLettered: 1 })
    const { state, attempts, reason, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, reason], ['dead_lettered', 10, 'http_500'])
    assert.deepEqual(
      attemptLog.map(({ number }) => number),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )
    assert.deepEqual(new Set(sender.eventIds), new Set([id]))
    assert.deepEqual(new Set(sender.requests.map((request) => request.body)), new Set([body]))
  })

  test('a delivered event that is sent again is delivered again', async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    const sender = createTestSender()
    const loop = under.loop(sender)
    await loop.runOnce()
    const { id: deliveryId } = await onlyDelivery(under.store)
    await under.store.deliveries.recover({
      organizationId: ORG,
      ids: null,
      filter: { states: ['delivered'] },
      limit: 10,
      entry: newEntry(),
    })
    await loop.runOnce()
    assert.deepEqual(sender.eventIds, [id, id])
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([deliveryId.startsWith('dlv_'), state, attempts], [true, 'delivered', 2])
  })

  test('deliveries of a paused endpoint wait until it is resumed, and count no attempt meanwhile', async () => {
    const endpointId = await addEndpoint(under.store)
    await under.store.endpoints.setState({
      organizationId: ORG,
      endpointId,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    const { id } = await publish(under.store)
    const sender = createTestSender()
    const loop = under.loop(sender)
    await loop.runOnce()
    assert.deepEqual(sender.requests, [])
    await under.store.endpoints.setState({
      organizationId: ORG,
      endpointId,
      state: 'enabled',
      from: ['paused'],
      entry: newEntry(),
    })
    await loop.runOnce()
    assert.deepEqual([sender.eventIds, (await onlyDelivery(under.store)).attempts], [[id], 1])
  })

  test('an endpoint that has only failed, often and for long, is disabled, and the log says so', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 3)
    const lines: [object, string][] = []
    const ignore = (): void => {}
    const logger = {
      debug: ignore,
      info: ignore,
      error: ignore,
      warn: (details: object, message: string) => lines.push([details, message]),
    }
    const sender = createTestSender(() => FAILED)
    const failureLimit = { failures: 4, failingMs: 60_000 }
    const options = { failureLimit, logger, retryDelaysMs: [1000, 1000] }
    const loop = under.loop(sender, options)
    await loop.runOnce()
    assert.equal((await under.store.endpoints.list(ORG))[0]?.failures, 3)
    await under.letTimePass(60_000)
    await publishMany(under.store, 1)
    await loop.runOnce()
    const [endpoint] = await under.store.endpoints.list(ORG)
    assert.deepEqual([endpoint?.state, endpoint?.disabledReason], ['disabled', 'failing'])
    assert.deepEqual(
      lines.map(([, message]) => message),
      ['Webhook endpoint failing', 'Webhook endpoint disabled'],
    )
    assert.equal(
      Object.entries(lines[0]?.[0] ?? {}).find(([name]) => name === 'endpointId')?.[1],
      endpoint?.id,
    )
  })
})

describeOnStores('The attempt log', (under) => {
  async function logOf(answer: Parameters<typeof createTestSender>[0]): Promise<DeliveryAttempt> {
    await addEndpoint(under.store)
    await publish(under.store)
    await under.loop(createTestSender(answer)).runOnce()
    const { attemptLog } = await onlyDelivery(under.store)
    const [attempt] = attemptLog
    assert.ok(attempt && attemptLog.length === 1)
    return attempt
  }

  test('has the start, the durations, the status and the beginning of the body', async () => {
    const before = Date.now()
    const { startedAt, ...attempt } = await logOf(() => ({
      status: 503,
      bodyExcerpt: 'busy: \u00e9 🏺\n\t"quoted"',
      durationMs: 31.5,
      timings: { dnsMs: 1.5, connectMs: 2.25, tlsMs: 4, firstByteMs: 20 },
    }))
    assert.deepEqual(attempt, {
      number: 1,
      durationMs: 31.5,
      dnsMs: 1.5,
      connectMs: 2.25,
      tlsMs: 4,
      firstByteMs: 20,
      status: 503,
      error: null,
      bodyExcerpt: 'busy: \u00e9 🏺\n\t"quoted"',
    })
    assert.match(startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.ok(Date.parse(startedAt) >= before - 1000 && Date.parse(startedAt) <= Date.now() + 1000)
  })

  test('has null for what did not happen or was not measured', async () => {
    const { startedAt, ...attempt } = await logOf(() => ({ error: 'connection_refused', detail: '10.0.0.1' }))
    assert.ok(startedAt)
    assert.deepEqual(attempt, {
      number: 1,
      durationMs: 1,
      dnsMs: null,
      connectMs: null,
      tlsMs: null,
      firstByteMs: null,
      status: null,
      error: 'connection_refused',
      bodyExcerpt: '',
    })
  })

  test('keeps an excerpt that no store could keep as it is', async () => {
    const { bodyExcerpt } = await logOf(() => ({ bodyExcerpt: 'a\0b\ud800c\udc00d\\u0000' }))
    assert.equal(bodyExcerpt, 'a\ufffdb\ufffdc\ufffdd\\u0000')
  })
})

// --- Exactly, by the store's clock ---

describeOnMemory('By a clock that stands still', (under) => {
  test('a retry is made when its wait is over and not a millisecond before, signed for that moment', async () => {
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
      // The end of the attempt was a moment before it was recorded.
      assert.ok(dueAt <= now + waitMs && dueAt > now + waitMs - 2000, `${dueAt - now} ms`)
      now = dueAt - 1
      await loop.runOnce()
      assert.equal(sender.requests.length, index + 1)
      now = dueAt + 1
    }
    await loop.runOnce()
    assert.deepEqual([(await delivery()).state, sender.requests.length], ['dead_lettered', 5])
    const times = sender.requests.map((_, index) => timestampOf(signatureOf(sender, index + 1)))
    const waits = times.slice(1).map((time, index) => time - (times[index] ?? 0))
    for (const [index, seconds] of [30, 60, 120, 240].entries()) {
      // A t has lost its fraction.
      assert.ok(Math.abs((waits[index] ?? 0) - seconds) <= 1, `${waits}`)
    }
    for (const [index, time] of times.entries()) {
      verifyWebhook(body, signatureOf(sender, index + 1), SECRET, { clock: () => time * 1000 })
    }
  })
})

// --- Clocks ---

describeOnPostgres('With the application’s clock off by an hour', (under) => {
  for (const offsetMs of [-AN_HOUR_MS, AN_HOUR_MS]) {
    test(`${offsetMs < 0 ? 'behind' : 'ahead'}, t, waits and leases go by the database; only createdAt and the ids do not`, async (t) => {
      const real = Date.now
      t.mock.method(Date, 'now', () => real() + offsetMs)
      await addEndpoint(under.store)
      const { createdAt } = await publish(under.store)
      const sender = createTestSender(() => FAILED)
      const loop = under.loop(sender)
      await loop.runOnce()
      const seconds = real() / 1000
      assert.ok(Math.abs(timestampOf(signatureOf(sender)) - seconds) < 5)
      const { dueAt, attemptLog } = await onlyDelivery(under.store)
      assert.ok(Math.abs(Date.parse(dueAt ?? '') - real() - 30_000) < 5000)
      assert.ok(Math.abs(Date.parse(attemptLog[0]?.startedAt ?? '') - real()) < 5000)
      assert.ok(Math.abs(Date.parse(createdAt) - real() - offsetMs) < 5000)
      await loop.runOnce()
      assert.equal(sender.requests.length, 1)
      await under.letTimePass(30_000)
      await loop.runOnce()
      assert.equal(sender.requests.length, 2)

      // A lease ends by the database's clock too.
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

// --- A subscriber ---

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
