import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Meter as OpenTelemetryMeter } from '@opentelemetry/api'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createBusinessApi, SCOPES } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createMetrics, type Meter, type Metrics, type MetricsOptions } from '../../lib/metrics.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, type WebhookSender } from '../../lib/webhooks.ts'
import { readPrometheus, type Sample, sampleOf } from './_prometheus.ts'
import { publishTo } from './_publishing.ts'

type Labels = Readonly<Record<string, string>>

const ORGANIZATION = 'org_secret'

/** A store with an API key, and the metrics of this process until the end of the test. */
async function prepare(t: TestContext, options: MetricsOptions = {}, store = createMemoryStore()) {
  const settings = createDeveloperSettings(store, {
    allowPlaintextSecrets: true,
    allowPrivateNetworks: true,
    allowHttp: true,
  })
  const { key, id: keyId } = await settings.apiKeys.create(ORGANIZATION, { name: 'Test', scopes: SCOPES })
  const metrics = createMetrics(store, { maxAgeMs: 0, ...options })
  t.after(() => metrics.close())
  return { store, settings, metrics, key, keyId }
}

async function read(metrics: Metrics): Promise<readonly Sample[]> {
  return readPrometheus(await metrics.text())
}

/** A sender that returns each of the statuses in turn, where `null` means no response. */
function sender(...statuses: readonly (number | null)[]): WebhookSender {
  let sent = 0
  return {
    async send() {
      const status = statuses[sent++ % statuses.length] ?? null
      return { status, error: status === null ? 'timeout' : null, bodyExcerpt: '', durationMs: 7 }
    },
    async close() {},
  }
}

describe('metrics of requests', () => {
  test('count responses by route, method and status, and rejections by reason', async (t) => {
    const { store, metrics, key } = await prepare(t)
    const api = createBusinessApi(store, { logger: false })
    const call = (path: string, init: RequestInit = {}): Promise<Response> =>
      api(
        new Request(`http://x${path}`, {
          ...init,
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...init.headers },
        }),
      )
    const create = (body: string, headers = {}): Promise<Response> =>
      call('/api/v1/clients', { method: 'POST', body, headers })
    await call('/api/v1/clients?limit=3')
    await create('{"name":"Atlas"}', { 'idempotency-key': 'one' })
    await create('{"name":"Atlas"}', { 'idempotency-key': 'one' })
    await create('{"name":"A"}')
    await create('nothing')
    await create('{}', { 'content-type': 'text/plain' })
    await call('/api/v1/clients', { method: 'DELETE' })
    await call('/api/v1/clients', { headers: { authorization: 'Bearer wrong' } })
    await call('/api/v1/clients/cli_1')
    await call('/openapi.json')

    const samples = await read(metrics)
    const requests = samples.filter(({ name }) => name === 'business_api_requests_total')
    const route = '/api/v1/clients'
    assert.deepEqual(
      new Map(requests.map(({ labels, value }) => [Object.values(labels).join(' '), value])),
      new Map([
        [`${route} GET 200`, 1],
        [`${route} POST 200`, 2],
        [`${route} POST 422`, 1],
        [`${route} POST 400`, 1],
        [`${route} POST 415`, 1],
        [`${route} DELETE 405`, 1],
        [`${route} GET 401`, 1],
        ['other GET 404', 1],
        ['/openapi.json GET 200', 1],
      ]),
    )
    assert.equal(sampleOf(samples, 'business_api_replays_total'), 1)
    const duration = { route, method: 'POST' }
    assert.equal(sampleOf(samples, 'business_api_request_duration_seconds_count', duration), 5)
    assert.ok((sampleOf(samples, 'business_api_request_duration_seconds_sum', duration) ?? 0) > 0)
  })

  test('have no organization, key, query or raw path, and one series for made-up methods', async (t) => {
    const { store, metrics, key, keyId } = await prepare(t)
    const api = createBusinessApi(store, { logger: false })
    const headers = { authorization: `Bearer ${key}` }
    await api(new Request('http://x/api/v1/clients?limit=7', { headers }))
    for (let path = 0; path < 20; path++) await api(new Request(`http://x/secret-${path}`, { headers }))
    for (let word = 0; word < 20; word++) {
      await api(new Request('http://x/api/v1/clients', { headers, method: `INVENTED${word}` }))
    }
    const text = await metrics.text()
    assert.doesNotMatch(text, /secret-|limit=|INVENTED/)
    assert.ok(!text.includes(ORGANIZATION) && !text.includes(keyId) && !text.includes(key))
    const samples = readPrometheus(text)
    assert.equal(sampleOf(samples, 'business_api_requests_total', { route: 'other' }), 20)
    assert.equal(sampleOf(samples, 'business_api_requests_total', { method: 'other' }), 20)
  })

  test('end with close() but can still be read', async (t) => {
    const { store, metrics } = await prepare(t)
    const api = createBusinessApi(store, { logger: false })
    await api(new Request('http://x/openapi.json'))
    metrics.close()
    await api(new Request('http://x/openapi.json'))
    assert.equal(sampleOf(await read(metrics), 'business_api_requests_total'), 1)
  })

  test("a meter that throws doesn't affect the response", async (t) => {
    const throwing = (): never => {
      throw new Error('a meter that throws')
    }
    const instrument = { addCallback() {}, removeCallback() {} }
    const meter: Meter = {
      createHistogram: () => ({ record: throwing }),
      createObservableCounter: () => instrument,
      createObservableGauge: () => instrument,
    }
    const { store, metrics } = await prepare(t, { meter })
    const api = createBusinessApi(store, { logger: false })
    assert.equal((await api(new Request('http://x/openapi.json'))).status, 200)
    assert.equal(sampleOf(await read(metrics), 'business_api_requests_total'), 1)
  })
})

