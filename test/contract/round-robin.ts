import assert from 'node:assert/strict'
import type { EndpointRef } from '../../lib/webhooks/claims.ts'
import { newEntry } from './audit-entry.ts'
import {
  beforeAllOf,
  capacityFor,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  getDelivery,
  onlyDelivery,
  publishMany,
  refOf,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import type { Tenant } from './tenant.ts'

/** Tests which endpoints a claim scans, and which must not receive deliveries. */
export function testRoundRobin(harness: StoreHarness): void {
  testVisits(harness)
  testClosedEndpoints(harness)
}

function testVisits(harness: StoreHarness): void {
  /** Creates endpoints in round-robin order, each with this many due deliveries. */
  async function createRound(
    t: ContractTest,
    endpoints: number,
    events: number,
  ): Promise<{ tenant: Tenant; refs: readonly EndpointRef[] }> {
    const tenant = await createPublisher(harness, t)
    const refs: EndpointRef[] = []
    for (let endpoint = 0; endpoint < endpoints; endpoint++) {
      refs.push({ organizationId: tenant.id, endpointId: (await tenant.insertEndpoint()).id })
    }
    await publishMany(tenant, events)
    return { tenant, refs }
  }

  harness.test(
    'claim() scans up to the given number of endpoints and returns where the next claim starts',
    async (t) => {
      const { tenant, refs } = await createRound(t, 4, 2)
      let cursor: EndpointRef | null = beforeAllOf(tenant)
      const lookedAt: string[][] = []
      for (const scanLimit of [1, 2]) {
        const claims = await claim(tenant, { cursor, scanLimit })
        lookedAt.push([...new Set(claims.deliveries.map(({ endpointId }) => endpointId))])
        cursor = claims.next
        assert.deepEqual(cursor, refs[lookedAt.flat().length - 1])
      }
      const ids = refs.map(({ endpointId }) => endpointId)
      assert.deepEqual(lookedAt, [ids.slice(0, 1), ids.slice(1, 3)])
    },
  )

  harness.test(
    'claim() continues with the first endpoint after the last one, and scans each endpoint once',
    async (t) => {
      const { tenant, refs } = await createRound(t, 3, 2)
      for (const after of [refs[0], refs[2], beforeAllOf(tenant), null]) {
        const { deliveries, next } = await claim(tenant, {
          cursor: after ?? null,
          capacity: capacityFor(tenant, { endpoint: 1 }),
        })
        const start = after ? refs.indexOf(after) + 1 : 0
        const expected = [...refs.slice(start), ...refs.slice(0, start)].map(({ endpointId }) => endpointId)
        assert.deepEqual(
          deliveries.map(({ endpointId }) => endpointId),
          expected,
        )
        assert.equal(next, null, 'all have been inspected')
        await tenant.store.deliveries.release(deliveries.map(refOf))
      }
    },
  )

  harness.test('claim() continues where the previous claim stopped at its limit', async (t) => {
    const { tenant, refs } = await createRound(t, 3, 2)
    const first = await claim(tenant, { limit: 2 })
    assert.deepEqual(first.next, refs[0])
    const second = await claim(tenant, { limit: 2, cursor: first.next })
    assert.deepEqual(
      new Set(second.deliveries.map(({ endpointId }) => endpointId)),
      new Set([refs[1]?.endpointId]),
    )
  })

  harness.test(
    'claim() continues after an endpoint without pending deliveries, or an unknown one',
    async (t) => {
      const { tenant, refs } = await createRound(t, 3, 1)
      const [first, second, third] = refs.map(({ endpointId }) => endpointId)
      assert.ok(first && second && third, 'first, second or third is missing')
      await claim(tenant, { scanLimit: 1 })
      await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId: first, entry: newEntry() })
      const unknown = { organizationId: tenant.id, endpointId: `${second}0` }
      const { deliveries } = await claim(tenant, { cursor: unknown, scanLimit: 1 })
      assert.deepEqual(
        deliveries.map(({ endpointId }) => endpointId),
        [third],
      )
      const rest = await claim(tenant, { cursor: refs[0] ?? null, scanLimit: 1 })
      assert.deepEqual(
        rest.deliveries.map(({ endpointId }) => endpointId),
        [second],
      )
    },
  )

  harness.test('claim() only scans endpoints with pending deliveries', async (t) => {
    const { tenant, refs } = await createRound(t, 3, 0)
    const last = refs[2]?.endpointId ?? ''
    for (const { endpointId } of refs.slice(0, 2)) {
      await tenant.store.endpoints.update({
        organizationId: tenant.id,
        endpointId,
        changes: { types: ['lead.created'] },
        entry: newEntry(),
      })
    }
    const event = await tenant.publish()
    const { deliveries, next } = await claim(tenant, { scanLimit: 1, limit: 1 })
    assert.deepEqual(
      deliveries.map(({ eventId, endpointId }) => [eventId, endpointId]),
      [[event.id, last]],
    )
    assert.ok(next === null || next.endpointId === last, `the cursor is at ${next?.endpointId}`)
    assert.equal((await claim(tenant)).next, null, 'nothing is pending of any endpoint')
  })

  harness.test(
    'claim() scans a paused endpoint, returns nothing of it, and continues with the next',
    async (t) => {
      const { tenant, refs } = await createRound(t, 2, 2)
      const [paused, other] = refs
      await tenant.store.endpoints.setState({
        organizationId: tenant.id,
        endpointId: paused?.endpointId ?? '',
        state: 'paused',
        from: ['enabled'],
        entry: newEntry(),
      })
      const first = await claim(tenant, { scanLimit: 1 })
      assert.deepEqual([first.eventIds, first.next], [[], paused])
      const { deliveries } = await claim(tenant, { cursor: first.next, scanLimit: 1 })
      assert.deepEqual(
        deliveries.map(({ endpointId }) => endpointId),
        [other?.endpointId, other?.endpointId],
      )
      const waiting = await deliveriesOf(tenant, { states: ['pending'] })
      assert.deepEqual(
        waiting.map(({ endpointId }) => endpointId),
        [paused?.endpointId, paused?.endpointId],
      )
    },
  )
}

