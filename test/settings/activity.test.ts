import assert from 'node:assert/strict'
import { test } from 'node:test'
import { INVALID_INPUT } from '../../lib/base/errors.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { addCounts, countAttempt, percentileOf } from '../../lib/webhooks/activity.ts'
import { claim, failure, lastFailure, publishMany, success, writeResults } from '../contract/delivering.ts'
import { createTenant, type Tenant } from '../contract/tenant.ts'
import { assertRefused } from './_refusals.ts'

const HOUR_MS = 3_600_000
const NOW = Date.parse('2026-11-10T12:34:56Z')

/** An organization in a store whose clock stands still until it's set. */
async function createHost(): Promise<{
  tenant: Tenant
  activity: ReturnType<typeof createDeveloperSettings>['activity']
  setClock(to: number): void
}> {
  let now = NOW
  const store = createMemoryStore({ clock: () => now })
  const under = { store: () => store, secondStore: () => store, events: () => [], letTimePass() {} }
  const tenant = await createTenant(under)
  const { activity } = createDeveloperSettings(store, { allowPlaintextSecrets: true, clock: () => NOW })
  const setClock = (to: number): void => {
    now = to
  }
  return { tenant, activity, setClock }
}

test('activity() returns the last 24 hours, with an interval for every hour', async () => {
  const { tenant, activity } = await createHost()
  const { from, to, interval, series, totals, endpoints, ...now } = await activity(tenant.id)
  assert.deepEqual([from, to, interval], ['2026-11-09T13:00:00.000Z', '2026-11-10T13:00:00.000Z', 'hour'])
  assert.equal(series.length, 24)
  assert.deepEqual([series[0]?.at, series.at(-1)?.at], [from, '2026-11-10T12:00:00.000Z'])
  const { results, ...none } = totals
  assert.deepEqual(none, {
    delivered: 0,
    failed: 0,
    successRate: null,
    attempts: 0,
    p50Ms: null,
    p95Ms: null,
  })
  assert.ok(Object.values(results).every((count) => count === 0))
  assert.deepEqual([endpoints, now], [[], { pendingNow: 0, failedNow: 0, apiKeysInUse: 0 }])
})

test('activity() adds up the results of a period by interval and in total, with what is pending now', async () => {
  const { tenant, activity, setClock } = await createHost()
  await tenant.insertEndpoint()
  await tenant.store.apiKeys.markUsed(tenant.id, tenant.key.id)
  setClock(NOW - 2 * HOUR_MS)
  await publishMany(tenant, 2)
  setClock(NOW)
  await publishMany(tenant, 8)
  const claimed = (await claim(tenant)).deliveries
  await writeResults(
    tenant,
    claimed.map((delivery, index) => {
      if (index < 6) return success(delivery, { durationMs: 20 })
      if (index < 8) return lastFailure(delivery, { durationMs: 3000 })
      return failure(delivery, { status: null, error: 'timeout', durationMs: 10_000, delayMs: 30_000 })
    }),
  )
  const { series, totals, ...now } = await activity(tenant.id)
  const { results, ...numbers } = totals
  assert.deepEqual(numbers, {
    delivered: 6,
    failed: 2,
    successRate: 0.75,
    attempts: 10,
    p50Ms: 27,
    p95Ms: 3686,
  })
  assert.deepEqual([results['2xx'], results['5xx'], results.timeout, results['4xx']], [6, 2, 2, 0])
  assert.deepEqual(
    series.filter(({ attempts }) => attempts > 0).map(({ at, delivered, failed }) => [at, delivered, failed]),
    [
      ['2026-11-10T10:00:00.000Z', 2, 0],
      ['2026-11-10T12:00:00.000Z', 4, 2],
    ],
  )
  assert.deepEqual([now.pendingNow, now.failedNow, now.apiKeysInUse], [2, 2, 1])

  const days = await activity(tenant.id, { from: '2026-11-08T23:10:00Z' })
  assert.deepEqual([days.from, days.interval], ['2026-11-08T23:00:00.000Z', 'hour'])
  const week = await activity(tenant.id, { from: new Date(NOW - 7 * 24 * HOUR_MS) })
  assert.equal(week.interval, 'day')
  assert.deepEqual(
    [week.series.length, week.series[0]?.at, week.series.at(-1)?.delivered],
    [8, '2026-11-03T00:00:00.000Z', 6],
  )
})

