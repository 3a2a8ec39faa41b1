import assert from 'node:assert/strict'
import type { AttemptResult } from '../../lib/webhooks/claims.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  getDelivery,
  lastFailure,
  onlyDelivery,
  onlyEndpoint,
  refOf,
  success,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** Tests the states of deliveries after their attempts, and the attempt log. */
export function testAttempts(harness: StoreHarness): void {
  testOutcomes(harness)
  testLog(harness)
  testBatches(harness)
  testRelease(harness)
}

/** Asserts that a timestamp is this long ago by the store's clock, give or take the duration of a test. */
function assertAgo(timestamp: string | null | undefined, storeTime: number, ms: number): void {
  const agoMs = storeTime - Date.parse(timestamp ?? '')
  assert.ok(agoMs >= ms && agoMs < ms + 10_000, `${agoMs} ms ago instead of ${ms}`)
}

async function claimAll(tenant: Tenant, events: number): Promise<readonly Claimed[]> {
  for (let event = 0; event < events; event++) await tenant.publish()
  return (await claim(tenant)).deliveries
}

function testOutcomes(harness: StoreHarness): void {
  harness.test(
    'writeResults() of a success marks the delivery as delivered, finished when the attempt ended',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const event = await tenant.publish()
      const delivery = await claimOne(tenant)
      const { createdAt } = await onlyDelivery(tenant)
      assert.deepEqual(await writeResults(tenant, [success(delivery, { endedAgoMs: 20_000 })]), [])
      const { storeTime, eventIds } = await claim(tenant)
      assert.deepEqual(eventIds, [])
      const { finishedAt, attemptLog, ...rest } = await onlyDelivery(tenant)
      assert.deepEqual(rest, {
        id: delivery.id,
        eventId: event.id,
        type: event.type,
        subjectId: null,
        endpointId: delivery.endpointId,
        state: 'delivered',
        attempts: 1,
        dueAt: null,
        reason: null,
        createdAt,
        lastStatus: 204,
        lastError: null,
        body: event.body,
      })
      assertAgo(finishedAt, storeTime, 20_000)
      assert.equal(attemptLog.length, 1)
    },
  )

  harness.test(
    'writeResults() of a failure delays the delivery, starting at the end of the attempt',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const [delivery] = await claimAll(tenant, 1)
      assert.ok(delivery, 'no delivery')
      await writeResults(tenant, [
        failure(delivery, { startedAgoMs: 30_000, endedAgoMs: 20_000, delayMs: 60_000 }),
      ])
      const { storeTime, eventIds } = await claim(tenant)
      assert.deepEqual(eventIds, [])
      const { state, dueAt, reason, finishedAt, attempts } = await onlyDelivery(tenant)
      assert.deepEqual([state, reason, finishedAt, attempts], ['pending', null, null, 1])
      assertAgo(dueAt, storeTime, -40_000)

      await tenant.letTimePass(30_000)
      assert.deepEqual((await claim(tenant)).eventIds, [])
      await tenant.letTimePass(10_001)
      assert.deepEqual((await claim(tenant)).eventIds, [delivery.eventId])
    },
  )

  harness.test('writeResults() of a last failure fails the delivery and stores the reason', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [delivery] = await claimAll(tenant, 1)
    assert.ok(delivery, 'no delivery')
    await writeResults(tenant, [lastFailure(delivery, { reason: 'timeout', endedAgoMs: 20_000 })])
    await tenant.letTimePass(24 * 3_600_000)
    const { storeTime, eventIds } = await claim(tenant)
    assert.deepEqual(eventIds, [], 'it is final')
    const { state, reason, dueAt, finishedAt } = await onlyDelivery(tenant)
    assert.deepEqual([state, reason, dueAt], ['failed', 'timeout', null])
    assert.ok(storeTime - Date.parse(finishedAt ?? '') >= 20_000, `finished at ${finishedAt}`)
  })
}