function testClosedEndpoints(harness: StoreHarness): void {
  for (const way of ['disabled', 'removed']) {
    harness.test(`claim() skips the pending deliveries of an endpoint that has been ${way}`, async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint()
      const count = (await publishMany(tenant, 3)).length
      await tenant.publish()
      const { deliveries } = await claim(tenant, { limit: 1 })
      if (way === 'disabled') {
        await tenant.store.endpoints.setState({
          organizationId: tenant.id,
          endpointId: id,
          state: 'disabled',
          from: ['enabled'],
          entry: newEntry(),
        })
      } else {
        await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId: id, entry: newEntry() })
      }
      assert.deepEqual((await claim(tenant)).eventIds, [])
      const skipped = await deliveriesOf(tenant, { states: ['skipped'] })
      assert.equal(skipped.length, count)
      for (const { reason, dueAt, finishedAt, attempts } of skipped) {
        assert.deepEqual([reason, dueAt, attempts], ['endpoint_disabled', null, 0])
        assert.match(finishedAt ?? '', TIMESTAMP)
      }

      const [sending] = deliveries
      assert.ok(sending, 'no delivery is in flight')
      await writeResults(tenant, [success(sending)])
      assert.equal((await getDelivery(tenant, sending.id)).state, 'delivered', 'it was in flight already')
    })
  }

  harness.test('a skipped delivery stays skipped if its endpoint is enabled again', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    await claim(tenant)
    const skipped = await onlyDelivery(tenant)
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'enabled',
      from: ['disabled'],
      entry: newEntry(),
    })
    assert.deepEqual((await claim(tenant)).eventIds, [])
    assert.deepEqual(await onlyDelivery(tenant), skipped)
  })

  harness.test('a retry for a disabled endpoint is skipped, and its log is kept', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant), { delayMs: 30_000 })])
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    // The claim only finds the delivery once it's due.
    await tenant.letTimePass(30_000)
    await claim(tenant)
    const { state, attempts, attemptLog } = await onlyDelivery(tenant)
    assert.deepEqual([state, attempts, attemptLog.length], ['skipped', 1, 1])
  })
}