test('activity() lists endpoints with problems first', async () => {
  const { tenant, activity } = await createHost()
  const types = [
    'client.created',
    'lead.created',
    'invoice.paid',
    'proposal.sent',
    'project.completed',
  ] as const
  const names = new Map<string, string>()
  for (const type of types) names.set((await tenant.insertEndpoint({ types: [type] })).id, type)
  for (const type of types) for (let event = 0; event < 3; event++) await tenant.publish({ type })
  const { deliveries } = await claim(tenant)
  const of = (type: string) => deliveries.filter((delivery) => delivery.type === type)
  await writeResults(tenant, [
    ...of('client.created').map((one) => success(one)),
    // Two failed for good and one succeeded after that.
    ...of('lead.created').map((one, index) =>
      index < 2 ? lastFailure(one, { endedAgoMs: 20 }) : success(one),
    ),
    // One failed attempt, currently failing.
    ...of('invoice.paid').map((one, index) => (index < 2 ? success(one, { endedAgoMs: 20 }) : failure(one))),
    ...of('proposal.sent').map((one, index) => (index < 1 ? failure(one, { endedAgoMs: 20 }) : success(one))),
  ])
  const endpointOf = (type: string): string => [...names].find(([, name]) => name === type)?.[0] ?? ''
  await tenant.store.endpoints.setState({
    organizationId: tenant.id,
    endpointId: endpointOf('project.completed'),
    state: 'disabled',
    from: ['enabled'],
    entry: { id: 'aud_1', actor: null, action: 'endpoint.disabled', subjectId: 'x', details: {} },
  })
  const { endpoints } = await activity(tenant.id)
  assert.deepEqual(
    endpoints.map(({ endpointId }) => names.get(endpointId)),
    ['project.completed', 'invoice.paid', 'lead.created', 'proposal.sent', 'client.created'],
  )
  const [only, ...others] = (await activity(tenant.id, { endpointId: endpointOf('lead.created') })).endpoints
  assert.deepEqual([only?.delivered, only?.failed, others], [1, 2, []])
})

test("activity() rejects a period that is empty or isn't kept", async () => {
  const { tenant, activity } = await createHost()
  const refused = (query: object, reason: RegExp): Promise<void> =>
    assertRefused(activity(tenant.id, query), INVALID_INPUT, 'Cannot show the activity', reason)
  await refused({ from: '2026-11-10T14:00:00Z', to: '2026-11-10T13:00:00Z' }, /from must be before to/)
  await refused({ from: '2026-09-01T00:00:00Z' }, /within the last 35 days/)
  await refused({ to: '2026-11-20T00:00:00Z' }, /within the last 35 days/)
  await refused({ interval: 'week' }, /interval must be/)
})

test('percentileOf() is between half and twice the true value', () => {
  assert.equal(percentileOf([], 0.5), null)
  for (const durationMs of [1, 7.9, 8, 15, 100, 1023, 5000, 9000, 11_999]) {
    for (const count of [1, 2, 1000]) {
      const attempt = { status: 200, error: null, durationMs }
      const counts = addCounts(Array.from({ length: count }, () => countAttempt(attempt, null)))
      for (const share of [0.5, 0.95]) {
        const estimate = percentileOf(counts, share) ?? Number.NaN
        const isNear = estimate <= 2 * durationMs && estimate >= durationMs / 2
        assert.ok(isNear || durationMs < 8, `${estimate} for ${durationMs}`)
      }
    }
  }
})
