import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { ExpiryNotice, ExpiryRequest } from '../../lib/webhooks/notices.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from './audit-entry.ts'
import { createPublisher, storeTime } from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** Tests that upcoming expiries are returned once. */
export function testNotices(harness: StoreHarness): void {
  testSecrets(harness)
  testApiKeys(harness)
  testRequests(harness)
}

const HOUR_MS = 3_600_000

/** Returns the expiries of an organization. Those of other tests are claimed first. */
async function claimExpiring(
  tenant: Tenant,
  changes: Partial<ExpiryRequest> = {},
  store: BusinessApiStore = tenant.store,
): Promise<readonly ExpiryNotice[]> {
  const request = { token: randomUUID(), secretsWithinMs: HOUR_MS, apiKeysWithinMs: HOUR_MS, limit: 1000 }
  const notices = await store.notices.claimExpiring({ ...request, ...changes })
  return notices.filter(({ organizationId }) => organizationId === tenant.id)
}

async function createExpecting(harness: StoreHarness, t: ContractTest): Promise<Tenant> {
  const tenant = await createPublisher(harness, t)
  await claimExpiring(tenant)
  return tenant
}

/** Replaces a secret, which stays valid for this long. Returns the endpoint's id. */
async function rotate(tenant: Tenant, overlapMs: number, endpointId?: string): Promise<string> {
  const id = endpointId ?? (await tenant.insertEndpoint()).id
  await tenant.store.endpoints.rotateSecret({
    organizationId: tenant.id,
    changeId: ids('chg'),
    endpointId: id,
    sealedSecret: `sealed ${randomUUID()}`,
    overlapMs,
    entry: newEntry(),
  })
  return id
}

/** Creates a key that is active for this long and returns its id. */
async function expire(tenant: Tenant, ms: number, name = 'Website'): Promise<string> {
  return (await tenant.insertKey({ name, expiresAt: toTimestamp((await storeTime(tenant)) + ms) })).id
}

function idOf(notice: ExpiryNotice): string {
  return notice.kind === 'secret_expiring' ? notice.endpointId : notice.keyId
}

function testSecrets(harness: StoreHarness): void {
  harness.test(
    'claimExpiring() returns a secret that expires within the given time once, to a single process',
    async (t) => {
      const tenant = await createExpecting(harness, t)
      const endpointId = await rotate(tenant, 2 * HOUR_MS)
      assert.deepEqual(await claimExpiring(tenant), [], 'there is time')
      await tenant.letTimePass(HOUR_MS)
      const [endpoint] = await tenant.store.endpoints.list(tenant.id)
      const expiresAt = endpoint?.previousSecretExpiresAt ?? ''
      assert.deepEqual(await claimExpiring(tenant), [
        { kind: 'secret_expiring', organizationId: tenant.id, endpointId, expiresAt },
      ])
      assert.deepEqual(await claimExpiring(tenant, {}, tenant.secondStore), [])
      assert.deepEqual(await claimExpiring(tenant), [])
    },
  )

  harness.test('claimExpiring() returns a secret again after it was rotated again', async (t) => {
    const tenant = await createExpecting(harness, t)
    const endpointId = await rotate(tenant, HOUR_MS / 2)
    assert.equal((await claimExpiring(tenant)).length, 1)
    await tenant.letTimePass(1000)
    await rotate(tenant, HOUR_MS / 2, endpointId)
    assert.deepEqual((await claimExpiring(tenant)).map(idOf), [endpointId])
  })

  harness.test(
    'claimExpiring() returns no secret that is expired, never expires, or belongs to a removed endpoint',
    async (t) => {
      const tenant = await createExpecting(harness, t)
      await tenant.insertEndpoint()
      await rotate(tenant, 0)
      await rotate(tenant, 1000)
      const removed = await rotate(tenant, HOUR_MS / 2)
      await tenant.store.endpoints.remove({
        organizationId: tenant.id,
        endpointId: removed,
        entry: newEntry(),
      })
      await tenant.letTimePass(1001)
      assert.deepEqual(await claimExpiring(tenant), [])
    },
  )
}

function testApiKeys(harness: StoreHarness): void {
  harness.test(
    'claimExpiring() returns a key that expires within the given time once, to a single process',
    async (t) => {
      const tenant = await createExpecting(harness, t)
      const keyId = await expire(tenant, 2 * HOUR_MS, 'Website "é"')
      assert.deepEqual(await claimExpiring(tenant), [], 'there is time')
      await tenant.letTimePass(HOUR_MS)
      const notices = await claimExpiring(tenant)
      const key = (await tenant.store.apiKeys.list(tenant.id)).find(({ id }) => id === keyId)
      const expected = { kind: 'api_key_expiring', organizationId: tenant.id, keyId, name: 'Website "é"' }
      assert.deepEqual(notices, [{ ...expected, expiresAt: key?.expiresAt }])
      assert.deepEqual(await claimExpiring(tenant, {}, tenant.secondStore), [])
      assert.deepEqual(await claimExpiring(tenant), [])
    },
  )

  harness.test('claimExpiring() returns no key that is expired or revoked or never expires', async (t) => {
    const tenant = await createExpecting(harness, t)
    await expire(tenant, 1000)
    await tenant.store.apiKeys.revoke({
      organizationId: tenant.id,
      keyId: await expire(tenant, HOUR_MS / 2),
      entry: newEntry(),
    })
    await tenant.letTimePass(1001)
    assert.deepEqual(await claimExpiring(tenant), [])
  })
}

