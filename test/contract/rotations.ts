import assert from 'node:assert/strict'
import type { ApiKeyRecord, ApiKeyRotation, ApiKeySuccessor } from '../../lib/access/api-keys.ts'
import { newEntry } from './audit-entry.ts'
import { storeTime } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { callAtOnce, createTenant, ids, newSuccessor, requestOf, type Tenant } from './tenant.ts'

const OVERLAP_MS = 3_600_000

/** Tests keys that replace each other. */
export function testRotations(harness: StoreHarness): void {
  testSuccessor(harness)
  testOverlap(harness)
  testOnce(harness)
}

async function rotate(
  { store, id }: Tenant,
  key: Pick<ApiKeyRecord, 'id'>,
  successor: ApiKeySuccessor = newSuccessor(),
  overlapMs: number = OVERLAP_MS,
): Promise<ApiKeyRotation> {
  const rotation = await store.apiKeys.rotate({
    organizationId: id,
    limit: 1000,
    keyId: key.id,
    successor,
    overlapMs,
    entry: newEntry(),
  })
  assert.ok(rotation, 'no rotation')
  return rotation
}

async function outcomeOf({ store }: Tenant, key: Pick<ApiKeyRecord, 'digest'>): Promise<string> {
  return (await store.apiKeys.admit(requestOf(key))).outcome
}

/** Returns a future time by the store's clock. */
async function inMs(tenant: Tenant, ms: number): Promise<string> {
  return new Date((await storeTime(tenant)) + ms).toISOString()
}

function testSuccessor(harness: StoreHarness): void {
  harness.test(
    'apiKeys.rotate() creates a key with the name, scopes, limit and expiry of the previous key, and returns both',
    async () => {
      const tenant = await createTenant(harness)
      const key = await tenant.insertKey({
        name: 'O\'Brien "🏺" \\ \n 株式会社',
        scopes: ['projects:read', 'clients:read'],
        rateLimit: { perSecond: 0.5, burst: 7 },
        expiresAt: await inMs(tenant, 24 * OVERLAP_MS),
        prefix: 'old_live_',
      })
      const successor = newSuccessor({ prefix: 'new_live_' })
      const { key: made, previous } = await rotate(tenant, key, successor)
      const { digest: _, ...kept } = successor
      const { name, scopes, rateLimit, expiresAt } = key
      const fresh = { revokedAt: null, successorId: null, lastUsedAt: null }
      assert.deepEqual(made, { ...kept, name, scopes, rateLimit, expiresAt, ...fresh })
      const { digest: __, ...before } = key
      const ends = previous.expiresAt
      assert.deepEqual(previous, { ...before, ...fresh, expiresAt: ends, successorId: successor.id })
      const listed = await tenant.secondStore.apiKeys.list(tenant.id)
      assert.deepEqual(listed.slice(0, 2), [made, previous])
      assert.equal(await outcomeOf(tenant, successor), 'admitted')
    },
  )

  harness.test(
    'apiKeys.rotate() uses the given expiry, including null, instead of the previous one',
    async () => {
      const tenant = await createTenant(harness)
      for (const [before, given] of [
        [await inMs(tenant, OVERLAP_MS), null],
        [null, '2099-02-28T12:00:00.010Z'],
      ] as const) {
        const key = await tenant.insertKey({ expiresAt: before })
        const { key: made } = await rotate(tenant, key, newSuccessor({ expiresAt: given }))
        assert.equal(made?.expiresAt, given)
      }
    },
  )

  harness.test('apiKeys.rotate() of an unknown id returns null and creates no key', async () => {
    const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
    const before = [await ours.store.apiKeys.list(ours.id), await theirs.store.apiKeys.list(theirs.id)]
    for (const id of [theirs.key.id, ids('key'), '', 'constructor']) {
      const successor = newSuccessor()
      assert.equal(
        await ours.store.apiKeys.rotate({
          organizationId: ours.id,
          limit: 1000,
          keyId: id,
          successor,
          overlapMs: 0,
          entry: newEntry(),
        }),
        null,
      )
      assert.equal(await outcomeOf(ours, successor), 'unauthenticated')
    }
    assert.deepEqual(
      [await ours.store.apiKeys.list(ours.id), await theirs.store.apiKeys.list(theirs.id)],
      before,
    )
  })
}

