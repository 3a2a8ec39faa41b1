import assert from 'node:assert/strict'
import {
  type ActivityRequest,
  ATTEMPT_CLASSES,
  type AttemptClass,
  addCounts,
  COUNTERS,
  countAttempt,
  countOf,
  type StoredActivity,
} from '../../lib/webhooks/activity.ts'
import type { AttemptResult } from '../../lib/webhooks/claims.ts'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  LEASE_MS,
  lastFailure,
  onlyDelivery,
  publishMany,
  storeTime,
  success,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Tests the counts of deliveries and attempts by hour and endpoint. */
export function testActivity(harness: StoreHarness): void {
  testClasses(harness)
  testOnce(harness)
  testRounds(harness)
  testPeriods(harness)
  testRetention(harness)
}

/** Returns the activity of the last three days by the store's clock. */
async function activityOf(tenant: Tenant, changes: Partial<ActivityRequest> = {}): Promise<StoredActivity> {
  const hour = Math.floor((await storeTime(tenant)) / HOUR_MS) * HOUR_MS
  return tenant.store.deliveries.readActivity({
    organizationId: tenant.id,
    endpointId: null,
    from: new Date(hour - 3 * DAY_MS).toISOString(),
    to: new Date(hour + HOUR_MS).toISOString(),
    interval: 'hour',
    ...changes,
  })
}

/** Returns the counts of all endpoints combined, by name and without zeros. */
async function totalsOf(tenant: Tenant): Promise<Record<string, number>> {
  const { series, endpoints } = await activityOf(tenant)
  const counts = addCounts(series.map((one) => one.counts))
  assert.deepEqual(addCounts(endpoints.map((one) => one.counts)), counts)
  const answered = DURATIONS.reduce((sum, bucket) => sum + countOf(counts, bucket), 0)
  const named = COUNTERS.filter((counter) => typeof counter === 'string')
  const all = [
    ...named.map((counter) => [counter, countOf(counts, counter)] as const),
    ['answered', answered] as const,
  ]
  return Object.fromEntries(all.filter(([, count]) => count > 0))
}

const DURATIONS = COUNTERS.filter((counter) => typeof counter === 'number')

/** Asserts that the counts match the log of attempts. */
async function assertAgreesWithLog(tenant: Tenant): Promise<void> {
  const ids = (await deliveriesOf(tenant)).map(({ id }) => id)
  const log = [...(await tenant.store.deliveries.listAttempts(tenant.id, ids)).values()].flat()
  const counts = addCounts((await activityOf(tenant)).series.map((one) => one.counts))
  const logged = addCounts(log.map((attempt) => countAttempt(attempt, null)))
  for (const counter of [...ATTEMPT_CLASSES, ...DURATIONS]) {
    assert.equal(countOf(counts, counter), countOf(logged, counter), String(counter))
  }
}

async function claimMany(tenant: Tenant, count: number): Promise<readonly Claimed[]> {
  await publishMany(tenant, count)
  return (await claim(tenant)).deliveries
}

