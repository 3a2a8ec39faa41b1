import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { createMemoryStore } from '../../lib/memory.ts'
import type { DeliveryStore } from '../../lib/webhooks/deliveries.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import {
  addEndpoint,
  countIn,
  createGate,
  createTestSender,
  deliveriesOf,
  describeOnPostgres,
  describeOnStores,
  NO_POLL,
  publishMany,
  until,
} from './_loop.ts'

// A loop and a receiver with a rate limit. The rates are those of test/contract/endpoint-rates.ts.

describeOnStores('A receiver with a rate limit', (under) => {
  test('is sent a burst of four, and the rest is released without being counted', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 40)
    const sender = createTestSender(() => ({ status: 429, retryAfterMs: 60_000 }))
    assert.deepEqual(await under.loop(sender).runOnce(), { delivered: 0, retried: 4, failed: 0 })
    const attempts = (await deliveriesOf(under.store)).map(
      ({ attempts: count, state }) => `${state} ${count}`,
    )
    assert.equal(attempts.filter((text) => text === 'pending 1').length, 4)
    assert.equal(attempts.filter((text) => text === 'pending 0').length, 36)
  })

  test('keeps what was claimed before a rejection, and gets one probe when the wait is over', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 40)
    const gate = createGate()
    const sender = createTestSender(async (_request, number) => {
      if (number <= 8) return {}
      await gate.opened
      return { status: 503, retryAfterMs: 3000 }
    })
    const loop = under.loop(sender)
    const running = loop.runOnce()
    await until('attempts wait for the gate', () => sender.inFlight > 4)
    gate.open()
    await running
    const sent = sender.requests.length
    assert.ok(sent < 40, `${sent} requests`)
    assert.equal(await countIn(under.store, 'sending'), 0)
    const unsent = (await deliveriesOf(under.store)).filter(({ attempts }) => attempts === 0)
    assert.equal(unsent.length, 40 - sent)
    await under.letTimePass(3000)
    await loop.runOnce()
    assert.equal(sender.requests.length, sent + 1)
  })

  test("set by the organization is observed, even by a loop that doesn't poll", async () => {
    await addEndpoint(under.store, { maxPerSecond: 20 })
    await publishMany(under.store, 8)
    const at: number[] = []
    const sender = createTestSender(() => {
      at.push(performance.now())
      return {}
    })
    const startedAt = performance.now()
    under.loop(sender, NO_POLL).start()
    await sender.sent(8)
    // Two at once, then two every tenth of a second, counted from the first claim.
    const lasted = (at.at(-1) ?? 0) - startedAt
    assert.ok(lasted >= 290, `all within ${lasted} ms`)
  })

  test("gets its probe when its wait is over, even from a loop that doesn't poll", async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 6)
    const at: number[] = []
    const sender = createTestSender((_request, number) => {
      at.push(performance.now())
      return number === 1 ? { status: 429 } : {}
    })
    under.loop(sender, NO_POLL).start()
    await sender.sent(5)
    const waitedMs = (at.at(4) ?? 0) - (at.at(0) ?? 0)
    assert.ok(waitedMs >= 1000 && waitedMs < 3000, `${waitedMs} ms`)
  })

  test("that rejects everything isn't spared: all due deliveries are attempted", async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 60)
    const sender = createTestSender(() => ({ status: 503 }))
    const loop = under.loop(sender)
    const sent: number[] = []
    for (let run = 0; run < 24; run++) {
      const before = sender.requests.length
      await loop.runOnce()
      sent.push(sender.requests.length - before)
      await under.letTimePass(65_000)
    }
    // A burst of four, ten probes, and everything that was due.
    assert.ok(
      sent.some((requests) => requests >= 40),
      sent.join(),
    )
    assert.equal(await countIn(under.store, 'pending'), 0)
    assert.equal(sender.requests.length, 300)
  })

  test('is served by runOnce as long as its turns are within two seconds', async () => {
    await addEndpoint(under.store, { maxPerSecond: 20 })
    await addEndpoint(under.store, { url: 'https://slow.test/', maxPerSecond: 0.1 })
    await publishMany(under.store, 6)
    const sender = createTestSender()
    assert.equal((await under.loop(sender).runOnce()).delivered, 7)
  })

  test("isn't sent anything as long as it doesn't respond to the allowed deliveries", async () => {
    await addEndpoint(under.store, { maxPerSecond: 1000 })
    await publishMany(under.store, 200)
    let claims = 0
    const { service, deliveries, notices } = under.store
    const counted: DeliveryStore = {
      ...deliveries,
      claim(request) {
        claims++
        return deliveries.claim(request)
      },
    }
    const gate = createGate()
    const sender = createTestSender(async () => {
      await gate.opened
      return {}
    })
    under.loop(sender, NO_POLL, { service, deliveries: counted, notices }).start()
    await until('attempts wait for the gate', () => sender.inFlight > 0)
    await setTimeout(300)
    const before = claims
    await setTimeout(400)
    gate.open()
    assert.ok(claims - before <= 5, `${claims - before} claims`)
  })

  test('has no effect with a Retry-After on a success', async () => {
    await addEndpoint(under.store)
    await publishMany(under.store, 20)
    const sender = createTestSender(() => ({ status: 200, retryAfterMs: 60_000 }))
    assert.equal((await under.loop(sender).runOnce()).delivered, 20)
  })
})

describeOnPostgres('A rate that another transaction has locked', (under) => {
  test("doesn't delay any claims", async () => {
    await addEndpoint(under.store, { maxPerSecond: 20 })
    await publishMany(under.store, 8)
    const loop = under.loop(createTestSender())
    await loop.runOnce()
    await publishMany(under.store, 2)
    await under.sql.begin(async (sql) => {
      await sql`select from business_api.endpoint_rates for update`
      const ran = await Promise.race([loop.runOnce(), setTimeout(3000)])
      assert.deepEqual(ran, { delivered: 0, retried: 0, failed: 0 })
    })
  })
})

test("runOnce ends even if the store's clock stands still, so an endpoint's turn never comes", async () => {
  const store = createMemoryStore({ clock: () => 1_000_000_000_000 })
  await addEndpoint(store, { maxPerSecond: 1 })
  await publishMany(store, 2)
  const loop = createDeliveryLoop(store, createTestSender(), { logger: false, retentionMs: false })
  assert.equal((await loop.runOnce()).delivered, 1)
})
