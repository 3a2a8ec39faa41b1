import assert from 'node:assert/strict'
import type { ClaimRequest } from '../../lib/webhooks/claims.ts'
import { SENT_FIELDS } from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  capacityFor,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  onlyDelivery,
  publishMany,
  refOf,
  success,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

/** Tests which deliveries a claim returns, how many, and in which order. */
export function testClaims(harness: StoreHarness): void {
  testClaimed(harness)
  testOrder(harness)
  testRoom(harness)
}

function testClaimed(harness: StoreHarness): void {
  harness.test(
    'claim() returns everything an attempt needs, and marks the delivery as being sent',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoint = await tenant.insertEndpoint({
        headerNames: ['X-Tenant'],
        sealedHeaders: 'sealed "headers" 🏺',
        sealedSecret: 'sealed',
      })
      const { id, sealedSecret } = endpoint
      const target = Object.fromEntries(SENT_FIELDS.map((field) => [field, endpoint[field]]))
      const event = await tenant.publish({ type: 'project.completed' })
      const before = await onlyDelivery(tenant)
      const { token, ...delivery } = await claimOne(tenant)
      assert.deepEqual(delivery, {
        organizationId: tenant.id,
        id: before.id,
        endpointId: id,
        eventId: event.id,
        type: 'project.completed',
        body: event.body,
        ...target,
        sealedSecrets: [sealedSecret],
        attempt: 1,
      })
      assert.ok(token, 'no token')
      const sending = { ...before, state: 'sending', attempts: 1, dueAt: null }
      assert.deepEqual(await onlyDelivery(tenant), sending, 'the attempt is counted, and not logged yet')
    },
  )

  harness.test('claim() returns the store’s clock', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    const dueAt = Date.parse((await onlyDelivery(tenant)).dueAt ?? '')
    const { storeTime } = await claim(tenant)
    assert.ok(storeTime >= dueAt && storeTime < dueAt + 10_000, `${storeTime - dueAt} ms later`)
  })

  harness.test(
    'of 24 workers that claim concurrently in two processes, each delivery goes to one',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.insertEndpoint()
      await Promise.all(Array.from({ length: 50 }, () => tenant.publish()))
      const stores = [tenant.store, tenant.secondStore]
      const claimed: Claimed[] = []
      for (let round = 0; round < 10 && claimed.length < 100; round++) {
        const claims = Array.from({ length: 24 }, (_, worker) =>
          claim(tenant, { limit: 7 }, stores[worker % stores.length]),
        )
        for (const { deliveries } of await Promise.all(claims)) {
          assert.ok(deliveries.length <= 7, `${deliveries.length} deliveries`)
          claimed.push(...deliveries)
        }
      }
      assert.equal(claimed.length, 100)
      assert.equal(new Set(claimed.map(({ id }) => id)).size, 100)
      const states = (await deliveriesOf(tenant)).map(({ state, attempts }) => `${state} ${attempts}`)
      assert.deepEqual(new Set(states), new Set(['sending 1']))
    },
  )
}