function testClasses(harness: StoreHarness): void {
  const results: readonly [AttemptClass, Partial<AttemptResult>][] = [
    ['2xx', { status: 200, outcome: 'delivered' }],
    ['2xx', { status: 299, outcome: 'delivered' }],
    ['3xx', { status: 301 }],
    ['4xx', { status: 404 }],
    ['5xx', { status: 599 }],
    ['timeout', { status: null, error: 'timeout' }],
    ['connection', { status: null, error: 'connection_refused' }],
    ['connection', { status: null, error: 'dns_failed' }],
    ['tls', { status: null, error: 'tls_untrusted' }],
    ['not_allowed', { status: null, error: 'destination_not_allowed' }],
    ['interrupted', { status: null, error: 'interrupted' }],
    ['other', { status: null, error: 'invalid_response' }],
    ['other', { status: null, error: 'unreadable' }],
    ['other', { status: 100 }],
    ['other', { status: 600 }],
  ]
  harness.test('readActivity() counts attempts by the class of their result', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    assert.deepEqual(await totalsOf(tenant), {})
    const claimed = await claimMany(tenant, results.length)
    await writeResults(
      tenant,
      results.flatMap(([, changes], index) => {
        const delivery = claimed[index]
        return delivery ? [failure(delivery, { delayMs: 60_000, ...changes })] : []
      }),
    )
    const { answered, delivered, ...classes } = await totalsOf(tenant)
    assert.deepEqual([answered, delivered], [7, 2])
    assert.deepEqual(
      classes,
      Object.fromEntries(
        ATTEMPT_CLASSES.map((name) => [name, results.filter(([wanted]) => wanted === name).length]),
      ),
    )
    await assertAgreesWithLog(tenant)
  })

  harness.test('readActivity() counts the durations of attempts with a response in 12 buckets', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const durations = [0, 7.75, 8, 15, 16, 33, 100, 200, 300, 600, 1500, 3000, 5000, 8191.5, 8192, 12_000]
    const claimed = await claimMany(tenant, durations.length + 1)
    await writeResults(
      tenant,
      claimed.map((delivery, index) =>
        index < durations.length
          ? success(delivery, { durationMs: durations[index] ?? 0 })
          : failure(delivery, { status: null, error: 'timeout', durationMs: 10_000, delayMs: 60_000 }),
      ),
    )
    const counts = addCounts((await activityOf(tenant)).series.map((one) => one.counts))
    assert.deepEqual(
      DURATIONS.map((bucket) => countOf(counts, bucket)),
      [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2],
    )
    await assertAgreesWithLog(tenant)
  })
}

function testOnce(harness: StoreHarness): void {
  harness.test(
    'readActivity() counts results once that were sent several times, concurrently or later',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const [one, other, third] = await claimMany(tenant, 3)
      assert.ok(one && other && third, 'one, other or third is missing')
      const results = [success(one), failure(other, { delayMs: 60_000 }), lastFailure(third)]
      const send = ({ deliveries }: Tenant['store']) =>
        deliveries.writeResults(results, { failures: 1000, failingMs: 1_000_000 })
      await Promise.all(
        Array.from({ length: 10 }, (_, index) => send(index % 2 === 0 ? tenant.store : tenant.secondStore)),
      )
      await send(tenant.secondStore)
      assert.deepEqual(await totalsOf(tenant), { delivered: 1, failed: 1, answered: 3, '2xx': 1, '5xx': 2 })
    },
  )

  harness.test('readActivity() ignores results of lost claims and released claims', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [one, other] = await claimMany(tenant, 2)
    assert.ok(one && other, 'one or other is missing')
    await tenant.store.deliveries.release([
      { organizationId: tenant.id, deliveryId: other.id, token: other.token },
    ])
    await writeResults(tenant, [success({ ...one, token: 'another' }), success(other)])
    assert.deepEqual(await totalsOf(tenant), {})
  })

  harness.test(
    'readActivity() counts an attempt whose process died as interrupted, and the failure after the last one',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      await claimOne(tenant)
      await tenant.letTimePass(LEASE_MS + 1)
      // Claim the delivery once more for its last attempt.
      const late = await claimOne(tenant)
      assert.deepEqual(await totalsOf(tenant), { interrupted: 1 })
      await tenant.letTimePass(LEASE_MS + 1)
      const { failed } = await claim(tenant, { maxAttempts: 2 })
      assert.equal(failed.length, 1)
      await writeResults(tenant, [success(late)])
      assert.deepEqual(await totalsOf(tenant), { failed: 1, interrupted: 2 })
    },
  )
}

