import assert from 'node:assert/strict'
import type { AttemptResult, FailureLimit } from '../../lib/webhooks/claims.ts'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  lastFailure,
  NEVER,
  onlyEndpoint,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

/** Tests the health of endpoints based on recorded attempts, and when they are disabled. */
export function testHealth(harness: StoreHarness): void {
  testCounters(harness)
  testFailing(harness)
  testGone(harness)
}

/** Publishes an event and records an attempt of its delivery. */
async function attemptOnce(
  tenant: Tenant,
  resultOf: (delivery: Claimed) => AttemptResult,
  limit: FailureLimit = NEVER,
) {
  await tenant.publish()
  return writeResults(tenant, [resultOf(await claimOne(tenant))], limit)
}

const fails = (delivery: Claimed) => lastFailure(delivery)
const succeeds = (delivery: Claimed) => success(delivery)

function testCounters(harness: StoreHarness): void {
  harness.test('writeResults() only returns the health of endpoints with a failed attempt', async (t) => {
    const tenant = await createPublisher(harness, t)
    const failing = await tenant.insertEndpoint()
    await tenant.insertEndpoint()
    await tenant.publish()
    const { deliveries, storeTime } = await claim(tenant)
    const results = deliveries.map((delivery) =>
      delivery.endpointId === failing.id ? failure(delivery, { endedAgoMs: 20_000 }) : success(delivery),
    )
    const [{ failingSince, ...health } = { failingSince: null }, ...others] = await writeResults(
      tenant,
      results,
    )
    assert.deepEqual(health, {
      organizationId: tenant.id,
      endpointId: failing.id,
      state: 'enabled',
      disabledReason: null,
      failures: 1,
      isNewlyFailing: false,
      isNewlyDisabled: false,
    })
    assert.deepEqual(others, [])
    assert.match(failingSince ?? '', TIMESTAMP)
    const agoMs = storeTime - Date.parse(failingSince ?? '')
    // Recorded after the claim, and truncated to milliseconds.
    assert.ok(agoMs > 10_000 && agoMs <= 20_001, 'since the failed attempt ended')
    const endpoints = await tenant.store.endpoints.list(tenant.id)
    assert.deepEqual(
      endpoints.map((endpoint) => [endpoint.id === failing.id, endpoint.failures, endpoint.failingSince]),
      [
        [false, 0, null],
        [true, 1, failingSince],
      ],
    )
  })

  harness.test('failures are counted since the last success, in all states of the deliveries', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await attemptOnce(tenant, fails)
    const { failingSince } = await onlyEndpoint(tenant)
    await attemptOnce(tenant, (delivery) => failure(delivery, { delayMs: 60_000 }))
    const [health] = await attemptOnce(tenant, fails)
    assert.deepEqual([health?.failures, health?.failingSince], [3, failingSince])

    assert.deepEqual(await attemptOnce(tenant, succeeds), [])
    const healthy = await onlyEndpoint(tenant)
    assert.deepEqual([healthy.failures, healthy.failingSince], [0, null])
    await attemptOnce(tenant, fails)
    assert.equal((await onlyEndpoint(tenant)).failures, 1)
  })

  harness.test('within a call, attempts count in the order in which they ended', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await attemptOnce(tenant, fails)
    const cases = [
      // Failures and a success in milliseconds ago, and the resulting count.
      { failed: [50, 40, 30], succeeded: 20, failures: 0 },
      { failed: [50, 30, 20], succeeded: 40, failures: 2 },
      { failed: [30, 20, 10], succeeded: 40, failures: 3 },
    ]
    for (const { failed, succeeded, failures } of cases) {
      for (let event = 0; event < 4; event++) await tenant.publish()
      const [first, ...rest] = (await claim(tenant)).deliveries
      assert.ok(first, 'no delivery')
      const results = rest.map((delivery, index) => lastFailure(delivery, { endedAgoMs: failed[index] ?? 0 }))
      const [health] = await writeResults(tenant, [...results, success(first, { endedAgoMs: succeeded })])
      assert.equal(health?.failures, failures)
      assert.equal(health.failingSince === null, failures === 0)
    }
  })
}

