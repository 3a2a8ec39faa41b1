import assert from 'node:assert/strict'
import type { Admission, AdmissionRequest } from '../../lib/access/admission.ts'
import type { ApiKeyRecord } from '../../lib/access/api-keys.ts'
import type { RateLimitState, RateLimits } from '../../lib/access/rate-limit.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from './audit-entry.ts'
import type { StoreHarness } from './harness.ts'
import { createTenant, requestOf, type Tenant, UNKNOWN_KEY } from './tenant.ts'

/** Tests the results of admit() in the order of its checks. */
export function testAdmission(harness: StoreHarness): void {
  testKeys(harness)
  testOrder(harness)
  testBuckets(harness)
  testOwnLimits(harness)
}

/** So slow that no token is returned during a test. */
function limits(keyBurst: number, organizationBurst: number): RateLimits {
  return {
    key: { perSecond: 0.01, burst: keyBurst },
    organization: { perSecond: 0.01, burst: organizationBurst },
  }
}

function admit(tenant: Tenant, changes: Partial<AdmissionRequest> = {}, key: ApiKeyRecord = tenant.key) {
  return tenant.store.apiKeys.admit(requestOf(key, changes))
}

async function spend(
  tenant: Tenant,
  rateLimits: RateLimits,
  key: ApiKeyRecord = tenant.key,
): Promise<RateLimitState & { outcome: Admission['outcome'] }> {
  const admission = await admit(tenant, { rateLimits }, key)
  assert.ok(
    admission.outcome !== 'unauthenticated' && admission.rateLimit !== null,
    `${admission.outcome}, without buckets`,
  )
  return { ...admission.rateLimit, outcome: admission.outcome }
}

function testKeys(harness: StoreHarness): void {
  harness.test('admit() admits an active key and returns its organization', async () => {
    const tenant = await createTenant(harness)
    assert.deepEqual(await admit(tenant), {
      outcome: 'admitted',
      caller: { organizationId: tenant.id, keyId: tenant.key.id },
      rateLimit: null,
      lastUseIsStale: true,
    })
  })

  harness.test('admit() only returns unauthenticated for an unknown digest', async () => {
    const tenant = await createTenant(harness)
    const unauthenticated = { outcome: 'unauthenticated' }
    for (const digest of [UNKNOWN_KEY.digest, '', tenant.key.digest.toUpperCase(), `${tenant.key.digest} `]) {
      assert.deepEqual(await tenant.store.apiKeys.admit(requestOf({ digest })), unauthenticated)
    }
  })

  harness.test('identify() only finds the organizations of active keys', async () => {
    const tenant = await createTenant(harness)
    const past = await tenant.insertKey({ expiresAt: '2020-01-01T00:00:00.000Z' })
    const { expiresAt } = await harnessMoment(tenant, 3_600_000)
    const expiring = await tenant.insertKey({ expiresAt })
    const revoked = await tenant.insertKey()
    const { apiKeys } = tenant.store
    await apiKeys.revoke({ organizationId: tenant.id, keyId: revoked.id, entry: newEntry() })
    const digests = [tenant.key, past, expiring, revoked, UNKNOWN_KEY].map(({ digest }) => digest)
    const inForce = new Map([
      [tenant.key.digest, tenant.id],
      [expiring.digest, tenant.id],
    ])
    assert.deepEqual(new Map(await apiKeys.identify([...digests, ...digests, ''])), inForce)
    assert.equal((await apiKeys.identify([])).size, 0)
    await tenant.letTimePass(3_600_001)
    inForce.delete(expiring.digest)
    assert.deepEqual(new Map(await apiKeys.identify(digests)), inForce)
  })

  harness.test('admit() rejects a revoked key immediately, on every store', async () => {
    const tenant = await createTenant(harness)
    assert.equal((await admit(tenant)).outcome, 'admitted')
    await tenant.secondStore.apiKeys.revoke({
      organizationId: tenant.id,
      keyId: tenant.key.id,
      entry: newEntry(),
    })
    assert.deepEqual(await admit(tenant), { outcome: 'unauthenticated' })
  })

  harness.test('admit() rejects a key as soon as it expires', async () => {
    const tenant = await createTenant(harness)
    const past = await tenant.insertKey({ expiresAt: '2020-01-01T00:00:00.000Z' })
    assert.deepEqual(await admit(tenant, {}, past), { outcome: 'unauthenticated' })

    const { expiresAt } = await harnessMoment(tenant, 3_600_000)
    const key = await tenant.insertKey({ expiresAt })
    assert.equal((await admit(tenant, {}, key)).outcome, 'admitted')
    await tenant.letTimePass(3_600_001)
    assert.deepEqual(await admit(tenant, {}, key), { outcome: 'unauthenticated' })
  })

  harness.test('admit() requires exactly the scope of the request', async () => {
    const tenant = await createTenant(harness)
    const key = await tenant.insertKey({ scopes: ['clients:write', 'leads:read'] })
    assert.equal((await admit(tenant, { scope: 'clients:write' }, key)).outcome, 'admitted')
    assert.equal((await admit(tenant, { scope: 'leads:read' }, key)).outcome, 'admitted')
    assert.equal((await admit(tenant, { scope: 'clients:read' }, key)).outcome, 'forbidden')
    assert.equal((await admit(tenant, { scope: 'leads:write' }, key)).outcome, 'forbidden')
  })
}

