import assert from 'node:assert/strict'
import type { QueueCounts } from '../../lib/webhooks/queue-counts.ts'
import { newEntry } from './audit-entry.ts'
import {
  claim,
  createPublisher,
  failure,
  lastFailure,
  storeTime,
  success,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { createTenant, type Tenant } from './tenant.ts'

const NOTHING: QueueCounts = { due: 0, oldestDueMs: 0, backingOff: 0, paused: 0, sending: 0, failed: 0 }

/** Tests the queue counts used by metrics. */
export function testQueueCounts(harness: StoreHarness): void {
  async function countOf(tenant: Tenant, endpointId?: string): Promise<QueueCounts> {
    return tenant.store.deliveries.countQueue({ organizationId: tenant.id, endpointId })
  }

  async function setState(
    tenant: Tenant,
    endpointId: string,
    state: 'enabled' | 'paused' | 'disabled',
  ): Promise<void> {
    const from = [state === 'enabled' ? 'paused' : 'enabled'] as const
    const change = { organizationId: tenant.id, endpointId, state, from, entry: newEntry() }
    await tenant.store.endpoints.setState(change)
  }

  harness.test('countQueue() counts nothing in an organization without deliveries', async () => {
    const tenant = await createTenant(harness)
    assert.deepEqual(await countOf(tenant), NOTHING)
    assert.deepEqual(await countOf(tenant, 'we_unknown'), NOTHING)
  })

  harness.test(
    'countQueue() distinguishes due, backing off, sending and failed deliveries, in one organization or all',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { deliveries } = tenant.store
      await storeTime(tenant)
      const before = await deliveries.countQueue(null)
      const { due: dueBefore, oldestDueMs: ageBefore, backingOff } = before
      assert.deepEqual(
        [dueBefore, ageBefore, backingOff],
        [0, 0, 0],
        'no test leaves anything to send behind',
      )

      await tenant.insertEndpoint()
      for (let event = 0; event < 6; event++) await tenant.publish()
      await tenant.letTimePass(100_000)
      const due = await countOf(tenant)
      assert.ok(due.oldestDueMs >= 100_000 && due.oldestDueMs < 110_000, `${due.oldestDueMs}`)
      assert.deepEqual({ ...due, oldestDueMs: 0 }, { ...NOTHING, due: 6 })

      const [retried, dead, delivered] = (await claim(tenant, { limit: 4 })).deliveries
      assert.ok(retried && dead && delivered, 'three deliveries were claimed')
      await writeResults(tenant, [
        failure(retried, { delayMs: 60_000 }),
        lastFailure(dead),
        success(delivered),
      ])
      const expected = { due: 2, backingOff: 1, paused: 0, sending: 1, failed: 1 }
      const { oldestDueMs, ...counts } = await countOf(tenant)
      assert.deepEqual(counts, expected)
      assert.ok(oldestDueMs >= 100_000, `${oldestDueMs}`)
      const all = await deliveries.countQueue(null)
      assert.deepEqual([all.due, all.backingOff], [2, 1])
      assert.equal(all.failed, Math.min(before.failed + 1, 10_001))
      assert.ok(all.sending >= 1, `${all.sending}`)
    },
  )

  harness.test(
    'countQueue() returns the age of the oldest delivery that is due and not being sent',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      for (let event = 0; event < 3; event++) await tenant.publish()
      await tenant.letTimePass(100_000)
      await tenant.publish()
      const claimed = (await claim(tenant, { limit: 3 })).deliveries
      for (const counts of [await countOf(tenant), await tenant.store.deliveries.countQueue(null)]) {
        assert.equal(counts.due, 1)
        assert.ok(counts.oldestDueMs < 10_000, `${counts.oldestDueMs}`)
      }
      await writeResults(
        tenant,
        claimed.map((delivery) => success(delivery)),
      )
    },
  )

  harness.test('countQueue() counts a retry as due once its delay has passed', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    const [delivery] = (await claim(tenant)).deliveries
    assert.ok(delivery, 'the delivery was claimed')
    await writeResults(tenant, [failure(delivery, { delayMs: 30_000 })])
    assert.deepEqual(await countOf(tenant), { ...NOTHING, backingOff: 1 })
    await tenant.letTimePass(40_000)
    for (const { oldestDueMs, ...counts } of [
      await countOf(tenant),
      await tenant.store.deliveries.countQueue(null),
    ]) {
      assert.deepEqual([counts.due, counts.backingOff], [1, 0])
      assert.ok(oldestDueMs >= 10_000 && oldestDueMs < 20_000, `${oldestDueMs}`)
    }
  })

  harness.test(
    'countQueue() counts deliveries of a paused endpoint separately, and none of a disabled or removed endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const [paused, disabled, removed] = [
        await tenant.insertEndpoint(),
        await tenant.insertEndpoint(),
        await tenant.insertEndpoint(),
      ]
      await tenant.publish()
      assert.equal((await tenant.store.deliveries.countQueue(null)).due, 3)
      await setState(tenant, paused.id, 'paused')
      await setState(tenant, disabled.id, 'disabled')
      await tenant.store.endpoints.remove({
        organizationId: tenant.id,
        endpointId: removed.id,
        entry: newEntry(),
      })
      const before = await tenant.store.deliveries.countQueue(null)
      assert.deepEqual([before.due, before.oldestDueMs, before.paused], [0, 0, 1])
      assert.deepEqual(await countOf(tenant), { ...NOTHING, paused: 1 })
      await setState(tenant, paused.id, 'enabled')
      const { due, paused: left } = await countOf(tenant)
      assert.deepEqual([due, left], [1, 0])
    },
  )

  harness.test(
    'countQueue() counts one endpoint of an organization, and no other organization',
    async (t) => {
      const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
      const [busy, idle] = [
        await tenant.insertEndpoint({ types: ['client.created'] }),
        await tenant.insertEndpoint({ types: ['project.completed'] }),
      ]
      await tenant.publish({ type: 'client.created' })
      await other.insertEndpoint()
      await other.publish()
      assert.equal((await countOf(tenant)).due, 1)
      assert.equal((await countOf(tenant, busy.id)).due, 1)
      assert.deepEqual(await countOf(tenant, idle.id), NOTHING)
      assert.deepEqual(await countOf(other, busy.id), NOTHING)
    },
  )
}
