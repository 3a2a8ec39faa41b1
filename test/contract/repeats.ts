import assert from 'node:assert/strict'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  capacityFor,
  claim,
  createPublisher,
  getDelivery,
  LEASE_MS,
  publishMany,
  refOf,
  success,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'

/** Tests claims that are sent again after a lost result. */
export function testRepeats(harness: StoreHarness): void {
  harness.test(
    'claim() repeated with its token returns the same deliveries unchanged, and then more up to the limit',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 5)
      const lost = await claim(tenant, { limit: 2 })
      const [another] = (await claim(tenant, { limit: 1 })).deliveries
      const again = await claim(tenant, { token: lost.token, isRepeat: true, limit: 3 }, tenant.secondStore)
      assert.equal(again.deliveries.length, 3)
      assert.deepEqual(byId(again.deliveries.slice(0, 2)), byId(lost.deliveries))
      assert.equal(again.eventIds.includes(another?.eventId ?? ''), false, 'it is another worker’s')
      assert.deepEqual(
        again.deliveries.map(({ attempt }) => attempt),
        [1, 1, 1],
      )
      for (const { id } of again.deliveries) assert.equal((await getDelivery(tenant, id)).attempts, 1)
    },
  )

  harness.test('claim() repeated with a token that never arrived works like a first claim', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const ids = await publishMany(tenant, 2)
    const { eventIds } = await claim(tenant, { isRepeat: true })
    assert.deepEqual(eventIds.toSorted(), ids)
  })

  harness.test(
    'claim() repeated respects the capacity of an endpoint, including repeated deliveries',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await publishMany(tenant, 5)
      const capacity = capacityFor(tenant, { endpoint: 3 })
      const lost = await claim(tenant, { capacity, limit: 2 })
      const again = await claim(tenant, { token: lost.token, isRepeat: true, capacity })
      assert.equal(again.deliveries.length, 3)
      assert.deepEqual(byId(again.deliveries.slice(0, 2)), byId(lost.deliveries))
    },
  )

  harness.test('claim() repeated only returns deliveries still being sent with the token', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await publishMany(tenant, 4)
    const lost = await claim(tenant, { limit: 3 })
    const [ended, released, sending] = lost.deliveries
    assert.ok(ended && released && sending, 'ended, released or sending is missing')
    await writeResults(tenant, [success(ended)])
    await tenant.store.deliveries.release([refOf(released)])
    const repeat = { token: lost.token, isRepeat: true, capacity: capacityFor(tenant, { endpoint: 0 }) }
    assert.deepEqual((await claim(tenant, repeat)).deliveries, [sending])
    await tenant.letTimePass(LEASE_MS + 1)
    assert.deepEqual((await claim(tenant, repeat)).deliveries, [], 'its lease has ended')
  })

  harness.test(
    'claim() repeated returns nothing of an endpoint removed since then, because it has no secret to sign with',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint()
      await tenant.publish()
      const lost = await claim(tenant)
      await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId: id, entry: newEntry() })
      assert.equal(lost.deliveries.length, 1)
      assert.deepEqual((await claim(tenant, { token: lost.token, isRepeat: true })).deliveries, [])
    },
  )
}

function byId(deliveries: readonly Claimed[]): readonly Claimed[] {
  return deliveries.toSorted((one, other) => (one.id < other.id ? -1 : 1))
}