function testRounds(harness: StoreHarness): void {
  async function resend(tenant: Tenant): Promise<void> {
    const { id } = await onlyDelivery(tenant)
    const request = { organizationId: tenant.id, ids: [id], filter: {}, limit: 1, entry: newEntry() }
    assert.deepEqual(await tenant.store.deliveries.recover(request), [id])
  }

  harness.test('readActivity() counts a delivery once, by the latest outcome', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant))])
    await writeResults(tenant, [lastFailure(await claimOne(tenant))])
    assert.deepEqual(await totalsOf(tenant), { failed: 1, answered: 2, '5xx': 2 })
    await resend(tenant)
    assert.deepEqual(await totalsOf(tenant), { answered: 2, '5xx': 2 })
    await writeResults(tenant, [lastFailure(await claimOne(tenant))])
    assert.deepEqual(await totalsOf(tenant), { failed: 1, answered: 3, '5xx': 3 })
    await resend(tenant)
    await writeResults(tenant, [failure(await claimOne(tenant))])
    await writeResults(tenant, [success(await claimOne(tenant))])
    assert.deepEqual(await totalsOf(tenant), { delivered: 1, answered: 5, '2xx': 1, '5xx': 4 })
    await resend(tenant)
    await writeResults(tenant, [success(await claimOne(tenant))])
    assert.deepEqual(await totalsOf(tenant), { delivered: 1, answered: 6, '2xx': 2, '5xx': 4 })
    await resend(tenant)
    await writeResults(tenant, [lastFailure(await claimOne(tenant))])
    assert.deepEqual(await totalsOf(tenant), { failed: 1, answered: 7, '2xx': 2, '5xx': 5 })
    await assertAgreesWithLog(tenant)
  })

  harness.test(
    'readActivity() counts nothing for a delivery that was cancelled before it was resent',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      const { id } = await onlyDelivery(tenant)
      await tenant.store.deliveries.cancel({ organizationId: tenant.id, deliveryId: id, entry: newEntry() })
      await resend(tenant)
      assert.deepEqual((await activityOf(tenant)).series, [])
      await writeResults(tenant, [success(await claimOne(tenant))])
      assert.deepEqual(await totalsOf(tenant), { delivered: 1, answered: 1, '2xx': 1 })
    },
  )

  harness.test(
    'readActivity() takes back the count of a resent delivery once, even if it is cancelled or skipped and resent again',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoint = await tenant.insertEndpoint()
      await tenant.publish()
      const { id } = await onlyDelivery(tenant)
      const setState = (state: 'enabled' | 'disabled') =>
        tenant.store.endpoints.setState({
          organizationId: tenant.id,
          endpointId: endpoint.id,
          state,
          from: ['enabled', 'disabled'],
          entry: newEntry(),
        })
      await writeResults(tenant, [lastFailure(await claimOne(tenant))])
      await resend(tenant)
      await tenant.store.deliveries.cancel({ organizationId: tenant.id, deliveryId: id, entry: newEntry() })
      await resend(tenant)
      await setState('disabled')
      await claim(tenant)
      assert.equal((await onlyDelivery(tenant)).state, 'skipped')
      await setState('enabled')
      await resend(tenant)
      assert.deepEqual(await totalsOf(tenant), { answered: 1, '5xx': 1 })
      await writeResults(tenant, [success(await claimOne(tenant))])
      assert.deepEqual(await totalsOf(tenant), { delivered: 1, answered: 2, '2xx': 1, '5xx': 1 })
      await assertAgreesWithLog(tenant)
    },
  )

  harness.test('readActivity() counts deliveries once that several calls resend concurrently', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const claimed = await claimMany(tenant, 6)
    await writeResults(
      tenant,
      claimed.map((delivery) => lastFailure(delivery)),
    )
    const ids = claimed.map(({ id }) => id)
    const resent = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        (index % 2 === 0 ? tenant.store : tenant.secondStore).deliveries.recover({
          organizationId: tenant.id,
          ids,
          filter: { states: ['failed'] },
          limit: 2,
          entry: newEntry(),
        }),
      ),
    )
    assert.deepEqual(resent.flat().toSorted(), ids.toSorted())
    assert.deepEqual(await totalsOf(tenant), { answered: 6, '5xx': 6 })
  })

  harness.test(
    'readActivity() is not below zero after a delivery is resent that is older than the counts',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      await writeResults(tenant, [lastFailure(await claimOne(tenant))])
      await tenant.letTimePass(36 * DAY_MS)
      await tenant.store.deliveries.purge({ eventsAfterMs: 1000 * DAY_MS, limit: 1000 })
      await resend(tenant)
      const from = new Date((await storeTime(tenant)) - 50 * DAY_MS).toISOString()
      assert.deepEqual((await activityOf(tenant, { from })).series, [])
    },
  )
}

