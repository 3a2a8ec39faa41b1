import assert from 'node:assert/strict'
import type { AttemptResult } from '../../lib/webhooks/claims.ts'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  type ClaimedSome,
  capacityFor,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  lastFailure,
  onlyEndpoint,
  publishMany,
  refOf,
  success,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

// Tests the rates of endpoints (lib/webhooks/endpoint-rate.ts). The receivers use the time controlled by the tests.

/** Tests how many deliveries an endpoint receives if it rejects some or has its own limit. */
export function testEndpointRates(harness: StoreHarness): void {
  testBackingOff(harness)
  testPacing(harness)
  testReceivers(harness)
}

/** Milliseconds between the attempts of a round. */
const DELAYS_MS = [30_000, 60_000, 120_000, 240_000] as const
const HOUR_MS = 3_600_000
const HOOK = 'https://hooks.example/limited'
/** An attempt without a duration, so that it started after all results that were written. */
const AT_ONCE = { startedAgoMs: 0, endedAgoMs: 0, durationMs: 0 } as const

function rejection(delivery: Claimed, askedMs = 0, changes: Partial<AttemptResult> = {}): AttemptResult {
  const delayMs = DELAYS_MS[delivery.attempt - 1]
  const asked = {
    ...AT_ONCE,
    status: 429,
    backOffMs: askedMs,
    delayMs: Math.max(delayMs ?? 0, askedMs),
    ...changes,
  }
  return delayMs === undefined
    ? lastFailure(delivery, { ...asked, delayMs: 0, reason: 'http_429' })
    : failure(delivery, asked)
}

async function createRejected(harness: StoreHarness, t: ContractTest, events: number, askedMs = 0) {
  const tenant = await createPublisher(harness, t)
  await tenant.insertEndpoint()
  await publishMany(tenant, events)
  const { deliveries } = await claim(tenant, { limit: 1 })
  await writeResults(
    tenant,
    deliveries.map((delivery) => rejection(delivery, askedMs)),
  )
  return tenant
}

