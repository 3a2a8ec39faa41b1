import assert from 'node:assert/strict'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  getDelivery,
  NEVER,
  success,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** Tests that an endpoint or delivery of another organization is treated as unknown. */
export function testWebhookIsolation(harness: StoreHarness): void {
  testForeignIds(harness)
  testSameIds(harness)
}

async function createTwo(harness: StoreHarness, t: ContractTest): Promise<readonly [Tenant, Tenant]> {
  return [await createPublisher(harness, t), await createPublisher(harness, t)]
}

/** Returns everything that an organization can read of its webhooks. */
async function stateOf(tenant: Tenant): Promise<object> {
  const deliveries = await deliveriesOf(tenant)
  return {
    endpoints: await tenant.store.endpoints.list(tenant.id),
    deliveries: await Promise.all(deliveries.map(({ id }) => getDelivery(tenant, id))),
    events: await tenant.events(),
    audit: await tenant.store.audit.list(tenant.id, {}, 1000, null),
  }
}

/** Calls that a caller may use to try to reach another organization. */
interface Foreign {
  readonly endpointId: string
  /** A delivered one. */
  readonly deliveryId: string
  /** One that is being sent. */
  readonly claimed: Claimed
}

const calls: Record<string, (ours: Tenant, foreign: Foreign) => Promise<unknown>> = {
  'endpoints.update()': ({ store, id }, { endpointId }) =>
    store.endpoints.update({
      organizationId: id,
      endpointId,
      changes: { url: 'https://ours.example/' },
      entry: newEntry(),
    }),
  'endpoints.setState()': ({ store, id }, { endpointId }) =>
    store.endpoints.setState({
      organizationId: id,
      endpointId,
      state: 'disabled',
      from: ['enabled', 'paused'],
      entry: newEntry(),
    }),
  'endpoints.remove()': ({ store, id }, { endpointId }) =>
    store.endpoints.remove({ organizationId: id, endpointId, entry: newEntry() }),
  'endpoints.rotateSecret()': ({ store, id }, { endpointId }) =>
    store.endpoints.rotateSecret({
      organizationId: id,
      changeId: ids('chg'),
      endpointId,
      sealedSecret: 'ours',
      overlapMs: 0,
      entry: newEntry(),
    }),
  'endpoints.getTarget()': ({ store, id }, { endpointId }) => store.endpoints.getTarget(id, endpointId),
  'deliveries.cancel()': ({ store, id }, { deliveryId }) =>
    store.deliveries.cancel({ organizationId: id, deliveryId, entry: newEntry() }),
  'deliveries.list()': ({ store, id }, { endpointId }) =>
    store.deliveries.list(id, { endpointId }, 100, null),
  'deliveries.get()': ({ store, id }, { deliveryId }) => store.deliveries.get(id, deliveryId),
  'deliveries.listAttempts()': async ({ store, id }, { deliveryId }) =>
    Object.fromEntries(await store.deliveries.listAttempts(id, [deliveryId])),
  'deliveries.recover()': ({ store, id }, { deliveryId }) =>
    store.deliveries.recover({
      organizationId: id,
      ids: [deliveryId],
      filter: {},
      limit: 1,
      entry: newEntry(),
    }),
  'deliveries.recover() by a filter': ({ store, id }, { endpointId, deliveryId }) =>
    store.deliveries.recover({
      organizationId: id,
      ids: [deliveryId],
      filter: { endpointId },
      limit: 100,
      entry: newEntry(),
    }),
  'deliveries.writeResults()': async ({ store, id }, { claimed }) => {
    const results = [success({ ...claimed, organizationId: id })]
    const { lost, ...report } = await store.deliveries.writeResults(results, NEVER)
    return { ...report, lost: lost.length }
  },
  'deliveries.read()': ({ store, id }, { claimed }) =>
    store.deliveries.read([{ organizationId: id, deliveryId: claimed.id, token: claimed.token }]),
  'deliveries.release()': ({ store, id }, { claimed }) =>
    store.deliveries.release([{ organizationId: id, deliveryId: claimed.id, token: claimed.token }]),
}

