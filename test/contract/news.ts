import assert from 'node:assert/strict'
import type { AttemptResult, FailureLimit, ResultReport } from '../../lib/webhooks/claims.ts'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  failure,
  LEASE_MS,
  lastFailure,
  NEVER,
  onlyEndpoint,
  publishMany,
  success,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

/** Tests that the store reports a new failure once across all processes, so that a host receives a single notice. */
export function testNews(harness: StoreHarness): void {
  testFailing(harness)
  testLostAnswers(harness)
  testFailedDeliveries(harness)
}

/** The second failure is half of the limit. */
const LIMIT: FailureLimit = { failures: 4, failingMs: 3_600_000 }

function attempt(
  { store, secondStore }: Tenant,
  results: readonly AttemptResult[],
  { limit = LIMIT, inSecond = false }: { limit?: FailureLimit; inSecond?: boolean } = {},
): Promise<ResultReport> {
  return (inSecond ? secondStore : store).deliveries.writeResults(results, limit)
}

/** Publishes an event and claims its delivery. */
async function next(tenant: Tenant): Promise<Claimed> {
  await tenant.publish()
  return claimOne(tenant)
}

/** Returns what is newly reported by endpoint. */
function newsOf({ endpoints }: ResultReport): readonly (string | null)[] {
  return endpoints.map(({ isNewlyFailing, isNewlyDisabled }) => {
    if (isNewlyFailing && isNewlyDisabled) return 'both'
    return isNewlyFailing ? 'failing' : isNewlyDisabled ? 'disabled' : null
  })
}

function testFailing(harness: StoreHarness): void {
  harness.test(
    'an endpoint is newly failing once, at half of the failures that disable it, in any process',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const news = []
      for (let number = 0; number < 4; number++) {
        const report = await attempt(tenant, [lastFailure(await next(tenant))], {
          inSecond: number % 2 === 0,
        })
        news.push(...newsOf(report))
      }
      assert.deepEqual(news, [null, 'failing', null, null])
    },
  )

  harness.test(
    'an endpoint whose failures are recorded concurrently by two processes is reported as newly failing by one',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 12)
      const { deliveries } = await claim(tenant)
      // An endpoint locked by another process is skipped, so not all failures count here.
      const reports = await Promise.all(
        deliveries.map((delivery, index) =>
          attempt(tenant, [lastFailure(delivery)], { inSecond: index % 2 === 0 }),
        ),
      )
      const more = [await attempt(tenant, [lastFailure(await next(tenant))])]
      more.push(await attempt(tenant, [lastFailure(await next(tenant))]))
      const news = [...reports, ...more].flatMap(newsOf).filter((one) => one !== null)
      assert.deepEqual(news, ['failing'])
    },
  )

  harness.test('an endpoint can be newly failing again after a success or after being enabled', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    const failTwice = async (): Promise<readonly (string | null)[]> => {
      const first = await attempt(tenant, [lastFailure(await next(tenant))])
      return [...newsOf(first), ...newsOf(await attempt(tenant, [lastFailure(await next(tenant))]))]
    }
    assert.deepEqual(await failTwice(), [null, 'failing'])
    await attempt(tenant, [success(await next(tenant))])
    assert.deepEqual(await failTwice(), [null, 'failing'])
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'enabled',
      from: ['disabled'],
      entry: newEntry(),
    })
    assert.deepEqual(await failTwice(), [null, 'failing'])
  })

  harness.test(
    'a success within a call resets the failures, so later ones can make the endpoint newly failing again',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 5)
      const [one, two, three, four, five] = (await claim(tenant)).deliveries
      assert.ok(one && two && three && four && five, 'one, two, three, four or five is missing')
      assert.deepEqual(newsOf(await attempt(tenant, [failure(one), failure(two)])), ['failing'])
      const results = [
        success(three, { endedAgoMs: 30 }),
        lastFailure(four, { endedAgoMs: 20 }),
        lastFailure(five, { endedAgoMs: 10 }),
      ]
      assert.deepEqual(newsOf(await attempt(tenant, results)), ['failing'])
    },
  )

  harness.test(
    'results that disable an endpoint do not report it as newly failing as well, and return the reason',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const limit = { failures: 1, failingMs: 0 }
      const report = await attempt(tenant, [lastFailure(await next(tenant))], { limit })
      assert.deepEqual(newsOf(report), ['disabled'])
      assert.equal(report.endpoints[0]?.disabledReason, 'failing')
    },
  )

  harness.test('failures of an endpoint that is already disabled are not reported', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await publishMany(tenant, 3)
    const { deliveries } = await claim(tenant)
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    const report = await attempt(
      tenant,
      deliveries.map((delivery) => lastFailure(delivery)),
    )
    assert.deepEqual(newsOf(report), [null])
    assert.equal(report.endpoints[0]?.disabledReason, 'administrator')
  })
}