function testBackingOff(harness: StoreHarness): void {
  harness.test(
    'an endpoint that rejects a delivery receives none for a second, and then one from all workers together',
    async (t) => {
      const tenant = await createRejected(harness, t, 20)
      assert.deepEqual((await claim(tenant)).eventIds, [])
      await tenant.letTimePass(1000)
      const stores = [tenant.store, tenant.secondStore]
      const claims = await Promise.all(
        Array.from({ length: 12 }, (_, worker) => claim(tenant, {}, stores[worker % stores.length])),
      )
      const probes = claims.flatMap(({ deliveries }) => deliveries)
      assert.equal(probes.length, 1)
      assert.deepEqual((await claim(tenant)).eventIds, [], 'while the probe is being sent')
      const waiting = await deliveriesOf(tenant, { states: ['pending'] })
      assert.deepEqual(new Set(waiting.map(({ attempts }) => attempts)), new Set([0, 1]))
    },
  )

  harness.test(
    'each failed probe doubles the wait, and the next probe is a different delivery',
    async (t) => {
      const tenant = await createRejected(harness, t, 20)
      const probed = new Set<string>()
      for (const waitMs of [1000, 2000, 4000, 8000]) {
        await tenant.letTimePass(waitMs - 500)
        assert.deepEqual((await claim(tenant)).eventIds, [], `before ${waitMs} ms`)
        await tenant.letTimePass(500)
        const probe = await claimOne(tenant)
        assert.equal(probe.attempt, 1)
        probed.add(probe.id)
        await writeResults(tenant, [
          waitMs === 2000 ? failure(probe, { ...AT_ONCE, delayMs: 30_000 }) : rejection(probe),
        ])
      }
      assert.equal(probed.size, 4)
    },
  )

  harness.test('an endpoint backs off as long as it asks to, up to an hour', async (t) => {
    const tenant = await createRejected(harness, t, 3, 24 * HOUR_MS)
    await tenant.letTimePass(HOUR_MS - 1000)
    assert.deepEqual((await claim(tenant, { leaseMs: 1 })).eventIds, [])
    await tenant.letTimePass(1000)
    await claimOne(tenant)
  })

  harness.test(
    'the rejections of a burst count as one, and a success in the burst changes nothing',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 8)
      const { deliveries } = await claim(tenant, { limit: 4 })
      const [first, second, third, fourth] = deliveries
      assert.ok(first && second && third && fourth, 'four deliveries are pending')
      // Attempts that started before the first rejection was written.
      const early = { startedAgoMs: 60_000, endedAgoMs: 0, durationMs: 60_000 }
      await writeResults(tenant, [rejection(first)])
      await writeResults(tenant, [rejection(second, 0, early), success(third, early)])
      await writeResults(tenant, [rejection(fourth, 0, early)])
      assert.deepEqual((await claim(tenant)).eventIds, [])
      await tenant.letTimePass(1000)
      await claimOne(tenant)
    },
  )

  harness.test('if a probe is released or its process dies, the next probe can follow', async (t) => {
    const tenant = await createRejected(harness, t, 20)
    await tenant.letTimePass(1000)
    const released = await claimOne(tenant)
    await tenant.store.deliveries.release([refOf(released)])
    const again = await claimOne(tenant)
    assert.equal(again.attempt, 1, 'the release is not counted')
    assert.deepEqual((await claim(tenant, {}, tenant.secondStore)).eventIds, [], 'another worker')
    await tenant.letTimePass(60_000)
    const { deliveries } = await claim(tenant, {}, tenant.secondStore)
    assert.equal(deliveries.length, 1)
    const [late] = await writeResults(tenant, [rejection(again)])
    assert.equal(late, undefined, 'the result of the dead process is dropped')
  })

  harness.test(
    'a rejection that is not a probe does not extend the wait, whenever its attempt started',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 10)
      const first = await claim(tenant, { limit: 4 })
      const second = await claim(tenant, { limit: 4 }, tenant.secondStore)
      await writeResults(
        tenant,
        first.deliveries.map((delivery) => rejection(delivery)),
      )
      for (const delivery of second.deliveries) await writeResults(tenant, [rejection(delivery)])
      await tenant.letTimePass(1000)
      await claimOne(tenant)
    },
  )

  harness.test('if a probe is interrupted by its process, the next one can follow immediately', async (t) => {
    const tenant = await createRejected(harness, t, 5)
    await tenant.letTimePass(1000)
    const probe = await claimOne(tenant)
    const interrupted = { ...AT_ONCE, status: null, error: 'interrupted', delayMs: 30_000 }
    await writeResults(tenant, [failure(probe, interrupted)])
    assert.notEqual((await claimOne(tenant)).id, probe.id)
  })

  harness.test('a probe that is being sent cannot be cancelled, and is forgotten on a pause', async (t) => {
    const tenant = await createRejected(harness, t, 5)
    const { id: endpointId } = await onlyEndpoint(tenant)
    await tenant.letTimePass(1000)
    const probe = await claimOne(tenant)
    const request = { organizationId: tenant.id, deliveryId: probe.id, entry: newEntry() }
    assert.equal(await tenant.store.deliveries.cancel(request), false)
    assert.deepEqual((await claim(tenant)).eventIds, [])
    for (const [from, state] of [
      ['enabled', 'paused'],
      ['paused', 'enabled'],
    ] as const) {
      const move = { organizationId: tenant.id, endpointId, state, from: [from], entry: newEntry() }
      await tenant.store.endpoints.setState(move)
    }
    assert.equal((await claim(tenant)).deliveries.length, 3, 'all that are not being sent or waiting')
    await writeResults(tenant, [success(probe, AT_ONCE)])
  })

  harness.test(
    'update() resets what is known about the rate if the URL or limit changes, and only then',
    async (t) => {
      for (const [changes, claimed] of [
        [{ url: 'https://other.test/' }, 4],
        [{ maxPerSecond: 1000 }, 4],
        [{ url: HOOK, maxPerSecond: null, description: 'Billing', standardWebhooks: true }, 0],
      ] as const) {
        const tenant = await createPublisher(harness, t)
        const { id: endpointId } = await tenant.insertEndpoint({ url: HOOK })
        await publishMany(tenant, 5)
        const { deliveries } = await claim(tenant, { limit: 1 })
        await writeResults(
          tenant,
          deliveries.map((delivery) => rejection(delivery, HOUR_MS)),
        )
        await tenant.store.endpoints.update({
          organizationId: tenant.id,
          endpointId,
          changes,
          entry: newEntry(),
        })
        assert.equal((await claim(tenant)).deliveries.length, claimed, JSON.stringify(changes))
      }
    },
  )

  harness.test('claim() returns when an endpoint that backs off can receive its next probe', async (t) => {
    const tenant = await createRejected(harness, t, 5, 5000)
    const { nextInMs } = await claim(tenant)
    assert.ok((nextInMs ?? 0) > 4000 && (nextInMs ?? 0) <= 5000, `${nextInMs} ms`)
    await tenant.letTimePass(5000)
    await claimOne(tenant)
    assert.equal((await claim(tenant)).nextInMs, null, 'while the probe is being sent')
  })

  for (const [succeeds, state] of [
    [true, 'enabled'],
    [false, 'disabled'],
  ] as const) {
    harness.test(
      `an endpoint that rejects for six days, and accepts ${succeeds ? 'one delivery a day' : 'nothing'}, is ${state}`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        await tenant.insertEndpoint()
        await publishMany(tenant, 40)
        const limit = { failures: 50, failingMs: 5 * 24 * HOUR_MS }
        for (let hours = 0; hours < 6 * 24; hours += 2) {
          const { deliveries } = await claim(tenant, { limit: 1 })
          const isTaken = succeeds && hours % 24 === 0
          const results = deliveries.map((each) => (isTaken ? success(each, AT_ONCE) : rejection(each)))
          await writeResults(tenant, results, limit)
          await tenant.letTimePass(2 * HOUR_MS)
        }
        assert.equal((await onlyEndpoint(tenant)).state, state)
      },
    )
  }

  harness.test(
    'an endpoint that only rejects ends all its deliveries after 450 s of waits and 450 s more',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 60)
      const { rejected, passedMs } = await drive(tenant, () => ({ ok: false, askedMs: 0 }), { stepMs: 5000 })
      const failed = await deliveriesOf(tenant, { states: ['failed'] })
      assert.equal(failed.length, 60)
      assert.deepEqual(
        new Set(failed.map(({ attempts, reason }) => `${attempts} ${reason}`)),
        new Set(['5 http_429']),
      )
      assert.equal(rejected, 300)
      assert.ok(passedMs < 1_000_000, `${passedMs / 1000} s`)
    },
  )

  harness.test('an endpoint that always asks to wait a day fails a delivery after five hours', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await publishMany(tenant, 5)
    const { passedMs } = await drive(tenant, () => ({ ok: false, askedMs: HOUR_MS }), { stepMs: 60_000 })
    assert.equal((await deliveriesOf(tenant, { states: ['failed'] })).length, 5)
    assert.ok(passedMs <= 5.2 * HOUR_MS, `${passedMs / HOUR_MS} h`)
  })
}