function testLog(harness: StoreHarness): void {
  const attempts: Record<string, Partial<AttemptResult>> = {
    'every part of it known': {
      durationMs: 9876.5,
      dnsMs: 0.25,
      connectMs: 12.5,
      tlsMs: 0,
      firstByteMs: 100,
      status: 503,
      bodyExcerpt: 'Try again\r\n\tlater \u0001\u007f\u2028 "\\\' 株式会社 🏺 {"a":[null]} %s $1',
    },
    'no answer': {
      durationMs: 10_000,
      dnsMs: null,
      connectMs: null,
      tlsMs: null,
      firstByteMs: null,
      status: null,
      error: 'timeout',
      bodyExcerpt: '',
    },
    'a redirect': { status: 301, location: 'https://new.example.com/hooks' },
    'an answer of 4 KiB': { bodyExcerpt: `${'é'.repeat(2047)}"\\`, status: 599 },
  }
  for (const [what, changes] of Object.entries(attempts)) {
    harness.test(`writeResults() logs all details of an attempt: ${what}`, async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const [delivery] = await claimAll(tenant, 1)
      assert.ok(delivery, 'no delivery')
      const result = failure(delivery, { ...changes, startedAgoMs: 15_000 })
      await writeResults(tenant, [result])
      const { storeTime } = await claim(tenant)
      const {
        durationMs,
        dnsMs,
        connectMs,
        tlsMs,
        firstByteMs,
        status,
        error,
        bodyExcerpt,
        location = null,
      } = result
      const [{ startedAt, ...entry } = { startedAt: '' }, ...others] = (await onlyDelivery(tenant)).attemptLog
      assertAgo(startedAt, storeTime, 15_000)
      const timings = { durationMs, dnsMs, connectMs, tlsMs, firstByteMs }
      assert.deepEqual(entry, { number: 1, ...timings, status, error, bodyExcerpt, location, headers: null })
      assert.deepEqual(others, [])
    })
  }

  harness.test('get() and listAttempts() omit the signature of an attempt for ten minutes', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [delivery] = await claimAll(tenant, 1)
    assert.ok(delivery, 'no delivery')
    const kept = { request: { 'X-Key': '(hidden)' }, response: { server: 'n"\\ é' } }
    const headers = { ...kept, signed: { 'X-SERVICE-Signature': 't=1,v1=ab' } }
    await writeResults(tenant, [failure(delivery, { status: 401, headers, startedAgoMs: 5000 })])
    const logged = async (): Promise<unknown[]> => [
      (await onlyDelivery(tenant)).attemptLog[0]?.headers,
      (await tenant.store.deliveries.listAttempts(tenant.id, [delivery.id])).get(delivery.id)?.[0]?.headers,
    ]
    assert.deepEqual(await logged(), [kept, kept])
    await tenant.letTimePass(580_000)
    assert.deepEqual(await logged(), [kept, kept])
    await tenant.letTimePass(20_000)
    assert.deepEqual(await logged(), [headers, headers])
  })

  harness.test('get() returns the attempts of a delivery oldest first, numbered from 1', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    for (let attempt = 1; attempt <= 12; attempt++) {
      await writeResults(tenant, [failure(await claimOne(tenant), { status: 500 + attempt })])
    }
    const { attemptLog, attempts, state } = await onlyDelivery(tenant)
    assert.deepEqual([attempts, state], [12, 'pending'])
    assert.deepEqual(
      attemptLog.map(({ number, status }) => [number, status]),
      Array.from({ length: 12 }, (_, index) => [index + 1, 501 + index]),
    )
  })
}

