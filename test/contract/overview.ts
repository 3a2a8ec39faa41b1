import assert from 'node:assert/strict'
import { createOverviewSettings, type Overview } from '../../lib/settings/overview.ts'
import { newEntry } from './audit-entry.ts'
import { claim, createPublisher, lastFailure, storeTime, success, writeResults } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { createTenant, type Tenant } from './tenant.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const WEEK_MS = 7 * DAY_MS

/** The numbers that need an administrator, at a glance: made of the lists and counts of several slices. */
export function testOverview(harness: StoreHarness): void {
  async function read(tenant: Tenant): Promise<Overview> {
    const now = await storeTime(tenant)
    return createOverviewSettings(tenant.store, () => now).get(tenant.id)
  }

  harness.test('the overview of a new organization is empty', async () => {
    const id = 'org_contract_without_anything'
    const store = await harness.store(id)
    assert.deepEqual(await createOverviewSettings(store, Date.now).get(id), {
      hasApiKey: false,
      hasUsedApiKey: false,
      hasEndpoint: false,
      troubledEndpoints: [],
      expiringApiKeys: [],
      failedDeliveries: 0,
    })
  })

  harness.test(
    'the overview gives the keys in force that expire soon and have no successor, by expiry',
    async () => {
      const tenant = await createTenant(harness)
      const now = await storeTime(tenant)
      const inMs = (ms: number) => ({ expiresAt: new Date(now + ms).toISOString() })
      const late = await tenant.insertKey(inMs(2 * DAY_MS))
      const soon = await tenant.insertKey(inMs(DAY_MS))
      await tenant.insertKey(inMs(WEEK_MS + DAY_MS))
      await tenant.insertKey(inMs(-1000))
      const revoked = await tenant.insertKey(inMs(DAY_MS))
      await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: revoked.id, entry: newEntry() })
      const overview = await read(tenant)
      const list = await tenant.store.apiKeys.list(tenant.id)
      assert.deepEqual(
        overview.expiringApiKeys,
        [soon, late].map(({ id }) => list.find((key) => key.id === id)),
      )
      assert.deepEqual([overview.hasApiKey, overview.hasUsedApiKey], [true, false])
      await tenant.store.apiKeys.markUsed(tenant.id, soon.id)
      assert.equal((await read(tenant)).hasUsedApiKey, true)
    },
  )

  harness.test(
    'the overview gives disabled and failing endpoints, and counts failed deliveries',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const other = await createPublisher(harness, t)
      const { id: fails } = await tenant.insertEndpoint()
      const { id: disabled } = await tenant.insertEndpoint()
      const { id: works } = await tenant.insertEndpoint()
      const { id: removed } = await tenant.insertEndpoint()
      await tenant.store.endpoints.setState({
        organizationId: tenant.id,
        endpointId: disabled,
        state: 'disabled',
        from: ['enabled'],
        entry: newEntry(),
      })
      await tenant.publish()
      const { deliveries } = await claim(tenant)
      assert.equal(deliveries.length, 3)
      await writeResults(
        tenant,
        deliveries.map((delivery) =>
          delivery.endpointId === works ? success(delivery) : lastFailure(delivery),
        ),
      )
      await tenant.store.endpoints.remove({
        organizationId: tenant.id,
        endpointId: removed,
        entry: newEntry(),
      })
      const overview = await read(tenant)
      const list = await tenant.store.endpoints.list(tenant.id)
      assert.deepEqual(
        overview.troubledEndpoints,
        [disabled, fails].map((id) => list.find((endpoint) => endpoint.id === id)),
      )
      assert.deepEqual([overview.hasEndpoint, overview.failedDeliveries], [true, 1])
      assert.deepEqual([(await read(other)).troubledEndpoints, (await read(other)).failedDeliveries], [[], 0])
    },
  )

  harness.test(
    'apiKeys.get() and endpoints.get() give the same as the lists, and nothing of another organization',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const endpoint = await ours.insertEndpoint()
      assert.deepEqual(
        await ours.store.apiKeys.get(ours.id, ours.key.id),
        (await ours.store.apiKeys.list(ours.id))[0],
      )
      assert.deepEqual(
        await ours.store.endpoints.get(ours.id, endpoint.id),
        (await ours.store.endpoints.list(ours.id))[0],
      )
      assert.equal(await theirs.store.apiKeys.get(theirs.id, ours.key.id), null)
      assert.equal(await theirs.store.endpoints.get(theirs.id, endpoint.id), null)
      await ours.store.endpoints.remove({
        organizationId: ours.id,
        endpointId: endpoint.id,
        entry: newEntry(),
      })
      assert.equal(await ours.store.endpoints.get(ours.id, endpoint.id), null)
    },
  )
}