function testPacing(harness: StoreHarness): void {
  async function createPaced(t: ContractTest, events: number, maxPerSecond: number) {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint({ maxPerSecond })
    await publishMany(tenant, events)
    return tenant
  }

  harness.test(
    'claim() limits an endpoint to its maxPerSecond across all workers, and returns when there can be more',
    async (t) => {
      const tenant = await createPaced(t, 10, 0.5)
      const first = await claim(tenant)
      assert.equal(first.deliveries.length, 1)
      assert.ok((first.nextInMs ?? 0) > 1500 && (first.nextInMs ?? 0) <= 2000, `${first.nextInMs} ms`)
      assert.deepEqual((await claim(tenant, {}, tenant.secondStore)).eventIds, [])
      await writeResults(
        tenant,
        first.deliveries.map((delivery) => success(delivery)),
      )
      await tenant.letTimePass(1500)
      assert.deepEqual((await claim(tenant)).eventIds, [])
      await tenant.letTimePass(500)
      const claims = await Promise.all([claim(tenant), claim(tenant, {}, tenant.secondStore)])
      assert.deepEqual(claims.flatMap(({ deliveries }) => deliveries).length, 1)
    },
  )

  harness.test(
    'claim() returns no next turn for an endpoint that can have one now, or that it cannot serve',
    async (t) => {
      const tenant = await createPaced(t, 3, 0.5)
      await claimOne(tenant)
      assert.equal((await claim(tenant, { capacity: capacityFor(tenant, { endpoint: 0 }) })).nextInMs, null)
      await tenant.letTimePass(2000)
      assert.equal((await claim(tenant, { capacity: capacityFor(tenant, { endpoint: 0 }) })).nextInMs, null)
    },
  )

  harness.test('with a fast limit, a claim can take a tenth of a second at once', async (t) => {
    const tenant = await createPaced(t, 20, 100)
    assert.equal((await claim(tenant)).deliveries.length, 10)
    assert.deepEqual((await claim(tenant)).eventIds, [])
    await tenant.letTimePass(100)
    assert.equal((await claim(tenant)).deliveries.length, 10)
  })

  harness.test('the rate only increases while deliveries are waiting for their turn', async (t) => {
    const tenant = await createRejected(harness, t, 1)
    await tenant.letTimePass(30_000)
    await writeResults(tenant, [success(await claimOne(tenant), AT_ONCE)])
    for (let minute = 0; minute < 80; minute++) {
      await tenant.letTimePass(60_000)
      await publishMany(tenant, 1)
      await writeResults(tenant, [success(await claimOne(tenant), AT_ONCE)])
    }
    await tenant.letTimePass(60_000)
    await publishMany(tenant, 30)
    const { deliveries, nextInMs } = await claim(tenant)
    assert.equal(deliveries.length, 1)
    assert.ok((nextInMs ?? 0) > 1000, `${nextInMs} ms`)
    await writeResults(
      tenant,
      deliveries.map((delivery) => success(delivery, AT_ONCE)),
    )
    await tenant.letTimePass(1250)
    await claimOne(tenant)
    const raised = (await claim(tenant)).nextInMs ?? 0
    assert.ok(raised > 900 && raised <= 1250 / 1.1 + 1, `${raised} ms`)
  })

  harness.test(
    'update() sets, changes and removes maxPerSecond, with an entry for each change',
    async (t) => {
      const tenant = await createPaced(t, 3, 0.01)
      assert.equal((await onlyEndpoint(tenant)).maxPerSecond, 0.01)
      await claimOne(tenant)
      const { id: endpointId } = await onlyEndpoint(tenant)
      for (const maxPerSecond of [2.5, null]) {
        const entry = { ...newEntry(), action: 'endpoint.updated' as const, subjectId: endpointId }
        const changed = await tenant.store.endpoints.update({
          organizationId: tenant.id,
          endpointId,
          changes: { maxPerSecond },
          entry,
        })
        assert.deepEqual([changed?.outcome, changed?.endpoint.maxPerSecond], ['changed', maxPerSecond])
        const [recorded] = await tenant.store.audit.list(tenant.id, { subjectId: endpointId }, 1, null)
        assert.deepEqual(recorded?.details, { ...entry.details, fields: ['maxPerSecond'] })
      }
      assert.equal((await claim(tenant)).deliveries.length, 2, 'what the old limit left to wait is due')
    },
  )
}