function testFailing(harness: StoreHarness): void {
  const HOUR_MS = 3_600_000

  harness.test('an endpoint is disabled as failing only after enough failures and enough time', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const limit = { failures: 3, failingMs: HOUR_MS }
    await attemptOnce(tenant, fails, limit)
    await tenant.letTimePass(HOUR_MS + 1)
    const [longEnough] = await attemptOnce(tenant, fails, limit)
    assert.deepEqual([longEnough?.state, longEnough?.isNewlyDisabled], ['enabled', false], 'not often enough')
    const [health] = await attemptOnce(tenant, fails, limit)
    assert.deepEqual([health?.state, health?.failures, health?.isNewlyDisabled], ['disabled', 3, true])
    const { state, disabledReason } = await onlyEndpoint(tenant)
    assert.deepEqual([state, disabledReason], ['disabled', 'failing'])
  })

  harness.test('an endpoint that has failed often but not for long stays enabled', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const limit = { failures: 3, failingMs: HOUR_MS }
    for (let attempt = 0; attempt < 5; attempt++) await attemptOnce(tenant, fails, limit)
    await tenant.letTimePass(HOUR_MS - 60_000)
    const [health] = await attemptOnce(tenant, fails, limit)
    assert.deepEqual([health?.state, health?.failures, health?.isNewlyDisabled], ['enabled', 6, false])
    await tenant.letTimePass(60_001)
    assert.equal((await attemptOnce(tenant, fails, limit))[0]?.isNewlyDisabled, true)
  })

  harness.test('a success resets the failures of an endpoint', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const limit = { failures: 2, failingMs: HOUR_MS }
    await attemptOnce(tenant, fails, limit)
    await tenant.letTimePass(HOUR_MS + 1)
    await attemptOnce(tenant, succeeds, limit)
    await attemptOnce(tenant, fails, limit)
    const [health] = await attemptOnce(tenant, fails, limit)
    assert.deepEqual([health?.state, health?.failures], ['enabled', 2])
  })

  harness.test(
    'an endpoint is reported as newly disabled once, and its waiting deliveries are skipped',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      for (let event = 0; event < 4; event++) await tenant.publish()
      const [one, other] = (await claim(tenant, { limit: 2 })).deliveries
      assert.ok(one && other, 'one or other is missing')
      const limit = { failures: 1, failingMs: 0 }
      assert.equal((await writeResults(tenant, [failure(one)], limit))[0]?.isNewlyDisabled, true)
      const [again] = await writeResults(tenant, [lastFailure(other)], limit)
      assert.deepEqual([again?.state, again?.isNewlyDisabled], ['disabled', false])
      assert.deepEqual((await claim(tenant)).eventIds, [])
      const states = (await deliveriesOf(tenant)).map(({ state }) => state)
      assert.deepEqual(states.toSorted(), ['failed', 'skipped', 'skipped', 'skipped'])
    },
  )

  harness.test('a paused endpoint is disabled as well if its running attempts fail', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    const delivery = await claimOne(tenant)
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    const [health] = await writeResults(tenant, [failure(delivery)], { failures: 1, failingMs: 0 })
    assert.deepEqual([health?.state, health?.isNewlyDisabled], ['disabled', true])
  })

  harness.test('an endpoint that is enabled again can fail as often as a new one', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    const limit = { failures: 2, failingMs: 0 }
    await attemptOnce(tenant, fails, limit)
    await attemptOnce(tenant, fails, limit)
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'enabled',
      from: ['disabled'],
      entry: newEntry(),
    })
    assert.equal((await attemptOnce(tenant, fails, limit))[0]?.isNewlyDisabled, false)
    assert.equal((await attemptOnce(tenant, fails, limit))[0]?.isNewlyDisabled, true)
  })
}

function testGone(harness: StoreHarness): void {
  const gone = (delivery: Claimed) => lastFailure(delivery, { isGone: true, reason: 'gone', status: 410 })

  harness.test(
    'an endpoint that responds with gone is disabled immediately, whatever the limits',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await attemptOnce(tenant, succeeds)
      const [health] = await attemptOnce(tenant, gone)
      assert.deepEqual([health?.state, health?.failures, health?.isNewlyDisabled], ['disabled', 1, true])
      assert.equal((await onlyEndpoint(tenant)).disabledReason, 'gone')
      const [delivery] = await deliveriesOf(tenant)
      assert.deepEqual([delivery?.state, delivery?.reason], ['failed', 'gone'])
    },
  )

  harness.test('an endpoint that is already disabled keeps the first reason', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    const delivery = await claimOne(tenant)
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    const [health] = await writeResults(tenant, [gone(delivery)], { failures: 1, failingMs: 0 })
    assert.deepEqual([health?.state, health?.isNewlyDisabled], ['disabled', false])
    assert.equal((await onlyEndpoint(tenant)).disabledReason, 'administrator')
  })

  harness.test('the reason is gone even if the endpoint has failed too often as well', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await attemptOnce(tenant, gone, { failures: 1, failingMs: 0 })
    assert.equal((await onlyEndpoint(tenant)).disabledReason, 'gone')
  })
}