function testForeignIds(harness: StoreHarness): void {
  for (const [name, call] of Object.entries(calls)) {
    harness.test(
      `${name} returns the same for an id of another organization as for an unknown one, and changes nothing`,
      async (t) => {
        const [ours, theirs] = await createTwo(harness, t)
        const { id: endpointId } = await theirs.insertEndpoint()
        await theirs.publish()
        const delivered = await claimOne(theirs)
        await writeResults(theirs, [success(delivered)])
        await theirs.publish()
        const claimed = await claimOne(theirs)
        await ours.insertEndpoint()
        await ours.publish()

        const before = [await stateOf(ours), await stateOf(theirs)]
        const unknown = {
          endpointId: ids('we'),
          deliveryId: ids('dlv'),
          claimed: { ...claimed, id: ids('dlv') },
        }
        const answer = await call(ours, { endpointId, deliveryId: delivered.id, claimed })
        assert.deepEqual(answer, await call(ours, unknown))
        assert.deepEqual([await stateOf(ours), await stateOf(theirs)], before)
      },
    )
  }

  harness.test('deliveries.list() and recover() without ids only reach their own organization', async (t) => {
    const [ours, theirs] = await createTwo(harness, t)
    for (const tenant of [ours, theirs]) {
      await tenant.insertEndpoint()
      await tenant.publish()
      await writeResults(tenant, [success(await claimOne(tenant))])
    }
    const before = await stateOf(theirs)
    const [delivery, ...others] = await deliveriesOf(ours)
    assert.deepEqual(others, [])
    assert.deepEqual(
      await ours.store.deliveries.recover({
        organizationId: ours.id,
        ids: [delivery?.id ?? '', ...(await deliveriesOf(theirs)).map(({ id }) => id)],
        filter: {},
        limit: 100,
        entry: newEntry(),
      }),
      [delivery?.id],
    )
    assert.deepEqual(await stateOf(theirs), before)
  })
}

function testSameIds(harness: StoreHarness): void {
  harness.test(
    'two organizations can have endpoints with the same id, and neither affects the other',
    async (t) => {
      const [ours, theirs] = await createTwo(harness, t)
      const { id } = await ours.insertEndpoint({ sealedSecret: 'ours' })
      const their = await theirs.insertEndpoint({
        id,
        url: 'https://theirs.example/',
        sealedSecret: 'theirs',
      })
      await theirs.publish()
      const before = await stateOf(theirs)
      await ours.store.endpoints.update({
        organizationId: ours.id,
        endpointId: id,
        changes: { url: 'https://ours.example/', types: ['lead.created'] },
        entry: newEntry(),
      })
      await ours.store.endpoints.rotateSecret({
        organizationId: ours.id,
        changeId: ids('chg'),
        endpointId: id,
        sealedSecret: 'ours too',
        overlapMs: 60_000,
        entry: newEntry(),
      })
      await ours.store.endpoints.setState({
        organizationId: ours.id,
        endpointId: id,
        state: 'disabled',
        from: ['enabled'],
        entry: newEntry(),
      })
      await ours.publish({ type: 'lead.created' })
      await ours.store.endpoints.remove({ organizationId: ours.id, endpointId: id, entry: newEntry() })
      await claim(ours)
      assert.deepEqual(await stateOf(theirs), before)

      const { url, sealedSecrets } = await claimOne(theirs)
      assert.deepEqual([url, sealedSecrets], [their.url, ['theirs']])
    },
  )

  harness.test(
    'a failure counts for the endpoint of its own organization, even if another one has an endpoint with the same id',
    async (t) => {
      const [ours, theirs] = await createTwo(harness, t)
      const { id } = await ours.insertEndpoint()
      await theirs.insertEndpoint({ id })
      const before = await stateOf(theirs)
      await ours.publish()
      const gone = success(await claimOne(ours), { outcome: 'failed', reason: 'gone', isGone: true })
      const [health] = await writeResults(ours, [gone])
      assert.deepEqual([health?.organizationId, health?.state], [ours.id, 'disabled'])
      assert.deepEqual(await stateOf(theirs), before)
    },
  )
}