// --- Receivers with a rate limit ---

/** Returns the response of a receiver at a time in milliseconds. */
type Receive = (atMs: number) => { readonly ok: boolean; readonly askedMs: number }

/** Accepts one request in each interval. */
function everyMs(intervalMs: number, askedMs: number): Receive {
  let last = Number.NEGATIVE_INFINITY
  return (atMs) => {
    if (atMs - last < intervalMs) return { ok: false, askedMs }
    last = atMs
    return { ok: true, askedMs: 0 }
  }
}

/** Accepts some requests in each window. */
function perWindow(count: number, windowMs: number, askedMs: number): Receive {
  let window = -1
  let taken = 0
  return (atMs) => {
    const now = Math.floor(atMs / windowMs)
    if (now !== window) taken = 0
    window = now
    return { ok: ++taken <= count, askedMs }
  }
}

function testReceivers(harness: StoreHarness): void {
  const receivers: readonly [string, number, number, () => Receive][] = [
    ['one in a second, with Retry-After', 200, 3, () => everyMs(1000, 1000)],
    ['one in a second, without Retry-After', 60, 1, () => everyMs(1000, 0)],
    ['one in two seconds', 60, 1, () => everyMs(2000, 2000)],
    ['five in each second', 200, 3, () => perWindow(5, 1000, 1000)],
    ['a hundred in each minute', 250, 1, () => perWindow(100, 60_000, 30_000)],
  ]
  for (const [name, events, workers, create] of receivers) {
    harness.test(
      `a receiver that accepts ${name} receives all of ${events} from ${workers === 1 ? 'a worker' : `${workers} workers`}`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        await tenant.insertEndpoint()
        await publishMany(tenant, events)
        const { rejected } = await drive(tenant, create(), { workers, stepMs: 1000 })
        assert.equal((await deliveriesOf(tenant, { states: ['delivered'] })).length, events)
        assert.ok(rejected <= events / 10, `${rejected} rejections`)
        const { state, failures } = await onlyEndpoint(tenant)
        assert.deepEqual([state, failures], ['enabled', 0])
      },
    )
  }

  harness.test(
    'a receiver that rejects every second request receives nearly all, with as many rejections',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 60)
      let requests = 0
      const { rejected, passedMs } = await drive(tenant, () => ({ ok: ++requests % 2 === 1, askedMs: 0 }))
      const failed = await deliveriesOf(tenant, { states: ['failed'] })
      assert.ok(failed.length <= 4 && rejected <= 70, `${failed.length} failed, ${rejected} rejections`)
      assert.ok(passedMs < HOUR_MS, `${passedMs / 1000} s`)
    },
  )
}