function testOrder(harness: StoreHarness): void {
  /** Attempts a delivery once, so that its retry is due immediately. */
  async function publishFailed(tenant: Tenant): Promise<string> {
    const { id } = await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant))])
    return id
  }

  harness.test('claim() returns first attempts before retries, and then those due longest', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [firstRetry, first] = [await publishFailed(tenant), (await tenant.publish()).id]
    const { deliveries } = await claim(tenant, { limit: 1 })
    assert.deepEqual(
      deliveries.map(({ eventId, attempt }) => [eventId, attempt]),
      [[first, 1]],
    )
    await writeResults(tenant, [failure(deliveries[0] ?? assert.fail(), { endedAgoMs: 0 })])
    await tenant.letTimePass(1000)
    const second = (await tenant.publish()).id
    await tenant.letTimePass(1000)
    const third = (await tenant.publish()).id
    const { eventIds } = await claim(tenant)
    assert.deepEqual(eventIds, [second, third, firstRetry, first])
  })

  harness.test('claim() returns the first attempt of a new round before retries', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const replayed = await tenant.publish()
    const delivery = await claimOne(tenant)
    await writeResults(tenant, [success(delivery)])
    const retry = await publishFailed(tenant)
    await tenant.letTimePass(1000)
    await tenant.store.deliveries.recover({
      organizationId: tenant.id,
      ids: [delivery.id],
      filter: {},
      limit: 1,
      entry: newEntry(),
    })
    assert.deepEqual((await claim(tenant)).eventIds, [replayed.id, retry])
  })

  harness.test('claim() returns a released delivery according to its original due time', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const first = await tenant.publish()
    await tenant.letTimePass(1000)
    const second = await tenant.publish()
    const { deliveries } = await claim(tenant, { limit: 1 })
    await tenant.store.deliveries.release(deliveries.map(refOf))
    assert.deepEqual((await claim(tenant)).eventIds, [first.id, second.id])
  })

  harness.test('claim() returns a retry when it is due and not before', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const event = await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant), { endedAgoMs: 0, delayMs: 30_000 })])
    assert.deepEqual((await claim(tenant)).eventIds, [])
    await tenant.letTimePass(25_000)
    assert.deepEqual((await claim(tenant)).eventIds, [])
    await tenant.letTimePass(5001)
    const { deliveries, eventIds } = await claim(tenant)
    assert.deepEqual(eventIds, [event.id])
    assert.equal(deliveries[0]?.attempt, 2)
  })
}

function testRoom(harness: StoreHarness): void {
  /** Creates two endpoints with six due deliveries each, and returns the number of claimed deliveries by endpoint. */
  async function claimFromTwo(
    t: ContractTest,
    request: (tenant: Tenant, first: string) => Partial<ClaimRequest>,
  ): Promise<readonly number[]> {
    const tenant = await createPublisher(harness, t)
    const [first, second] = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
    await publishMany(tenant, 6)
    const { deliveries } = await claim(tenant, request(tenant, first.id))
    return [first, second].map(({ id }) => deliveries.filter(({ endpointId }) => endpointId === id).length)
  }

  harness.test('claim() returns up to limit deliveries', async (t) => {
    assert.deepEqual(await claimFromTwo(t, () => ({ limit: 8 })), [6, 2])
  })

  harness.test('claim() returns as many deliveries of each endpoint as there is capacity', async (t) => {
    const counts = await claimFromTwo(t, (tenant) => ({ capacity: capacityFor(tenant, { endpoint: 4 }) }))
    assert.deepEqual(counts, [4, 4])
  })

  harness.test('claim() uses the capacity of a listed endpoint, even if it is 0', async (t) => {
    for (const room of [0, 1, 5]) {
      const counts = await claimFromTwo(t, (tenant, first) => ({
        capacity: capacityFor(tenant, { endpoint: 3, endpoints: { [first]: room } }),
      }))
      assert.deepEqual(counts, [room, 3])
    }
  })

  harness.test(
    'claim() limits all endpoints of an organization to the capacity of the organization',
    async (t) => {
      const counts = await claimFromTwo(t, (tenant) => ({
        capacity: capacityFor(tenant, { endpoint: 4, organizations: { [tenant.id]: 5 } }),
      }))
      assert.deepEqual(counts, [4, 1])
    },
  )

  harness.test('claim() uses the default capacity for an unlisted organization', async (t) => {
    const counts = await claimFromTwo(t, () => ({
      capacity: { endpoint: 4, organization: 6, endpoints: {}, organizations: {} },
    }))
    assert.deepEqual(counts, [4, 2])
  })

  harness.sharedTest(
    'claim() gives each organization its own capacity, however much is due for another organization',
    async (t) => {
      const [ours, theirs] = [await createPublisher(harness, t), await createPublisher(harness, t)]
      for (const tenant of [ours, theirs]) {
        await tenant.insertEndpoint()
        await publishMany(tenant, 4)
      }
      const organizations = { [ours.id]: 3, [theirs.id]: 2 }
      const { deliveries } = await claim(ours, { capacity: capacityFor(ours, { organizations }) })
      const owners = deliveries.map(({ organizationId }) => organizationId)
      assert.deepEqual(owners.toSorted(), [ours.id, ours.id, ours.id, theirs.id, theirs.id].toSorted())
    },
  )
}
