import assert from 'node:assert/strict'
import { newEntry } from './audit-entry.ts'
import {
  claim,
  claimOne,
  createPublisher,
  failure,
  lastFailure,
  onlyDelivery,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** Tests deliveries that must no longer be sent. */
export function testCancellations(harness: StoreHarness): void {
  function cancel({ store, id }: Tenant, deliveryId: string): Promise<boolean> {
    return store.deliveries.cancel({ organizationId: id, deliveryId, entry: newEntry() })
  }

  const waiting: Record<string, (tenant: Tenant, endpointId: string) => Promise<unknown>> = {
    'that is due': async () => {},
    'that waits for its next attempt': async (tenant) =>
      writeResults(tenant, [failure(await claimOne(tenant), { delayMs: 30_000 })]),
    'whose next attempt is due': async (tenant) => writeResults(tenant, [failure(await claimOne(tenant))]),
    'that waits for a paused endpoint': ({ store, id }, endpointId) =>
      store.endpoints.setState({
        organizationId: id,
        endpointId,
        state: 'paused',
        from: ['enabled'],
        entry: newEntry(),
      }),
  }
  for (const [which, prepare] of Object.entries(waiting)) {
    harness.test(
      `deliveries.cancel() of a delivery ${which} stops sending it and keeps its log`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        const { id: endpointId } = await tenant.insertEndpoint()
        await tenant.publish()
        await prepare(tenant, endpointId)
        const before = await onlyDelivery(tenant)
        assert.equal(await cancel(tenant, before.id), true)
        const { finishedAt, ...after } = await onlyDelivery(tenant)
        const { finishedAt: _, ...expected } = { ...before, state: 'cancelled', dueAt: null }
        assert.deepEqual(after, expected)
        assert.match(finishedAt ?? '', TIMESTAMP)

        await tenant.store.endpoints.setState({
          organizationId: tenant.id,
          endpointId,
          state: 'enabled',
          from: ['paused'],
          entry: newEntry(),
        })
        await tenant.letTimePass(60_000)
        assert.deepEqual((await claim(tenant)).eventIds, [])
        assert.equal((await onlyDelivery(tenant)).state, 'cancelled')
      },
    )
  }

  harness.test(
    'deliveries.cancel() does not affect a delivery that is being sent, whose attempt is recorded',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      const claimed = await claimOne(tenant)
      assert.equal(await cancel(tenant, claimed.id), false)
      await writeResults(tenant, [success(claimed)])
      assert.equal((await onlyDelivery(tenant)).state, 'delivered')
    },
  )

  harness.test(
    'deliveries.cancel() does not affect deliveries in a final state, including cancelled ones',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      const finals: ((id: string) => Promise<unknown>)[] = [
        async () => writeResults(tenant, [success(await claimOne(tenant))]),
        async () => writeResults(tenant, [lastFailure(await claimOne(tenant))]),
        (id) => cancel(tenant, id),
        async () => {
          await tenant.store.endpoints.setState({
            organizationId: tenant.id,
            endpointId,
            state: 'disabled',
            from: ['enabled'],
            entry: newEntry(),
          })
          await claim(tenant)
        },
      ]
      const states: string[] = []
      await tenant.publish()
      for (const end of finals) {
        const { id } = await onlyDelivery(tenant)
        await end(id)
        const before = await onlyDelivery(tenant)
        assert.equal(await cancel(tenant, id), false)
        assert.deepEqual(await onlyDelivery(tenant), before)
        states.push(before.state)
        await tenant.store.deliveries.recover({
          organizationId: tenant.id,
          ids: [id],
          filter: {},
          limit: 1,
          entry: newEntry(),
        })
      }
      assert.deepEqual(states, ['delivered', 'failed', 'cancelled', 'skipped'])
    },
  )

  harness.test('deliveries.cancel() of an id unknown to the organization changes nothing', async (t) => {
    const [ours, theirs] = [await createPublisher(harness, t), await createPublisher(harness, t)]
    await theirs.insertEndpoint()
    await theirs.publish()
    const before = await onlyDelivery(theirs)
    for (const id of [before.id, ids('dlv'), '', 'constructor']) assert.equal(await cancel(ours, id), false)
    assert.deepEqual(await onlyDelivery(theirs), before)
  })

  harness.test(
    'a delivery cancelled while another process is claiming is either sent or cancelled, never both',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      for (let round = 0; round < 10; round++) {
        await tenant.publish()
        const [{ id = '' } = {}] = await tenant.store.deliveries.list(
          tenant.id,
          { states: ['pending'] },
          1,
          null,
        )
        const [isCancelled, { deliveries }] = await Promise.all([
          cancel(tenant, id),
          claim(tenant, {}, tenant.secondStore),
        ])
        assert.equal(deliveries.length, isCancelled ? 0 : 1)
      }
    },
  )
}