/** Returns a time by the store's clock, derived from the last use of a key. */
async function harnessMoment(tenant: Tenant, inMs: number): Promise<{ expiresAt: string }> {
  const { id } = await tenant.insertKey()
  await tenant.store.apiKeys.markUsed(tenant.id, id)
  const key = (await tenant.store.apiKeys.list(tenant.id)).find((each) => each.id === id)
  return { expiresAt: toTimestamp(Date.parse(key?.lastUsedAt ?? '') + inMs) }
}

function testOrder(harness: StoreHarness): void {
  harness.test('admit() checks the key before the limits, so a revoked key takes no token', async () => {
    const tenant = await createTenant(harness)
    const revoked = await tenant.insertKey()
    await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: revoked.id, entry: newEntry() })
    for (let request = 0; request < 3; request++) {
      const admission = await admit(tenant, { rateLimits: limits(1, 1) }, revoked)
      assert.deepEqual(admission, { outcome: 'unauthenticated' })
    }
    assert.equal((await spend(tenant, limits(1, 1))).outcome, 'admitted')
  })

  harness.test(
    'admit() checks the limits before the scope, and takes a token if the scope is missing',
    async () => {
      const tenant = await createTenant(harness)
      const key = await tenant.insertKey({ scopes: ['leads:read'] })
      const first = await spend(tenant, limits(2, 10), key)
      assert.equal(first.outcome, 'forbidden')
      assert.deepEqual([first.key.remaining, first.organization.remaining], [1, 9])
      assert.equal((await spend(tenant, limits(2, 10), key)).outcome, 'forbidden')
      assert.equal((await spend(tenant, limits(2, 10), key)).outcome, 'limited')
    },
  )
}

function testBuckets(harness: StoreHarness): void {
  harness.test('admit() allows a burst and returns the remaining tokens', async () => {
    const tenant = await createTenant(harness)
    const remaining: [number, number][] = []
    for (let request = 0; request < 3; request++) {
      const { key, organization, retryAfterMs } = await spend(tenant, limits(3, 5))
      assert.deepEqual([key.perSecond, key.burst, organization.burst], [0.01, 3, 5])
      assert.equal(retryAfterMs, 0)
      remaining.push([key.remaining, organization.remaining])
    }
    assert.deepEqual(remaining, [
      [2, 4],
      [1, 3],
      [0, 2],
    ])
    const { key, outcome, retryAfterMs } = await spend(tenant, limits(3, 5))
    assert.equal(outcome, 'limited')
    assert.ok(retryAfterMs > 50_000 && retryAfterMs <= 100_000, `${retryAfterMs}`)
    assert.ok(key.resetMs > 250_000 && key.resetMs <= 300_000, `${key.resetMs}`)
  })

  harness.test(
    'admit() takes from both buckets or from neither if the bucket of the key is empty',
    async () => {
      const tenant = await createTenant(harness)
      await spend(tenant, limits(1, 5))
      for (let request = 0; request < 3; request++) {
        const { outcome, organization } = await spend(tenant, limits(1, 5))
        assert.deepEqual([outcome, organization.remaining], ['limited', 4])
      }
    },
  )

  harness.test(
    'admit() takes from both buckets or from neither if the bucket of the organization is empty',
    async () => {
      const tenant = await createTenant(harness)
      const other = await tenant.insertKey()
      await spend(tenant, limits(5, 2), other)
      await spend(tenant, limits(5, 2))
      for (let request = 0; request < 3; request++) {
        const { outcome, key } = await spend(tenant, limits(5, 2))
        assert.deepEqual([outcome, key.remaining], ['limited', 4])
      }
    },
  )

  harness.test(
    'admit() returns an exact wait, after which the request is admitted, while half of it is not enough',
    async () => {
      const tenant = await createTenant(harness)
      await spend(tenant, limits(1, 5))
      const first = await spend(tenant, limits(1, 5))
      await tenant.letTimePass(first.retryAfterMs / 2)
      const second = await spend(tenant, limits(1, 5))
      assert.equal(second.outcome, 'limited')
      assert.ok(
        second.retryAfterMs > 0 && second.retryAfterMs <= first.retryAfterMs / 2 + 1,
        `${second.retryAfterMs} ms, not half of ${first.retryAfterMs} ms`,
      )
      await tenant.letTimePass(second.retryAfterMs)
      assert.equal((await spend(tenant, limits(1, 5))).outcome, 'admitted')
      assert.equal((await spend(tenant, limits(1, 5))).outcome, 'limited')
    },
  )

  harness.test('admit() returns an exact wait after the limit of an organization was raised', async () => {
    const tenant = await createTenant(harness)
    const roomy = { perSecond: 1000, burst: 1000 }
    const limitTo = (perSecond: number) =>
      tenant.store.apiKeys.limitOrganization({
        organizationId: tenant.id,
        rateLimit: { perSecond, burst: 5 },
        entry: newEntry(),
      })
    await limitTo(0.01)
    for (let request = 0; request < 5; request++) await spend(tenant, { key: roomy, organization: roomy })
    await limitTo(1)
    const first = await spend(tenant, { key: roomy, organization: roomy })
    assert.equal(first.outcome, 'limited')
    assert.ok(first.retryAfterMs > 0 && first.retryAfterMs <= 1000, `${first.retryAfterMs}`)
    await tenant.letTimePass(first.retryAfterMs)
    assert.equal((await spend(tenant, { key: roomy, organization: roomy })).outcome, 'admitted')
  })

  harness.test(
    'admit() for an API with higher limits does not refill a bucket for an API with lower limits',
    async () => {
      const tenant = await createTenant(harness)
      const high = { key: { perSecond: 10, burst: 10 }, organization: { perSecond: 10, burst: 10 } }
      for (let request = 0; request < 5; request++) await spend(tenant, limits(5, 5))
      for (let round = 0; round < 2; round++) {
        assert.equal((await spend(tenant, limits(5, 5))).outcome, 'limited')
        const { outcome, retryAfterMs } = await spend(tenant, high)
        assert.equal(outcome, 'limited')
        assert.ok(retryAfterMs > 490_000 && retryAfterMs <= 500_000, `${retryAfterMs}`)
      }
    },
  )

  harness.test('admit() refills a bucket up to its burst', async () => {
    const tenant = await createTenant(harness)
    await spend(tenant, limits(3, 5))
    await tenant.letTimePass(24 * 3_600_000)
    const { key, organization } = await spend(tenant, limits(3, 5))
    assert.deepEqual([key.remaining, organization.remaining], [2, 4])
  })

  harness.test('admit() takes no token without limits, even from a key with its own limit', async () => {
    const tenant = await createTenant(harness)
    const key = await tenant.insertKey({ rateLimit: { perSecond: 0.01, burst: 1 } })
    for (let request = 0; request < 3; request++) {
      const admission = await admit(tenant, { rateLimits: null }, key)
      assert.ok(admission.outcome === 'admitted', admission.outcome)
      assert.equal(admission.rateLimit, null)
    }
    assert.equal((await spend(tenant, limits(5, 5), key)).organization.remaining, 4)
  })
}

