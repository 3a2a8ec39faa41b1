import assert from 'node:assert/strict'
import {
  claim,
  claimOne,
  createPublisher,
  failure,
  LEASE_MS,
  lastFailure,
  onlyDelivery,
  onlyEndpoint,
  refOf,
  storeTime,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { ids } from './tenant.ts'

/** Tests how long a claim lasts, and writes with a claim that is no longer active. */
export function testLeases(harness: StoreHarness): void {
  testEnds(harness)
  testFences(harness)
}

function testEnds(harness: StoreHarness): void {
  harness.test('the next worker receives a delivery when the lease expires, and not before', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const event = await tenant.publish()
    await claimOne(tenant)
    await tenant.letTimePass(LEASE_MS - 10_000)
    assert.deepEqual((await claim(tenant, {}, tenant.secondStore)).eventIds, [])
    await tenant.letTimePass(10_001)
    const { deliveries } = await claim(tenant, {}, tenant.secondStore)
    assert.deepEqual(
      deliveries.map(({ eventId, body, attempt }) => [eventId, body, attempt]),
      [[event.id, event.body, 2]],
    )
  })

  harness.test(
    'an attempt with an expired lease is logged as interrupted, from the claim to the end of the lease',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      await claimOne(tenant, { leaseMs: 45_000 })
      await tenant.letTimePass(60_000)
      const { storeTime } = await claim(tenant)
      const { attempts, attemptLog } = await onlyDelivery(tenant)
      assert.equal(attempts, 2)
      const [{ startedAt, ...entry } = { startedAt: '' }, ...others] = attemptLog
      assert.deepEqual(entry, {
        number: 1,
        durationMs: 45_000,
        dnsMs: null,
        connectMs: null,
        tlsMs: null,
        firstByteMs: null,
        status: null,
        error: 'interrupted',
        bodyExcerpt: '',
        location: null,
        headers: null,
      })
      assert.deepEqual(others, [])
      assert.match(startedAt, TIMESTAMP)
      const agoMs = storeTime - Date.parse(startedAt)
      assert.ok(agoMs >= 60_000 && agoMs < 70_000, `${agoMs} ms ago`)
    },
  )

  harness.test('a delivery with an expired lease waits as a retry that is due immediately', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const interrupted = await tenant.publish()
    await claimOne(tenant)
    await tenant.letTimePass(LEASE_MS + 1)
    const now = await storeTime(tenant)
    const { state, dueAt } = await onlyDelivery(tenant)
    assert.equal(state, 'pending')
    assert.ok(Math.abs(now - Date.parse(dueAt ?? '')) < 10_000, 'not due as it was before')
    const first = await tenant.publish()
    assert.deepEqual((await claim(tenant, { limit: 1 })).eventIds, [first.id])
    assert.deepEqual((await claim(tenant)).eventIds, [interrupted.id])
  })

  harness.test('the fifth expired lease fails the delivery with the reason interrupted', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    for (let attempt = 1; attempt <= 5; attempt++) {
      assert.equal((await claimOne(tenant)).attempt, attempt)
      await tenant.letTimePass(LEASE_MS + 1)
    }
    assert.deepEqual((await claim(tenant)).eventIds, [])
    const { state, reason, attempts, dueAt, finishedAt, attemptLog } = await onlyDelivery(tenant)
    assert.deepEqual([state, reason, attempts, dueAt], ['failed', 'interrupted', 5, null])
    assert.match(finishedAt ?? '', TIMESTAMP)
    const expected = [1, 2, 3, 4, 5].map((number) => [number, 'interrupted'])
    assert.deepEqual(
      attemptLog.map(({ number, error }) => [number, error]),
      expected,
    )
  })

  harness.test('the maximum of attempts of the interrupted claim applies, even after failures', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant))])
    await claimOne(tenant)
    await tenant.letTimePass(LEASE_MS + 1)
    await claim(tenant, { maxAttempts: 2 })
    const { state, attemptLog } = await onlyDelivery(tenant)
    assert.equal(state, 'failed')
    assert.deepEqual(
      attemptLog.map(({ error }) => error),
      [null, 'interrupted'],
    )
  })

  harness.test('an interrupted attempt is not a failure of the endpoint', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    for (let attempt = 1; attempt <= 5; attempt++) {
      await claimOne(tenant)
      await tenant.letTimePass(LEASE_MS + 1)
    }
    await claim(tenant)
    const { state, failures, failingSince } = await onlyEndpoint(tenant)
    assert.deepEqual([state, failures, failingSince], ['enabled', 0, null])
  })
}

function testFences(harness: StoreHarness): void {
  harness.test('a result of an inactive claim is dropped entirely, and nothing is logged', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    const late = await claimOne(tenant)
    await tenant.letTimePass(LEASE_MS + 1)
    const current = await claimOne(tenant)
    const before = [await onlyDelivery(tenant), await onlyEndpoint(tenant)]
    for (const result of [success(late), failure(late), lastFailure(late, { isGone: true })]) {
      assert.deepEqual(await writeResults(tenant, [result], { failures: 1, failingMs: 0 }), [])
      assert.deepEqual([await onlyDelivery(tenant), await onlyEndpoint(tenant)], before)
    }
    await writeResults(tenant, [success(current)])
    const { state, attemptLog } = await onlyDelivery(tenant)
    assert.equal(state, 'delivered')
    assert.deepEqual(
      attemptLog.map(({ number, error, status }) => [number, error, status]),
      [
        [1, 'interrupted', null],
        [2, null, 204],
      ],
    )
  })

  harness.test('release() ignores inactive claims', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    const late = await claimOne(tenant)
    await tenant.letTimePass(LEASE_MS + 1)
    const current = await claimOne(tenant)
    const before = await onlyDelivery(tenant)
    const notInForce = [refOf(late), { ...refOf(current), deliveryId: ids('dlv') }]
    await tenant.store.deliveries.release(notInForce)
    assert.deepEqual(await onlyDelivery(tenant), before)

    await writeResults(tenant, [success(current)])
    const delivered = await onlyDelivery(tenant)
    await tenant.store.deliveries.release([refOf(current)])
    assert.deepEqual(await onlyDelivery(tenant), delivered)
  })

  harness.test('a claim can only be ended with its own token', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    const delivery = await claimOne(tenant)
    const before = await onlyDelivery(tenant)
    for (const token of ['', `${delivery.token} `, delivery.token.toUpperCase(), 'null']) {
      await writeResults(tenant, [success({ ...delivery, token })])
      await tenant.store.deliveries.release([{ ...refOf(delivery), token }])
    }
    assert.deepEqual(await onlyDelivery(tenant), before)
    await writeResults(tenant, [success(delivery)])
    assert.equal((await onlyDelivery(tenant)).state, 'delivered')
  })

  harness.test('a pending delivery has no claim that any token could end', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    const delivery = await claimOne(tenant)
    await tenant.store.deliveries.release([refOf(delivery)])
    const before = await onlyDelivery(tenant)
    assert.deepEqual(await writeResults(tenant, [failure(delivery)]), [])
    await tenant.store.deliveries.release([refOf(delivery)])
    assert.deepEqual(await onlyDelivery(tenant), before)
  })
}