function testBatches(harness: StoreHarness): void {
  harness.test('writeResults() of the same results again changes nothing', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [one, other, third] = await claimAll(tenant, 3)
    assert.ok(one && other && third, 'one, other or third is missing')
    const results = [
      success(one, { endedAgoMs: 30 }),
      failure(other, { delayMs: 60_000 }),
      lastFailure(third),
    ]
    assert.equal((await writeResults(tenant, results))[0]?.failures, 2)
    const state = async () => [
      await onlyEndpoint(tenant),
      await Promise.all([one, other, third].map(({ id }) => getDelivery(tenant, id))),
    ]
    const before = await state()
    assert.deepEqual(await writeResults(tenant, results), [])
    const again = await tenant.secondStore.deliveries.writeResults(results, { failures: 1, failingMs: 0 })
    assert.deepEqual(again.endpoints, [])
    assert.deepEqual(await state(), before)
  })

  harness.test(
    'writeResults() returns the results of lost claims, but not those that were written before',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const [one, other, third] = await claimAll(tenant, 3)
      assert.ok(one && other && third, 'one, other or third is missing')
      const limit = { failures: 1000, failingMs: 1_000_000 }
      const written = [success(one, { durationMs: 17.5 }), failure(other, { delayMs: 60_000 })]
      const late = success({ ...third, token: 'another' }, { durationMs: 90_000.25 })
      const unknown = success({ ...third, id: ids('dlv') })
      const lost = [late, unknown].map(({ organizationId, deliveryId, token }) => {
        return { organizationId, deliveryId, token }
      })
      const { deliveries } = tenant.store
      assert.deepEqual((await deliveries.writeResults([...written, late, unknown], limit)).lost, lost)
      assert.deepEqual((await deliveries.writeResults(written, limit)).lost, [])
      const again = await tenant.secondStore.deliveries.writeResults(
        [...written, late, success(third)],
        limit,
      )
      assert.deepEqual(again.lost, lost.slice(0, 1))
    },
  )

  harness.test('a result sent ten times concurrently by two processes is recorded once', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [delivery] = await claimAll(tenant, 1)
    assert.ok(delivery, 'no delivery')
    const limit = { failures: 1000, failingMs: 1_000_000 }
    const calls = Array.from({ length: 10 }, (_, index) => {
      const store = index % 2 === 0 ? tenant.store : tenant.secondStore
      return store.deliveries.writeResults([failure(delivery, { delayMs: 60_000 })], limit)
    })
    const told = (await Promise.all(calls)).flatMap(({ endpoints }) => endpoints)
    assert.deepEqual(
      told.map(({ failures }) => failures),
      [1],
    )
    assert.equal((await onlyDelivery(tenant)).attemptLog.length, 1)
    assert.equal((await onlyEndpoint(tenant)).failures, 1)
  })

  harness.test(
    'writeResults() drops a result of an inactive claim, and records the other results',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const [one, other] = await claimAll(tenant, 2)
      assert.ok(one && other, 'one or other is missing')
      const unknown = success({ ...one, id: ids('dlv') })
      const stranger = success({ ...one, organizationId: 'org_unheard_of' })
      await writeResults(tenant, [unknown, success({ ...one, token: 'another' }), stranger, success(other)])
      assert.equal((await getDelivery(tenant, one.id)).state, 'sending')
      assert.equal((await getDelivery(tenant, other.id)).state, 'delivered')
      assert.deepEqual(await writeResults(tenant, []), [])
    },
  )

  harness.sharedTest('writeResults() takes the results of several organizations at once', async (t) => {
    const [ours, theirs] = [await createPublisher(harness, t), await createPublisher(harness, t)]
    const endpointId = ids('we')
    for (const tenant of [ours, theirs]) await tenant.insertEndpoint({ id: endpointId })
    const [mine, their] = [(await claimAll(ours, 1))[0], (await claimAll(theirs, 1))[0]]
    assert.ok(mine && their, 'mine or their is missing')
    const health = await writeResults(ours, [success(mine), lastFailure(their)])
    assert.deepEqual(
      health.map(({ organizationId, failures }) => [organizationId, failures]),
      [[theirs.id, 1]],
    )
    assert.equal((await onlyDelivery(ours)).state, 'delivered')
    assert.equal((await onlyDelivery(theirs)).state, 'failed')
    assert.equal((await onlyEndpoint(ours)).failures, 0)
  })
}

function testRelease(harness: StoreHarness): void {
  harness.test(
    'release() returns a delivery unchanged, due as before and without counting an attempt',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const event = await tenant.publish()
      for (const attempts of [0, 1]) {
        const before = await onlyDelivery(tenant)
        assert.equal(before.attempts, attempts)
        const delivery = await claimOne(tenant)
        assert.notDeepEqual(await onlyDelivery(tenant), before)
        await tenant.secondStore.deliveries.release([refOf(delivery)])
        assert.deepEqual(await onlyDelivery(tenant), before)

        const { deliveries, eventIds } = await claim(tenant, {}, tenant.secondStore)
        assert.deepEqual(eventIds, [event.id], 'anybody can take it at once')
        assert.equal(deliveries[0]?.attempt, attempts + 1)
        await writeResults(
          tenant,
          deliveries.map((again) => failure(again)),
        )
      }
    },
  )

  harness.test('releasing a claim twice, in one call or two, uncounts a single attempt', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant))])
    const ref = refOf(await claimOne(tenant))
    await tenant.store.deliveries.release([ref, ref])
    await tenant.store.deliveries.release([ref])
    await tenant.store.deliveries.release([])
    assert.equal((await onlyDelivery(tenant)).attempts, 1)
    assert.equal((await claimOne(tenant)).attempt, 2)
  })

  harness.test('release() only releases the given deliveries, and no others of the same claim', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [one, other] = await claimAll(tenant, 2)
    assert.ok(one && other, 'one or other is missing')
    await tenant.store.deliveries.release([refOf(one)])
    const states = new Map((await deliveriesOf(tenant)).map(({ id, state }) => [id, state]))
    assert.deepEqual([states.get(one.id), states.get(other.id)], ['pending', 'sending'])
  })
}