function testOverlap(harness: StoreHarness): void {
  harness.test(
    'apiKeys.rotate() keeps the previous key active until the overlap has ended, by the store’s clock',
    async () => {
      const tenant = await createTenant(harness)
      const successor = newSuccessor()
      await rotate(tenant, tenant.key, successor)
      await tenant.letTimePass(OVERLAP_MS - 10_000)
      assert.equal(await outcomeOf(tenant, tenant.key), 'admitted')
      await tenant.letTimePass(10_001)
      assert.equal(await outcomeOf(tenant, tenant.key), 'unauthenticated')
      assert.equal(await outcomeOf(tenant, successor), 'admitted')
    },
  )

  harness.test('apiKeys.rotate() does not extend the expiry of the previous key', async () => {
    const tenant = await createTenant(harness)
    const key = await tenant.insertKey({ expiresAt: await inMs(tenant, OVERLAP_MS / 2) })
    const { previous } = await rotate(tenant, key)
    assert.equal(previous.expiresAt, key.expiresAt)
  })

  harness.test(
    'apiKeys.rotate() with an overlap of 0 revokes the previous key immediately and keeps its expiry',
    async () => {
      const tenant = await createTenant(harness)
      const key = await tenant.insertKey({ expiresAt: await inMs(tenant, OVERLAP_MS) })
      const { previous } = await rotate(tenant, key, newSuccessor(), 0)
      assert.ok(previous.revokedAt, 'the previous key is not revoked')
      assert.equal(previous.expiresAt, key.expiresAt)
      assert.equal(await outcomeOf(tenant, key), 'unauthenticated')
    },
  )
}

function testOnce(harness: StoreHarness): void {
  harness.test(
    'apiKeys.rotate() rejects a key that is revoked, expired or already rotated, and returns its state',
    async () => {
      const tenant = await createTenant(harness)
      const [revoked, expired, rotated] = [
        await tenant.insertKey(),
        await tenant.insertKey({ expiresAt: '2020-02-29T12:00:00.010Z' }),
        await tenant.insertKey(),
      ]
      await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: revoked.id, entry: newEntry() })
      await rotate(tenant, rotated)
      const before = await tenant.store.apiKeys.list(tenant.id)
      for (const key of [revoked, expired, rotated]) {
        const successor = newSuccessor()
        const rotation = await rotate(tenant, key, successor, 0)
        assert.equal(rotation.key, null)
        assert.deepEqual(
          rotation.previous,
          before.find(({ id }) => id === key.id),
        )
        assert.equal(await outcomeOf(tenant, successor), 'unauthenticated')
      }
      assert.deepEqual(await tenant.store.apiKeys.list(tenant.id), before)
    },
  )

  harness.test('ten concurrent rotations of a key in two processes create a single key', async () => {
    const tenant = await createTenant(harness)
    const rotations = await callAtOnce(tenant, ({ apiKeys }) =>
      apiKeys.rotate({
        organizationId: tenant.id,
        limit: 1000,
        keyId: tenant.key.id,
        successor: newSuccessor(),
        overlapMs: OVERLAP_MS,
        entry: newEntry(),
      }),
    )
    const made = rotations.flatMap((rotation) => rotation?.key ?? [])
    assert.equal(made.length, 1)
    for (const rotation of rotations) assert.equal(rotation?.previous.successorId, made[0]?.id)
    assert.equal((await tenant.store.apiKeys.list(tenant.id)).length, 2)
  })

  harness.test('a successor can be rotated as well', async () => {
    const tenant = await createTenant(harness)
    const [second, third] = [newSuccessor(), newSuccessor()]
    await rotate(tenant, tenant.key, second)
    const { key, previous } = await rotate(tenant, second, third)
    assert.deepEqual([key?.id, key?.expiresAt, previous.successorId], [third.id, null, third.id])
    for (const one of [tenant.key, second, third]) assert.equal(await outcomeOf(tenant, one), 'admitted')
  })
}