function testRequests(harness: StoreHarness): void {
  harness.test(
    'claimExpiring() returns the earliest expiries of each kind up to the limit, and the rest in the next call',
    async (t) => {
      const tenant = await createExpecting(harness, t)
      const keys = []
      for (const minutes of [30, 10, 20]) keys.push(await expire(tenant, minutes * 60_000))
      const [third, first, second] = keys
      const endpointId = await rotate(tenant, 15 * 60_000)
      const some = await claimExpiring(tenant, { limit: 2 })
      assert.deepEqual(some.map(idOf), [first, endpointId, second], 'in the order in which they end')
      assert.deepEqual((await claimExpiring(tenant, { limit: 2 })).map(idOf), [third])
    },
  )

  harness.test(
    'claimExpiring() returns only the requested kind, and leaves notices of other kinds for later',
    async (t) => {
      const tenant = await createExpecting(harness, t)
      const [keyId, endpointId] = [await expire(tenant, 60_000), await rotate(tenant, 60_000)]
      assert.deepEqual(await claimExpiring(tenant, { secretsWithinMs: null, apiKeysWithinMs: null }), [])
      assert.deepEqual((await claimExpiring(tenant, { secretsWithinMs: null })).map(idOf), [keyId])
      assert.deepEqual((await claimExpiring(tenant, { apiKeysWithinMs: null })).map(idOf), [endpointId])
    },
  )

  harness.test(
    'claimExpiring() deletes previous secrets whose overlap has ended, and no others, even if no notice is requested',
    async (t) => {
      const tenant = await createExpecting(harness, t)
      const [ended, open] = [await rotate(tenant, 60_000), await rotate(tenant, 2 * HOUR_MS)]
      const previousOf = async (id: string) => {
        const all = await tenant.store.endpoints.listSealed(10, { organizationId: tenant.id, endpointId: '' })
        return all.find(({ endpointId }) => endpointId === id)?.previousSealedSecret
      }
      await tenant.letTimePass(61_000)
      assert.equal(typeof (await previousOf(ended)), 'string')
      await claimExpiring(tenant, { secretsWithinMs: null, apiKeysWithinMs: null })
      assert.equal(await previousOf(ended), null)
      assert.equal(typeof (await previousOf(open)), 'string')
      assert.equal(
        (await tenant.store.endpoints.get(tenant.id, open))?.previousSecretExpiresAt === null,
        false,
      )
    },
  )

  harness.test('claimExpiring() with the same token returns the same again before any others', async (t) => {
    const tenant = await createExpecting(harness, t)
    const [keyId, endpointId] = [await expire(tenant, 120_000), await rotate(tenant, 120_000)]
    const token = randomUUID()
    const lost = await claimExpiring(tenant, { token })
    assert.deepEqual(new Set(lost.map(idOf)), new Set([keyId, endpointId]))
    const sooner = await expire(tenant, 60_000)
    assert.deepEqual(await claimExpiring(tenant, { token, limit: 1 }, tenant.secondStore), lost)
    assert.deepEqual(
      (await claimExpiring(tenant, { token })).map(idOf).toSorted(),
      [keyId, endpointId, sooner].toSorted(),
    )
    await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId, entry: newEntry() })
    assert.equal((await claimExpiring(tenant, { token })).map(idOf).includes(keyId), false, 'it was revoked')
    assert.deepEqual(await claimExpiring(tenant), [])
  })

  harness.test('if many processes ask concurrently, each expiry is returned to one', async (t) => {
    const tenant = await createExpecting(harness, t)
    const expected = [
      await expire(tenant, 60_000),
      await expire(tenant, 60_000),
      await rotate(tenant, 60_000),
    ]
    const asked = Array.from({ length: 8 }, (_, index) =>
      claimExpiring(tenant, {}, index % 2 === 0 ? tenant.store : tenant.secondStore),
    )
    const given = (await Promise.all(asked)).flat().map(idOf)
    assert.deepEqual(given.toSorted(), expected.toSorted())
  })

  harness.test(
    'claimExpiring() returns an expiry for its own organization, even if another has an endpoint or key with the same id',
    async (t) => {
      const [ours, theirs] = [await createExpecting(harness, t), await createExpecting(harness, t)]
      const [keyId, endpointId] = [ids('key'), (await ours.insertEndpoint()).id]
      const expiresAt = toTimestamp((await storeTime(ours)) + 60_000)
      await ours.insertKey({ id: keyId, expiresAt })
      await theirs.insertKey({ id: keyId })
      await theirs.insertEndpoint({ id: endpointId })
      await rotate(ours, 60_000, endpointId)
      const request = { token: randomUUID(), secretsWithinMs: HOUR_MS, apiKeysWithinMs: HOUR_MS, limit: 1000 }
      const given = await ours.store.notices.claimExpiring(request)
      assert.deepEqual(
        given.map((notice) => [notice.organizationId, idOf(notice)]).toSorted(),
        [
          [ours.id, keyId],
          [ours.id, endpointId],
        ].toSorted(),
      )
    },
  )
}