function testLostAnswers(harness: StoreHarness): void {
  const gone = (delivery: Claimed) => lastFailure(delivery, { isGone: true, reason: 'gone', status: 410 })

  harness.test(
    'the same results sent again report the same consequences, even together with other results',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint()
      await publishMany(tenant, 3)
      const [one, two, three] = (await claim(tenant)).deliveries
      assert.ok(one && two && three, 'one, two or three is missing')
      const results = [lastFailure(one), failure(two)]
      const lost = await attempt(tenant, results)
      const state = async () => [
        await onlyEndpoint(tenant),
        await tenant.store.deliveries.get(tenant.id, one.id),
      ]
      const before = await state()
      const again = await attempt(tenant, results, { inSecond: true })
      assert.deepEqual(again, lost)
      assert.deepEqual([newsOf(again), again.failed.length], [['failing'], 1])
      assert.deepEqual(await state(), before, 'and change nothing')

      const more = await attempt(tenant, [...results, lastFailure(three)])
      assert.deepEqual(newsOf(more).toSorted(), ['failing', null])
      assert.deepEqual(
        more.failed.map(({ deliveryId }) => deliveryId).toSorted(),
        [one.id, three.id].toSorted(),
      )
      for (const { endpointId, failures } of more.endpoints) assert.deepEqual([endpointId, failures], [id, 3])
    },
  )

  harness.test('results that have disabled an endpoint report it again if repeated', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const results = [gone(await next(tenant))]
    const lost = await attempt(tenant, results)
    assert.deepEqual([newsOf(lost), lost.endpoints[0]?.disabledReason], [['disabled'], 'gone'])
    assert.deepEqual(await attempt(tenant, results, { inSecond: true }), lost)
  })

  harness.test('a consequence that an administrator has since undone is not reported again', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    const results = [gone(await next(tenant))]
    await attempt(tenant, results)
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'enabled',
      from: ['disabled'],
      entry: newEntry(),
    })
    assert.deepEqual(newsOf(await attempt(tenant, results)), [null])
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    assert.deepEqual(newsOf(await attempt(tenant, results)), [null])
    await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId: id, entry: newEntry() })
    assert.deepEqual(newsOf(await attempt(tenant, results)), [])
  })

  harness.test('a late result does not report the consequences of other results', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const late = await next(tenant)
    await tenant.letTimePass(LEASE_MS + 1)
    const current = await claimOne(tenant)
    await attempt(tenant, [lastFailure(current, { reason: 'timeout' })], {
      limit: { failures: 1, failingMs: 0 },
    })
    const { lost, ...news } = await attempt(tenant, [lastFailure(late, { durationMs: 90_000.25 })])
    assert.deepEqual([lost.length, news], [1, { endpoints: [], failed: [] }])
  })
}

function testFailedDeliveries(harness: StoreHarness): void {
  harness.test('writeResults() returns exactly the deliveries that failed in this call', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint()
    const event = await tenant.publish({ type: 'project.completed' })
    await publishMany(tenant, 2)
    const { deliveries } = await claim(tenant)
    const given = deliveries.find(({ eventId }) => eventId === event.id)
    const [one, other] = deliveries.filter((delivery) => delivery !== given)
    assert.ok(given && one && other, 'given, one or other is missing')
    const results = [success(one), lastFailure(given, { reason: 'timeout' }), failure(other)]
    const { failed } = await attempt(tenant, results, { limit: NEVER })
    const expected = { organizationId: tenant.id, endpointId, deliveryId: given.id, eventId: event.id }
    assert.deepEqual(failed, [{ ...expected, type: 'project.completed', reason: 'timeout' }])
  })

  harness.test(
    'a failed delivery is only returned by the claim that ends the lease of its last attempt',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      const event = await tenant.publish({ type: 'project.completed' })
      const { id: deliveryId } = await claimOne(tenant)
      await tenant.letTimePass(LEASE_MS + 1)
      const again = await claim(tenant, { maxAttempts: 2 })
      assert.deepEqual([again.deliveries.length, again.failed], [1, []], 'it was not the last')

      await tenant.letTimePass(LEASE_MS + 1)
      const { deliveries, failed } = await claim(tenant, { maxAttempts: 2 }, tenant.secondStore)
      const expected = { organizationId: tenant.id, endpointId, deliveryId, eventId: event.id }
      assert.deepEqual(deliveries, [])
      assert.deepEqual(
        failed.filter(({ organizationId }) => organizationId === tenant.id),
        [{ ...expected, type: 'project.completed', reason: 'interrupted' }],
      )
      const after = await claim(tenant, { maxAttempts: 2 })
      assert.deepEqual(
        after.failed.filter(({ organizationId }) => organizationId === tenant.id),
        [],
      )
    },
  )
}