function testPeriods(harness: StoreHarness): void {
  harness.test(
    'readActivity() returns each hour in which deliveries were created, and each endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const old = await tenant.insertEndpoint({ types: ['client.created'] })
      const other = await tenant.insertEndpoint({ types: ['lead.created'] })
      await tenant.publish()
      await tenant.publish()
      await tenant.letTimePass(49 * HOUR_MS)
      await tenant.publish({ type: 'lead.created' })
      const { deliveries } = await claim(tenant)
      const [one, second] = deliveries.filter(({ endpointId }) => endpointId === old.id)
      const lead = deliveries.find(({ endpointId }) => endpointId === other.id)
      assert.ok(one && second && lead, 'a delivery is missing')
      // The attempts are made now, which doesn't matter.
      await writeResults(tenant, [success(one), lastFailure(second), success(lead)])

      const created = Date.parse((await tenant.store.deliveries.get(tenant.id, one.id))?.createdAt ?? '')
      const earlier = new Date(Math.floor(created / HOUR_MS) * HOUR_MS).toISOString()
      const { series } = await activityOf(tenant)
      assert.equal(series.length, 2)
      assert.equal(series[0]?.at, earlier)
      assert.deepEqual(
        series.map(({ counts }) => [countOf(counts, 'delivered'), countOf(counts, 'failed')]),
        [
          [1, 1],
          [1, 0],
        ],
      )
      // The log's filter by time finds what an hour counts.
      for (const { at, counts } of series) {
        const hour = { since: at, until: new Date(Date.parse(at) + HOUR_MS).toISOString() }
        for (const state of ['delivered', 'failed'] as const) {
          const found = await tenant.store.deliveries.count(tenant.id, { ...hour, states: [state] }, 10)
          assert.equal(found, countOf(counts, state), `${state} at ${at}`)
        }
      }
      const days = await activityOf(tenant, { interval: 'day' })
      assert.equal(days.series[0]?.at, `${earlier.slice(0, 10)}T00:00:00.000Z`)
      const end = new Date(Date.parse(earlier) + HOUR_MS).toISOString()
      assert.equal((await activityOf(tenant, { from: end })).series.length, 1)
      assert.equal((await activityOf(tenant, { to: end })).series.length, 1)

      const mine = await activityOf(tenant, { endpointId: other.id })
      assert.deepEqual(
        mine.endpoints.map(({ endpointId, url, state, counts }) => [
          endpointId,
          url,
          state,
          countOf(counts, 'delivered'),
        ]),
        [[other.id, other.url, 'enabled', 1]],
      )
      assert.equal(mine.series.length, 1)

      // The deliveries of all endpoints add up to those of the series. Intervals in which none ended are omitted.
      const all = await activityOf(tenant)
      const ended = all.endpoints.flatMap((each) => each.series)
      assert.deepEqual(
        all.series.map(({ at, counts }) => [at, countOf(counts, 'delivered'), countOf(counts, 'failed')]),
        all.series.map(({ at }) => {
          const here = ended.filter((each) => each.at === at)
          const sum = (name: 'delivered' | 'failed') => here.reduce((total, each) => total + each[name], 0)
          return [at, sum('delivered'), sum('failed')]
        }),
      )
      assert.deepEqual(
        mine.endpoints.map((each) => each.series),
        [mine.series.map(({ at }) => ({ at, delivered: 1, failed: 0 }))],
      )
    },
  )

  harness.test('readActivity() counts the queue of the organization or the endpoint', async (t) => {
    const tenant = await createPublisher(harness, t)
    const [busy, quiet] = [
      await tenant.insertEndpoint(),
      await tenant.insertEndpoint({ types: ['lead.created'] }),
    ]
    await tenant.publish()
    await writeResults(tenant, [lastFailure(await claimOne(tenant))])
    await publishMany(tenant, 2)
    const organizationId = tenant.id
    for (const endpointId of [null, busy.id, quiet.id]) {
      const { oldestDueMs: _, ...counts } = (await activityOf(tenant, { endpointId })).queue
      const target = { organizationId, ...(endpointId !== null && { endpointId }) }
      const { oldestDueMs: __, ...expected } = await tenant.store.deliveries.countQueue(target)
      assert.deepEqual(counts, expected)
      assert.deepEqual([counts.failed, counts.due], endpointId === quiet.id ? [0, 0] : [1, 2])
    }
  })

  harness.test(
    'readActivity() returns endpoints without attempts, but removed endpoints only if they have attempts',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const used = await tenant.insertEndpoint()
      await tenant.publish()
      await writeResults(tenant, [failure(await claimOne(tenant), { delayMs: 60_000 })])
      const unused = await tenant.insertEndpoint()
      const states = async () =>
        (await activityOf(tenant)).endpoints.map(({ endpointId, state, failures }) => [
          endpointId,
          state,
          failures,
        ])
      assert.deepEqual(await states(), [
        [unused.id, 'enabled', 0],
        [used.id, 'enabled', 1],
      ])
      for (const endpointId of [unused.id, used.id])
        await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId, entry: newEntry() })
      assert.deepEqual(await states(), [[used.id, 'removed', 1]])
    },
  )

  harness.test('readActivity() counts active API keys that were used in the period', async (t) => {
    const tenant = await createPublisher(harness, t)
    assert.equal((await activityOf(tenant)).apiKeysInUse, 0)
    const another = await tenant.insertKey()
    for (const { id } of [tenant.key, another]) await tenant.store.apiKeys.markUsed(tenant.id, id)
    assert.equal((await activityOf(tenant)).apiKeysInUse, 2)
    await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: another.id, entry: newEntry() })
    assert.equal((await activityOf(tenant)).apiKeysInUse, 1)
    const now = await storeTime(tenant)
    assert.equal((await activityOf(tenant, { from: new Date(now + HOUR_MS).toISOString() })).apiKeysInUse, 0)
  })

  harness.test('readActivity() returns nothing of other organizations', async (t) => {
    const tenant = await createPublisher(harness, t)
    const other = await createPublisher(harness, t)
    const endpoint = await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [success(await claimOne(tenant))])
    const { series, endpoints } = await activityOf(other, { endpointId: endpoint.id })
    assert.deepEqual([series, endpoints], [[], []])
    assert.deepEqual(await totalsOf(other), {})
  })
}

function testRetention(harness: StoreHarness): void {
  harness.test('purge() deletes activity older than 35 days and keeps the rest', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [success(await claimOne(tenant))])
    const read = async (): Promise<number> => {
      const from = new Date((await storeTime(tenant)) - 50 * DAY_MS).toISOString()
      return (await activityOf(tenant, { from })).series.length
    }
    const purge = () => tenant.store.deliveries.purge({ eventsAfterMs: 1000 * DAY_MS, limit: 1000 })
    await tenant.letTimePass(34 * DAY_MS)
    await purge()
    assert.equal(await read(), 1)
    await tenant.letTimePass(2 * DAY_MS)
    await purge()
    assert.equal(await read(), 0)
  })
}