/** Claims deliveries and writes results until all deliveries have ended. */
async function drive(tenant: Tenant, receive: Receive, { workers = 1, stepMs = 500 } = {}) {
  const stores = [tenant.store, tenant.secondStore]
  const startedAt = performance.now()
  let passedMs = 0
  let rejected = 0
  const capacity = capacityFor(tenant, { endpoint: 4 })
  /** @param sentAt before any result of the same round is written */
  const answer = (delivery: Claimed, sentAt: number): AttemptResult => {
    const { ok, askedMs } = receive(passedMs + performance.now() - startedAt)
    const times = { ...AT_ONCE, startedAgoMs: performance.now() - sentAt + 1 }
    if (ok) return success(delivery, times)
    rejected++
    return rejection(delivery, askedMs, times)
  }
  for (;;) {
    let nextInMs = stepMs
    const claims: ClaimedSome[] = []
    for (let worker = 0; worker < workers; worker++) {
      claims.push(await claim(tenant, { capacity }, stores[worker % stores.length]))
    }
    const sentAt = performance.now()
    for (const { deliveries, ...some } of claims) {
      if (deliveries.length > 0) {
        await writeResults(
          tenant,
          deliveries.map((delivery) => answer(delivery, sentAt)),
        )
      }
      // Like a loop, which claims again once attempts have ended.
      nextInMs = Math.min(nextInMs, some.nextInMs ?? (deliveries.length > 0 ? 0 : stepMs))
    }
    const open = await tenant.store.deliveries.count(tenant.id, { states: ['pending', 'sending'] }, 1)
    if (open === 0) return { rejected, passedMs }
    const waitMs = Math.ceil(nextInMs) + 5
    await tenant.letTimePass(waitMs)
    passedMs += waitMs
  }
}