describe('metrics of deliveries', () => {
  test('count attempts by outcome and response, claims, notices and the queue', async (t) => {
    const { store, metrics, settings } = await prepare(t)
    const endpoint = await settings.endpoints.register(ORGANIZATION, { url: 'http://127.0.0.1:19999/' })
    const publish = publishTo(store, ORGANIZATION)
    for (let event = 0; event < 5; event++) await publish()
    const loop = createDeliveryLoop(store, sender(200, 500, 999, null, 410), {
      allowPlaintextSecrets: true,
      logger: false,
      concurrency: 1,
    })
    await loop.runOnce()

    const samples = await read(metrics)
    const attempts = (labels: Labels) => sampleOf(samples, 'business_api_attempts_total', labels)
    assert.equal(attempts({ outcome: 'delivered', answer: '2xx' }), 1)
    assert.equal(attempts({ outcome: 'retry', answer: '5xx' }), 2)
    assert.equal(attempts({ outcome: 'retry', answer: 'none' }), 1)
    assert.equal(attempts({ outcome: 'failed', answer: '4xx' }), 1)
    assert.equal(sampleOf(samples, 'business_api_attempt_duration_seconds_sum'), 0.035)
    assert.equal(sampleOf(samples, 'business_api_claimed_deliveries_total'), 5)
    assert.ok((sampleOf(samples, 'business_api_claim_duration_seconds_count') ?? 0) >= 5)
    assert.ok((sampleOf(samples, 'business_api_result_write_duration_seconds_count') ?? 0) >= 1)
    const notices = (kind: string) => sampleOf(samples, 'business_api_notices_total', { kind })
    assert.deepEqual(
      [notices('delivery_failed'), notices('endpoint_disabled'), notices('retention_behind')],
      [1, 1, 0],
    )
    assert.equal(sampleOf(samples, 'business_api_retention_lag_seconds'), 0)
    assert.equal(sampleOf(samples, 'business_api_queue_up'), 1)
    assert.equal(sampleOf(samples, 'business_api_queue_failed'), 1)
    assert.equal((await metrics.queueOf({ organizationId: ORGANIZATION })).failed, 1)
    for (const target of [undefined, {}, { organizationId: null }, { organizationId: '\u0000' }]) {
      const counting = metrics.queueOf(target as never)
      await assert.rejects(
        counting,
        { code: 'invalid_input' },
        'the counts of all organizations are not returned',
      )
    }
    assert.ok(!(await metrics.text()).includes(endpoint.id))
  })

  test('count store failures by step', async (t) => {
    const store = createMemoryStore()
    const { metrics } = await prepare(t, {}, store)
    const deliveries = {
      ...store.deliveries,
      claim: () => Promise.reject(storeUnavailable('Cannot reach the store of this test')),
    }
    const loop = createDeliveryLoop({ ...store, deliveries }, sender(200), {
      allowPlaintextSecrets: true,
      logger: false,
    })
    await assert.rejects(loop.runOnce())
    const samples = await read(metrics)
    assert.equal(sampleOf(samples, 'business_api_loop_failures_total', { step: 'claim' }), 1)
    assert.equal(loop.health().failedClaims, 1)
  })

  test("return the queue in seconds and counts, and no queue if the store doesn't respond", async (t) => {
    const store = createMemoryStore()
    let isBroken = false
    let isPartial = false
    const countQueue: typeof store.deliveries.countQueue = async (target) => {
      if (isBroken) throw storeUnavailable('Cannot reach postgres://user:secret@host')
      const counts = await store.deliveries.countQueue(target)
      return { ...counts, due: 10_001, oldestDueMs: 1500, ...(isPartial && { isPartial }) }
    }
    const { metrics } = await prepare(t, {}, { ...store, deliveries: { ...store.deliveries, countQueue } })
    const samples = await read(metrics)
    assert.equal(sampleOf(samples, 'business_api_queue_due'), 10_001)
    assert.equal(sampleOf(samples, 'business_api_queue_oldest_due_seconds'), 1.5)
    isPartial = true
    const partial = await read(metrics)
    assert.equal(sampleOf(partial, 'business_api_queue_up'), 0)
    assert.equal(sampleOf(partial, 'business_api_queue_due'), 10_001)
    isBroken = true
    const without = await read(metrics)
    assert.equal(sampleOf(without, 'business_api_queue_up'), 0)
    assert.equal(sampleOf(without, 'business_api_queue_due'), undefined)
    assert.equal(sampleOf(without, 'business_api_info'), 1)
  })

  test('cost the store one statement for all callers within maxAgeMs, and none with countQueue: false', async (t) => {
    const store = createMemoryStore()
    let asked = 0
    const countQueue: typeof store.deliveries.countQueue = (target) => {
      asked++
      return store.deliveries.countQueue(target)
    }
    const counting = { ...store, deliveries: { ...store.deliveries, countQueue } }
    const { metrics } = await prepare(t, { maxAgeMs: 60_000 }, counting)
    await Promise.all([metrics.text(), metrics.text(), metrics.health()])
    await metrics.text()
    assert.equal(asked, 1)
    const { metrics: without } = await prepare(t, { countQueue: false }, counting)
    const samples = await read(without)
    assert.equal(sampleOf(samples, 'business_api_queue_up'), undefined)
    assert.equal((await without.health()).isHealthy, true)
    assert.equal(asked, 1)
  })
})

