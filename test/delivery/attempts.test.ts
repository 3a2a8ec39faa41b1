import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventHeaders, loggedHeaders } from '../../lib/webhooks/attempt-headers.ts'
import type { DeliveryAttempt } from '../../lib/webhooks/claims.ts'
import { newEntry } from '../_audit.ts'
import {
  AN_HOUR_MS,
  addEndpoint,
  createGate,
  createTestSender,
  deliveriesOf,
  describeOnStores,
  ORG,
  onlyDelivery,
  publish,
  publishMany,
} from './_loop.ts'

const FAILED = { status: 500 }

// Attempts and how they are logged (specification, section 6).

describeOnStores('Attempts', (under) => {
  test('any 2xx is a success, and any other status or no response is a failed attempt', async () => {
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
    assert.deepEqual(counts, { delivered: 5, retried: 13, failed: 0 })
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

  test('are made five times, after 30, 60, 120 and 240 seconds, with the same event id and body, and then the delivery fails', async () => {
    const waits = [30_000, 60_000, 120_000, 240_000]
    await addEndpoint(under.store)
    const { id, body } = await publish(under.store)
    const sender = createTestSender(() => FAILED)
    const loop = under.loop(sender)
    for (const [index, waitMs] of waits.entries()) {
      assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 1, failed: 0 })
      const { state, attempts, dueAt, reason, finishedAt } = await onlyDelivery(under.store)
      assert.deepEqual([state, attempts, reason, finishedAt], ['pending', index + 1, null, null])
      assert.ok(dueAt)
      await under.letTimePass(waitMs - 1000)
      assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 })
      await under.letTimePass(1000)
    }
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 1 })
    await under.letTimePass(AN_HOUR_MS)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 })

    assert.deepEqual(sender.eventIds, [id, id, id, id, id])
    assert.deepEqual(new Set(sender.requests.map((request) => request.body)), new Set([body]))
    const { state, attempts, dueAt, reason, finishedAt, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, dueAt, reason], ['failed', 5, null, 'http_500'])
    assert.ok(finishedAt)
    assert.deepEqual(
      attemptLog.map(({ number, status }) => [number, status]),
      [1, 2, 3, 4, 5].map((number) => [number, 500]),
    )
  })

  test('start after the previous one has ended, however long it took', async () => {
    const TOOK_MS = 120
    await addEndpoint(under.store)
    await publish(under.store)
    const gate = createGate()
    const sender = createTestSender(async () => {
      await gate.opened
      return FAILED
    })
    const startedAt = performance.now()
    const running = under.loop(sender).runOnce()
    await sender.sent(1)
    setTimeout(gate.open, TOOK_MS)
    await running
    const runMs = performance.now() - startedAt
    const { dueAt, attemptLog } = await onlyDelivery(under.store)
    const waitedMs = Date.parse(dueAt ?? '') - Date.parse(attemptLog[0]?.startedAt ?? '')
    // Timestamps are truncated to milliseconds, and a timer may fire a millisecond early.
    assert.ok(
      waitedMs >= 30_000 + TOOK_MS - 2 && waitedMs <= 30_000 + runMs + 2,
      `${waitedMs} ms of ${runMs}`,
    )
  })

  test('end with the first success after failures', async () => {
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

  test('are delayed by Retry-After after any failure, but never made earlier', async () => {
    const asked: [number, number, number][] = [
      [429, 90_000, 90_000],
      [503, 45_000, 45_000],
      [429, 5000, 30_000],
      [503, 2 * AN_HOUR_MS, AN_HOUR_MS],
      [500, 90_000, 90_000],
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

  test('end with a 410, which disables the endpoint and skips its pending deliveries', async () => {
    const endpointId = await addEndpoint(under.store)
    const first = await publish(under.store)
    const sender = createTestSender(() => ({ status: 410 }))
    const loop = under.loop(sender)
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 1 })
    const { state, reason, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([state, reason, attempts], ['failed', 'gone', 1])
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

  test('start a new round of five if a failed delivery is sent again, with the same event id', async () => {
    await addEndpoint(under.store)
    const { id, body } = await publish(under.store)
    const sender = createTestSender(() => FAILED)
    const loop = under.loop(sender, { retryDelaysMs: [0, 0, 0, 0] })
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 4, failed: 1 })
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
    assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 4, failed: 1 })
    const { state, attempts, reason, attemptLog } = await onlyDelivery(under.store)
    assert.deepEqual([state, attempts, reason], ['failed', 10, 'http_500'])
    assert.deepEqual(
      attemptLog.map(({ number }) => number),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )
    assert.deepEqual(new Set(sender.eventIds), new Set([id]))
    assert.deepEqual(new Set(sender.requests.map((request) => request.body)), new Set([body]))
  })

  test('are made again if a delivered event is sent again', async () => {
    await addEndpoint(under.store)
    const { id } = await publish(under.store)
    const sender = createTestSender()
    const loop = under.loop(sender)
    await loop.runOnce()
    const { id: deliveryId } = await onlyDelivery(under.store)
    await under.store.deliveries.recover({
      organizationId: ORG,
      ids: [deliveryId],
      filter: { states: ['delivered'] },
      limit: 10,
      entry: newEntry(),
    })
    await loop.runOnce()
    assert.deepEqual(sender.eventIds, [id, id])
    const { state, attempts } = await onlyDelivery(under.store)
    assert.deepEqual([deliveryId.startsWith('dlv_'), state, attempts], [true, 'delivered', 2])
  })

  test('are not made or counted while the endpoint is paused', async () => {
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

  test('disable an endpoint that has kept failing for long enough, and the log says so', async () => {
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

  test('has the start, the durations, the status and the start of the body', async () => {
    const before = Date.now()
    const { startedAt, headers, ...attempt } = await logOf(() => ({
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
      location: null,
    })
    assert.ok(headers)
    assert.match(startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.ok(Date.parse(startedAt) >= before - 1000 && Date.parse(startedAt) <= Date.now() + 1000)
  })

  test('has null for a phase that was skipped or not measured', async () => {
    const { startedAt, headers, ...attempt } = await logOf(() => ({
      error: 'connection_refused',
      detail: '10.0.0.1',
    }))
    assert.ok(startedAt)
    assert.deepEqual(headers?.response, {})
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
      location: null,
    })
  })

  test('has up to 2 KB of allowlisted headers if the response is not 2xx', async () => {
    const { headers } = await logOf(() => ({
      status: 401,
      headers: {
        'Content-Type': 'text/html',
        Server: `a\0${'b'.repeat(200)}`,
        'Set-Cookie': 'session=1',
        'WWW-Authenticate': 'Bearer',
        'X-Api-Key': 'secret',
      },
    }))
    assert.deepEqual(headers, {
      request: {},
      response: { 'content-type': 'text/html', server: `a\\u{0}${'b'.repeat(98)}` },
    })
  })

  test('has the content type, server and request ids of a 2xx, and nothing if there are none', async () => {
    const headers = {
      'Content-Type': 'text/plain',
      Date: 'today',
      'X-Request-Id': 'r-1',
      'Set-Cookie': 'a=1',
    }
    assert.deepEqual((await logOf(() => ({ status: 201, headers }))).headers, {
      request: {},
      response: { 'content-type': 'text/plain', 'x-request-id': 'r-1' },
    })
  })

  test('has null for the headers of a 2xx with nothing to keep', async () => {
    assert.equal((await logOf(() => ({ status: 204, headers: { Date: 'today' } }))).headers, null)
  })

  test("has the names of an endpoint's headers even for a 2xx, but no values", () => {
    const delivery = { eventId: 'evt_1', type: 'lead.created', headerNames: ['Authorization'] }
    const signature = { 'X-S-Signature': 't=1,v1=ab', 'Webhook-Id': 'evt_1', 'Webhook-Signature': 'v1,ab' }
    const own = { Authorization: 'Bearer s3cret' }
    const request = { headers: { ...own, ...eventHeaders(delivery, 'X-S'), ...signature } }
    const answer = { status: 200, error: null, bodyExcerpt: '', durationMs: 1 }
    const hidden = {
      Authorization: '(hidden)',
      'Webhook-Id': '(hidden)',
      'Webhook-Signature': '(hidden)',
    }
    assert.deepEqual(loggedHeaders(delivery, request, answer, 'X-S'), { request: hidden, response: {} })
    assert.deepEqual(loggedHeaders(delivery, request, { ...answer, status: 500 }, 'X-S'), {
      request: hidden,
      signed: signature,
      response: {},
    })
  })

  test('has up to 2 KB of headers', () => {
    const many = (prefix: string) =>
      Object.fromEntries(
        Array.from({ length: 20 }, (_, index) => [`${prefix}${'x'.repeat(90)}${index}`, 'v']),
      )
    const own = many('own-')
    const delivery = { eventId: 'evt_1', type: 'lead.created', headerNames: Object.keys(own) }
    const signatures = { 'X-S-Signature': 's'.repeat(150), 'webhook-signature': 's'.repeat(100) }
    const request = { headers: { ...own, ...eventHeaders(delivery, 'X-S'), ...signatures } }
    const answer = { status: 500, error: null, bodyExcerpt: '', durationMs: 1, headers: many('response-') }
    const headers = loggedHeaders(delivery, request, answer, 'X-S')
    assert.deepEqual(headers?.signed, signatures)
    assert.ok(Object.values(headers.request).every((value) => value === '(hidden)'))
    assert.ok(JSON.stringify(headers).length < 2048, JSON.stringify(headers))
  })

  const redirects: Readonly<Record<string, string | null>> = {
    'https://new.example.com/hooks/7': 'https://new.example.com/hooks/7',
    'https://user:pass@new.example.com/login?token=secret#part': 'https://new.example.com/login',
    'https:\\\\user:pass@new.example.com\\a': 'https://new.example.com/a',
    '//new.example.com/hooks?a=b': 'https://new.example.com/hooks',
    '/elsewhere?token=secret': 'https://subscriber.test/elsewhere',
    'elsewhere/': 'https://subscriber.test/elsewhere/',
    '?token=secret': 'https://subscriber.test/hook',
    'http://[bad/a?token=secret': 'http://[bad/a',
    'http://user:pass@[bad/\u202e\u001b': '[bad/%E2%80%AE%1B',
    'https://new.example.com/\u001b[31m\u202e\ud800': 'https://new.example.com/%1B[31m%E2%80%AE%EF%BF%BD',
    [`/${'a'.repeat(600)}`]: `https://subscriber.test/${'a'.repeat(476)}`,
    '': null,
  }
  for (const [location, shown] of Object.entries(redirects)) {
    test(`says where a redirect points, without secrets: ${location.slice(0, 60)}`, async () => {
      assert.equal((await logOf(() => ({ status: 302, location }))).location, shown)
    })
  }

  test('has an excerpt even if no store could keep it unchanged', async () => {
    const { bodyExcerpt } = await logOf(() => ({ bodyExcerpt: 'a\0b\ud800c\udc00d\\u0000' }))
    assert.equal(bodyExcerpt, 'a\\u{0}b\ufffdc\ufffdd\\u0000')
  })
})
