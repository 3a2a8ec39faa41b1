import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { newEntry } from '../_audit.ts'
import type { StoreHarness } from './_contract.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  getDelivery,
  NEVER,
  record,
  success,
} from './_delivering.ts'
import { ids, type Tenant } from './_tenant.ts'

/** An endpoint or a delivery of another organization is as absent as an unknown one. */
export function testWebhookIsolation(harness: StoreHarness): void {
  testForeignIds(harness)
  testSameIds(harness)
}

async function createTwo(harness: StoreHarness, t: TestContext): Promise<readonly [Tenant, Tenant]> {
  return [await createPublisher(harness, t), await createPublisher(harness, t)]
}

/** What an organization can see of its webhooks. */
async function stateOf(tenant: Tenant): Promise<object> {
  const deliveries = await deliveriesOf(tenant)
  return {
    endpoints: await tenant.store.endpoints.list(tenant.id),
    deliveries: await Promise.all(deliveries.map(({ id }) => getDelivery(tenant, id))),
    events: await tenant.events(),
    audit: await tenant.store.audit.list(tenant.id, {}, 1000, null),
  }
}

/** What of another organization somebody may try to reach. */
interface Foreign {
  readonly endpointId: string
  /** Delivered. */
  readonly deliveryId: string
  /** In flight. */
  readonly claimed: Claimed
}

const calls: Record<string, (ours: Tenant, foreign: Foreign) => Promise<unknown>> = {
  'endpoints.update()': ({ store, id }, { endpointId }) =>
    store.endpoints.update(id, endpointId, { url: 'https://ours.example/' }, newEntry()),
  'endpoints.setState()': ({ store, id }, { endpointId }) =>
    store.endpoints.setState(id, endpointId, 'disabled', ['enabled', 'paused'], newEntry()),
  'endpoints.remove()': ({ store, id }, { endpointId }) => store.endpoints.remove(id, endpointId, newEntry()),
  'endpoints.rotateSecret()': ({ store, id }, { endpointId }) =>
    store.endpoints.rotateSecret(id, endpointId, 'ours', 0, newEntry()),
  'endpoints.getTarget()': ({ store, id }, { endpointId }) => store.endpoints.getTarget(id, endpointId),
  'deliveries.cancel()': ({ store, id }, { deliveryId }) =>
    store.deliveries.cancel(id, deliveryId, newEntry()),
  'deliveries.list()': ({ store, id }, { endpointId }) =>
    store.deliveries.list(id, { endpointId }, 100, null),
  'deliveries.get()': ({ store, id }, { deliveryId }) => store.deliveries.get(id, deliveryId),
  'deliveries.replay()': ({ store, id }, { deliveryId }) =>
    store.deliveries.replay(id, [deliveryId], {}, 1, newEntry()),
  'deliveries.replay() by a filter': ({ store, id }, { endpointId }) =>
    store.deliveries.replay(id, null, { endpointId }, 100, newEntry()),
  'deliveries.record()': ({ store, id }, { claimed }) =>
    store.deliveries.record([success({ ...claimed, organizationId: id })], NEVER),
  'deliveries.release()': ({ store, id }, { claimed }) =>
    store.deliveries.release([{ organizationId: id, deliveryId: claimed.id, token: claimed.token }]),
}

function testForeignIds(harness: StoreHarness): void {
  for (const [name, call] of Object.entries(calls)) {
    test(`${name} answers the same for an id of another organization and an unknown one, and changes nothing`, async (t) => {
      const [ours, theirs] = await createTwo(harness, t)
      const { id: endpointId } = await theirs.insertEndpoint()
      await theirs.publish()
      const delivered = await claimOne(theirs)
      await record(theirs, [success(delivered)])
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
    })
  }

  test('deliveries.list() and replay() without ids reach the own organization only', async (t) => {
    const [ours, theirs] = await createTwo(harness, t)
    for (const tenant of [ours, theirs]) {
      await tenant.insertEndpoint()
      await tenant.publish()
      await record(tenant, [success(await claimOne(tenant))])
    }
    const before = await stateOf(theirs)
    const [delivery, ...others] = await deliveriesOf(ours)
    assert.deepEqual(others, [])
    assert.deepEqual(await ours.store.deliveries.replay(ours.id, null, {}, 100, newEntry()), [delivery?.id])
    assert.deepEqual(await stateOf(theirs), before)
  })
}

function testSameIds(harness: StoreHarness): void {
  test('two organizations can have endpoints of the same id, and what becomes of one is nothing to the other', async (t) => {
    const [ours, theirs] = await createTwo(harness, t)
    const { id } = await ours.insertEndpoint({ sealedSecret: 'ours' })
    const their = await theirs.insertEndpoint({ id, url: 'https://theirs.example/', sealedSecret: 'theirs' })
    await theirs.publish()
    const before = await stateOf(theirs)
    await ours.store.endpoints.update(
      ours.id,
      id,
      { url: 'https://ours.example/', types: ['lead.created'] },
      newEntry(),
    )
    await ours.store.endpoints.rotateSecret(ours.id, id, 'ours too', 60_000, newEntry())
    await ours.store.endpoints.setState(ours.id, id, 'disabled', ['enabled'], newEntry())
    await ours.publish({ type: 'lead.created' })
    await ours.store.endpoints.remove(ours.id, id, newEntry())
    await claim(ours)
    assert.deepEqual(await stateOf(theirs), before)

    const { url, sealedSecrets } = await claimOne(theirs)
    assert.deepEqual([url, sealedSecrets], [their.url, ['theirs']])
  })

  test('a failure counts for the endpoint of its own organization, also where another has one of the same id', async (t) => {
    const [ours, theirs] = await createTwo(harness, t)
    const { id } = await ours.insertEndpoint()
    await theirs.insertEndpoint({ id })
    const before = await stateOf(theirs)
    await ours.publish()
    const gone = success(await claimOne(ours), { outcome: 'dead_lettered', reason: 'gone', isGone: true })
    const [health] = await record(ours, [gone])
    assert.deepEqual([health?.organizationId, health?.state], [ours.id, 'disabled'])
    assert.deepEqual(await stateOf(theirs), before)
  })
}