describe('health()', () => {
  test("is healthy if the store responds, and names a store that doesn't without its secrets", async (t) => {
    const { metrics } = await prepare(t)
    assert.deepEqual(await metrics.health(), {
      isHealthy: true,
      checks: [{ name: 'store', isHealthy: true, message: 'The store answers' }],
    })
    const store = createMemoryStore()
    for (const [fail, message] of [
      [
        () => Promise.reject(storeUnavailable('Cannot reach postgres://user:secret@host')),
        'The store cannot be reached',
      ],
      [
        () => Promise.reject(Object.assign(new Error('for user secret'), { code: '42501' })),
        'The store has failed with 42501',
      ],
      [() => Promise.reject(new Error('user secret')), 'The store has failed'],
      [() => new Promise<never>(() => {}), 'The store did not respond within 20 ms'],
      [
        () => {
          throw new Error('secret')
        },
        'The store has failed',
      ],
    ] as const) {
      const broken = { ...store, deliveries: { ...store.deliveries, countQueue: fail } }
      const health = await createMetrics(broken, { timeoutMs: 20, maxAgeMs: 0 }).health()
      assert.deepEqual(health, { isHealthy: false, checks: [{ name: 'store', isHealthy: false, message }] })
    }
  })

  test('depends on whether the loop is stopped, running, or without a recent claim', async (t) => {
    const store = createMemoryStore()
    const loop = createDeliveryLoop(store, sender(200), { allowPlaintextSecrets: true, logger: false })
    t.after(() => loop.stop())
    const { metrics } = await prepare(t, { loop }, store)
    const stopped = await metrics.health()
    assert.equal(stopped.isHealthy, false)
    assert.deepEqual(stopped.checks[1], {
      name: 'loop',
      isHealthy: false,
      message: 'The delivery loop is stopped',
    })

    loop.start()
    const endsAt = performance.now() + 5000
    while (loop.health().lastClaimAgoMs === null && performance.now() < endsAt) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    const running = await metrics.health()
    assert.equal(running.isHealthy, true, JSON.stringify(running))
    const samples = await read(metrics)
    assert.equal(sampleOf(samples, 'business_api_loop_running'), 1)
    const claimedAt = sampleOf(samples, 'business_api_last_claim_timestamp_seconds') ?? 0
    assert.ok(Math.abs(claimedAt - Date.now() / 1000) < 5)

    const late = { health: () => ({ state: 'running', lastClaimAgoMs: 61_000, failedClaims: 3 }) as const }
    const { metrics: behind } = await prepare(t, { loop: late }, store)
    assert.deepEqual((await behind.health()).checks[1], {
      name: 'loop',
      isHealthy: false,
      message: 'The delivery loop claimed 61.0 s ago; 3 claims have failed since',
    })
    const throwing = {
      health() {
        throw new Error('secret')
      },
    }
    const { metrics: unknown } = await prepare(t, { loop: throwing }, store)
    assert.equal((await unknown.health()).checks[1]?.message, 'The delivery loop cannot report its health')
  })
})

