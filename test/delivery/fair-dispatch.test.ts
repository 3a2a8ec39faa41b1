import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AN_HOUR_MS,
  addEndpoint,
  createGate,
  createTestSender,
  describeOnStores,
  eventIdOf,
  hang,
  publish,
  publishMany,
  type TestSender,
  until,
} from './_loop.ts'

// No endpoint or organization can block the others, as seen from outside. See queues.test.ts for the arithmetic.

describeOnStores('Fair dispatch', (under) => {
  /** Current number of requests by URL, and the maximum. */
  function createMeasuringSender(respond: (url: string, signal?: AbortSignal) => Promise<object>) {
    const now = new Map<string, number>()
    const most = new Map<string, number>()
    const sender = createTestSender(async ({ url }, _number, signal) => {
      now.set(url, (now.get(url) ?? 0) + 1)
      most.set(url, Math.max(most.get(url) ?? 0, now.get(url) ?? 0))
      try {
        return await respond(url, signal)
      } finally {
        now.set(url, (now.get(url) ?? 0) - 1)
      }
    })
    return { sender, now, most }
  }

  const arrivedAt = ({ requests }: TestSender, url: string) =>
    requests.filter((request) => request.url === url).map((request) => eventIdOf(request))

  test('an endpoint starts with four attempts in flight and gets up to 32 as it succeeds', async () => {
    const url = 'https://quick.test/'
    await addEndpoint(under.store, { url })
    await publishMany(under.store, 400)
    const gate = createGate()
    const { sender, now, most } = createMeasuringSender(async () => {
      await gate.opened
      return {}
    })
    const running = under.loop(sender).runOnce()
    await sender.sent(4)
    await under.store.deliveries.countQueue(null)
    assert.equal(now.get(url), 4)
    gate.open()
    await running
    assert.equal(sender.requests.length, 400)
    assert.ok((most.get(url) ?? 0) > 4 && (most.get(url) ?? 0) <= 32, `${most.get(url)} at once`)
  })

  test("a slow attempt doesn't delay the next attempts of its endpoint", async () => {
    await addEndpoint(under.store)
    const events = await publishMany(under.store, 12)
    const { sender } = createMeasuringSender(async () => ({}))
    let slow = ''
    const halfSlow = createTestSender((request, number, signal) => {
      if (number === 1) slow = eventIdOf(request)
      return eventIdOf(request) === slow ? hang(signal) : sender.send(request)
    })
    under.loop(halfSlow, { pollIntervalMs: AN_HOUR_MS }).start()
    await halfSlow.sent(12)
    assert.deepEqual(new Set(halfSlow.eventIds), new Set(events.map(({ id }) => id)))
    await until('only the slow one is left', () => halfSlow.inFlight === 1)
  })

  test('a slot is filled as soon as it becomes free', async () => {
    for (let number = 0; number < 12; number++) {
      await addEndpoint(under.store, {}, `org_${number}`)
      await publishMany(under.store, 1, `org_${number}`)
    }
    const ends: (() => void)[] = []
    const sender = createTestSender((_request, number) => {
      // The first one responds. Unknown endpoints must not use all slots.
      if (number <= 12) return {}
      return new Promise((resolve) => {
        ends.push(() => resolve({}))
      })
    })
    const loop = under.loop(sender, { pollIntervalMs: AN_HOUR_MS, concurrency: 32 })
    await loop.runOnce()
    for (let number = 0; number < 12; number++) await publishMany(under.store, 3, `org_${number}`)
    loop.start()
    for (let sent = 12 + 32; sent <= 12 + 36; sent++) {
      await sender.sent(sent)
      ends.shift()?.()
    }
    for (const end of ends) end()
  })

  test("a dead endpoint with hundreds of due deliveries doesn't delay a healthy one", async () => {
    await addEndpoint(under.store, { url: 'https://dead.test/', types: ['lead.created'] })
    await addEndpoint(under.store, { url: 'https://healthy.test/', types: ['project.completed'] })
    await Promise.all(Array.from({ length: 300 }, () => publish(under.store, { type: 'lead.created' })))
    const { sender, now, most } = createMeasuringSender(async (url, signal) =>
      url === 'https://dead.test/' ? hang(signal) : {},
    )
    under.loop(sender, { pollIntervalMs: AN_HOUR_MS, concurrency: 16 }).start()
    await sender.sent(2)
    const events = await publishMany(under.store, 60)
    await until('all have arrived', () => arrivedAt(sender, 'https://healthy.test/').length === 60)
    assert.deepEqual(new Set(arrivedAt(sender, 'https://healthy.test/')), new Set(events.map(({ id }) => id)))
    assert.deepEqual([now.get('https://dead.test/'), most.get('https://dead.test/')], [2, 2])
  })

  test("an endpoint with a backlog doesn't delay another endpoint of its organization", async () => {
    await addEndpoint(under.store, { url: 'https://busy.test/', types: ['lead.created'] })
    await addEndpoint(under.store, { url: 'https://calm.test/', types: ['project.completed'] })
    await Promise.all(Array.from({ length: 300 }, () => publish(under.store, { type: 'lead.created' })))
    const { sender } = createMeasuringSender(async () => ({}))
    await publishMany(under.store, 3)
    await under.loop(sender, { concurrency: 16 }).runOnce()
    const last = sender.requests.findLastIndex(({ url }) => url === 'https://calm.test/')
    assert.equal(sender.requests.length, 303)
    assert.ok(last < 30, `behind ${last} others`)
  })

  test('an organization with many endpoints uses a quarter of the slots, and every event arrives', async () => {
    for (let number = 0; number < 6; number++) await addEndpoint(under.store)
    await addEndpoint(under.store, { url: 'https://other.test/' }, 'org_2')
    await publishMany(under.store, 10)
    const gate = createGate()
    let most = 0
    let now = 0
    const sender = createTestSender(async ({ url }) => {
      if (url === 'https://other.test/') return {}
      most = Math.max(most, ++now)
      await gate.opened
      now--
      return {}
    })
    under.loop(sender, { pollIntervalMs: AN_HOUR_MS, concurrency: 16 }).start()
    await sender.sent(4)
    await publish(under.store, {}, 'org_2')
    await until(
      'the other organization’s has arrived',
      () => arrivedAt(sender, 'https://other.test/').length === 1,
    )
    assert.deepEqual([now, most], [4, 4])
    gate.open()
    await sender.sent(61)
    assert.equal(most, 4)
  })

  test('endpoints that time out use half of the slots, and others the rest', async () => {
    for (let number = 0; number < 8; number++) {
      await addEndpoint(under.store, { url: 'https://slow.test/' }, `org_slow_${number}`)
      await publishMany(under.store, 3, `org_slow_${number}`)
    }
    await addEndpoint(under.store, { url: 'https://healthy.test/' })
    // Each endpoint times out once and then hangs.
    let isLearning = true
    const { sender, now, most } = createMeasuringSender(async (url, signal) => {
      if (url === 'https://healthy.test/') return {}
      return isLearning ? { error: 'timeout' } : hang(signal)
    })
    const loop = under.loop(sender, { pollIntervalMs: AN_HOUR_MS, concurrency: 8 })
    await loop.runOnce()
    assert.equal(sender.requests.length, 24)
    isLearning = false
    most.clear()
    await under.letTimePass(30_000)
    loop.start()
    await until('half of the slots are taken', () => now.get('https://slow.test/') === 4)
    const events = await publishMany(under.store, 10)
    await until('the healthy one has all', () => arrivedAt(sender, 'https://healthy.test/').length === 10)
    assert.deepEqual(new Set(arrivedAt(sender, 'https://healthy.test/')), new Set(events.map(({ id }) => id)))
    assert.equal(most.get('https://slow.test/'), 4)
  })

  test('first attempts come before retries of the same endpoint', async () => {
    await addEndpoint(under.store)
    const [old] = await publishMany(under.store, 1)
    const sender = createTestSender((_request, number) => (number === 1 ? { status: 500 } : {}))
    const loop = under.loop(sender, { concurrency: 1 })
    await loop.runOnce()
    await under.letTimePass(30_000)
    const later = [await publish(under.store), await publish(under.store)]
    await loop.runOnce()
    assert.deepEqual(sender.eventIds.slice(1), [...later.map(({ id }) => id), old?.id])
  })
})