function testOwnLimits(harness: StoreHarness): void {
  harness.test('the limit of a key overrides that of the API, for this key only', async () => {
    const tenant = await createTenant(harness)
    const own = await tenant.insertKey({ rateLimit: { perSecond: 0.5, burst: 7 } })
    const { key, organization } = await spend(tenant, limits(3, 10), own)
    assert.deepEqual([key.perSecond, key.burst, key.remaining], [0.5, 7, 6])
    assert.deepEqual([organization.burst, organization.remaining], [10, 9])
    assert.equal((await spend(tenant, limits(3, 10))).key.burst, 3)
  })

  harness.test(
    'the limit of an organization immediately applies to all its keys, until null restores the limit of the API',
    async () => {
      const tenant = await createTenant(harness)
      const other = await tenant.insertKey()
      await tenant.store.apiKeys.limitOrganization({
        organizationId: tenant.id,
        rateLimit: { perSecond: 0.25, burst: 2 },
        entry: newEntry(),
      })
      const { organization, key } = await spend(tenant, limits(5, 9))
      assert.deepEqual([organization.perSecond, organization.burst, organization.remaining], [0.25, 2, 1])
      assert.equal(key.burst, 5)
      assert.equal((await spend(tenant, limits(5, 9), other)).outcome, 'admitted')
      assert.equal((await spend(tenant, limits(5, 9))).outcome, 'limited')

      await tenant.secondStore.apiKeys.limitOrganization({
        organizationId: tenant.id,
        rateLimit: { perSecond: 0.25, burst: 3 },
        entry: newEntry(),
      })
      assert.equal((await spend(tenant, limits(5, 9))).organization.burst, 3)
      await tenant.store.apiKeys.limitOrganization({
        organizationId: tenant.id,
        rateLimit: null,
        entry: newEntry(),
      })
      await tenant.store.apiKeys.limitOrganization({
        organizationId: tenant.id,
        rateLimit: null,
        entry: newEntry(),
      })
      assert.equal((await spend(tenant, limits(5, 9))).organization.burst, 9)
    },
  )

  harness.test('removing a limit leaves no wait because the bucket is full', async () => {
    const tenant = await createTenant(harness)
    const change = { organizationId: tenant.id, entry: newEntry() }
    await tenant.store.apiKeys.limitOrganization({ ...change, rateLimit: { perSecond: 0.01, burst: 2 } })
    for (const outcome of ['admitted', 'admitted', 'limited']) {
      assert.equal((await spend(tenant, limits(5, 9))).outcome, outcome)
    }
    await tenant.store.apiKeys.limitOrganization({ ...change, entry: newEntry(), rateLimit: null })
    const { outcome, organization } = await spend(tenant, limits(5, 9))
    assert.deepEqual([outcome, organization.remaining], ['admitted', 8])
  })
}