describe('createMetrics()', () => {
  test('rejects invalid options', () => {
    const store = createMemoryStore()
    for (const options of [{ maxAgeMs: -1 }, { timeoutMs: 0 }, { maxClaimAgeMs: 1.5 }]) {
      assert.throws(() => createMetrics(store, options), RangeError)
    }
    for (const options of [{ countQueue: 'false' }, { loop: {} }]) {
      assert.throws(() => createMetrics(store, options as never), TypeError)
    }
  })

  test('passes the same numbers to an OpenTelemetry meter', async (t) => {
    const observed = new Map<string, (observe: (value: number, labels?: Labels) => void) => unknown>()
    const recorded: [string, number, Labels | undefined][] = []
    const observable = (name: string) => ({
      addCallback(callback: Parameters<ReturnType<Meter['createObservableGauge']>['addCallback']>[0]) {
        observed.set(name, (observe) => callback({ observe }))
      },
      removeCallback: () => void observed.delete(name),
    })
    const meter: Meter = {
      createHistogram: (name) => ({
        record: (value, attributes) => void recorded.push([name, value, attributes]),
      }),
      createObservableCounter: observable,
      createObservableGauge: observable,
    }
    const { store, metrics } = await prepare(t, { meter })
    const api = createBusinessApi(store, { logger: false })
    await api(new Request('http://x/openapi.json'))
    await api(new Request('http://x/api/v1/clients'))

    const collect = async (name: string): Promise<unknown[]> => {
      const values: unknown[] = []
      await observed.get(name)?.((value, labels) => values.push([value, labels]))
      return values
    }
    assert.deepEqual(await collect('business_api.requests'), [
      [1, { route: '/openapi.json', method: 'GET', status: '200' }],
      [1, { route: '/api/v1/clients', method: 'GET', status: '401' }],
    ])
    assert.deepEqual(await collect('business_api.queue.due'), [[0, {}]])
    assert.deepEqual(
      recorded.map(([name, , labels]) => [name, labels]),
      [
        ['business_api.request.duration', { route: '/openapi.json', method: 'GET' }],
        ['business_api.request.duration', { route: '/api/v1/clients', method: 'GET' }],
      ],
    )
    metrics.close()
    assert.equal(observed.size, 0)
  })

  test('accepts a meter of @opentelemetry/api', () => {
    const take = (meter: OpenTelemetryMeter): Meter => meter
    assert.equal(typeof take, 'function')
  })
})

describe('metrics of a sharded store', () => {
  /** Two shards. The second one may be unavailable. */
  function prepareShards(t: TestContext) {
    const [a, b] = [createMemoryStore(), createMemoryStore()]
    let isAway = false
    const countQueue: typeof b.deliveries.countQueue = async (target) => {
      if (isAway) throw storeUnavailable('away')
      return { ...(await b.deliveries.countQueue(target)), due: 7 }
    }
    const shards = [
      {
        name: 'a',
        store: { ...a, connectionUse: () => ({ max: 10, inUse: 1, waiting: 0, refused: 0, timedOut: 0 }) },
      },
      { name: 'b', store: { ...b, deliveries: { ...b.deliveries, countQueue } } },
    ]
    const loops = [() => 5, () => (isAway ? 3_600_000 : 5)].map((lastClaimAgoMs) => ({
      health: () => ({ state: 'running' as const, lastClaimAgoMs: lastClaimAgoMs(), failedClaims: 0 }),
    }))
    const metrics = createMetrics({ ...a, shards }, { maxAgeMs: 0, loop: loops })
    t.after(() => metrics.close())
    return { metrics, lose: () => (isAway = true) }
  }

  test('the queue, connections and loops are labeled with their shard', async (t) => {
    const { metrics } = prepareShards(t)
    const samples = await read(metrics)
    assert.equal(sampleOf(samples, 'business_api_queue_due', { shard: 'a' }), 0)
    assert.equal(sampleOf(samples, 'business_api_queue_due', { shard: 'b' }), 7)
    assert.equal(sampleOf(samples, 'business_api_connections_in_use', { shard: 'a' }), 1)
    assert.equal(sampleOf(samples, 'business_api_loop_running', { shard: 'b' }), 1)
    assert.equal(samples.filter(({ name }) => name === 'business_api_info').length, 1)
  })

  test('an unavailable shard shows up in its own metrics, and the process stays healthy', async (t) => {
    const { metrics, lose } = prepareShards(t)
    lose()
    const samples = await read(metrics)
    assert.equal(sampleOf(samples, 'business_api_queue_up', { shard: 'a' }), 1)
    assert.equal(sampleOf(samples, 'business_api_queue_up', { shard: 'b' }), 0)
    assert.equal(sampleOf(samples, 'business_api_queue_due', { shard: 'b' }), undefined)
    assert.equal((await metrics.health()).isHealthy, true)
  })
})
