import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import type { ApiKey, ApiKeyRecord } from '../../lib/access/api-keys.ts'
import { newEntry } from './audit-entry.ts'
import type { StoreHarness } from './harness.ts'
import { callAtOnce, createTenant, ids, newKey, requestOf, type Tenant } from './tenant.ts'

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Tests the stored fields of keys, revocation, expiry and last use. */
export function testApiKeys(harness: StoreHarness): void {
  testList(harness)
  testImports(harness)
  testRevoke(harness)
  testLastUse(harness)
  testOrganizationLimit(harness)
}

/** Returns a new key as shown by `apiKeys.list`. */
function shown({ digest: _, ...record }: ApiKeyRecord): ApiKey {
  return { ...record, revokedAt: null, successorId: null, lastUsedAt: null }
}

async function find(tenant: Tenant, id: string): Promise<ApiKey> {
  const key = (await tenant.store.apiKeys.list(tenant.id)).find((each) => each.id === id)
  assert.ok(key, 'no key')
  return key
}

function testList(harness: StoreHarness): void {
  harness.test(
    'apiKeys.list() returns all keys newest first, with each field as inserted and no secrets',
    async () => {
      const tenant = await createTenant(harness)
      const one = newKey({
        name: 'O\'Brien "🏺" \\ \n 株式会社',
        scopes: ['clients:read'],
        prefix: 'x_live_',
      })
      const two = newKey({
        expiresAt: '2020-02-29T12:00:00.010Z',
        createdAt: '2019-01-01T00:00:00.000Z',
        rateLimit: { perSecond: 0.5, burst: 7 },
        scopes: ['projects:read', 'clients:read'],
      })
      await tenant.store.apiKeys.insert({
        organizationId: tenant.id,
        limit: 1000,
        key: two,
        entry: newEntry(),
      })
      await tenant.store.apiKeys.insert({
        organizationId: tenant.id,
        limit: 1000,
        key: one,
        entry: newEntry(),
      })
      const keys = await tenant.store.apiKeys.list(tenant.id)
      assert.deepEqual(keys, [shown(two), shown(one), shown(tenant.key)])
      assert.equal(JSON.stringify(keys).includes(one.digest), false)
    },
  )

  harness.test('apiKeys.list() is empty for an organization without keys', async () => {
    const id = 'org_contract_without_keys'
    assert.deepEqual(await (await harness.store(id)).apiKeys.list(id), [])
  })

  harness.test(
    'apiKeys.get() returns the same key as the list, or null for a key of another organization',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      assert.deepEqual(await ours.store.apiKeys.get(ours.id, ours.key.id), await find(ours, ours.key.id))
      assert.equal(await theirs.store.apiKeys.get(theirs.id, ours.key.id), null)
    },
  )

  harness.test('apiKeys.insert() of an existing id changes nothing', async () => {
    const tenant = await createTenant(harness)
    await tenant.store.apiKeys.insert({
      organizationId: tenant.id,
      limit: 1000,
      key: tenant.key,
      entry: newEntry(),
    })
    await tenant.store.apiKeys.insert({
      organizationId: tenant.id,
      limit: 1000,
      key: newKey({ id: tenant.key.id, name: 'Another' }),
      entry: newEntry(),
    })
    assert.deepEqual(await tenant.store.apiKeys.list(tenant.id), [shown(tenant.key)])
    assert.equal((await tenant.store.apiKeys.admit(requestOf(tenant.key))).outcome, 'admitted')
  })

  harness.test('apiKeys.insert() never lets two keys share a digest', async () => {
    const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
    for (const { id: organizationId, store } of [ours, theirs]) {
      const key = newKey({ digest: ours.key.digest })
      const request = { organizationId, limit: 1000, key, isImported: true, entry: newEntry() } as const
      assert.deepEqual(await store.apiKeys.insert(request), { outcome: 'already_exists', item: null })
      assert.deepEqual(await store.audit.list(organizationId, { subjectId: key.id }, 10, null), [])
      assert.equal(await store.apiKeys.get(organizationId, key.id), null)
    }
    const admission = await ours.store.apiKeys.admit(requestOf(ours.key))
    assert.ok(admission.outcome === 'admitted', admission.outcome)
    assert.equal(admission.caller.organizationId, ours.id)
  })
}

function testImports(harness: StoreHarness): void {
  harness.test('an imported key that is inserted again with the same id is the same key', async () => {
    const tenant = await createTenant(harness)
    const key = newKey({ prefix: 'old-', lastFour: '7f3a' })
    const insert = (store = tenant.store) =>
      store.apiKeys.insert({
        organizationId: tenant.id,
        limit: 1000,
        key,
        isImported: true,
        entry: newEntry(),
      })
    assert.deepEqual(await insert(), { outcome: 'inserted', item: shown(key) })
    assert.deepEqual(await insert(tenant.secondStore), { outcome: 'inserted', item: shown(key) })
    assert.equal((await tenant.store.apiKeys.admit(requestOf(key))).outcome, 'admitted')
  })

  harness.test(
    'of ten concurrent imports of a digest into two organizations, one at most is active',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const { digest } = newKey()
      const outcomes = await callAtOnce(ours, async (store) => {
        const tenant = store === ours.store ? ours : theirs
        const request = { organizationId: tenant.id, limit: 1000, key: newKey({ digest }), entry: newEntry() }
        return tenant.store.apiKeys.insert({ ...request, isImported: true })
      })
      const inserted = outcomes.filter(({ outcome }) => outcome === 'inserted')
      assert.ok(inserted.length <= 1, `${inserted.length} inserted`)
      const inForce = (await Promise.all([ours, theirs].map(({ id, store }) => store.apiKeys.list(id))))
        .flat()
        .filter(({ id, revokedAt }) => ![ours.key.id, theirs.key.id].includes(id) && revokedAt === null)
      assert.equal(inForce.length, inserted.length)
    },
  )
}

function testRevoke(harness: StoreHarness): void {
  harness.test(
    'apiKeys.update() returns the renamed key, revoked or not, and changes nothing else',
    async () => {
      const tenant = await createTenant(harness)
      const other = await tenant.insertKey()
      const { id: organizationId, store } = tenant
      const update = (name: string) =>
        store.apiKeys.update({ organizationId, keyId: tenant.key.id, name, entry: newEntry() })
      const name = 'O\'Brien "🏺" \n 株式会社'
      assert.deepEqual(await update(name), { ...shown(tenant.key), name })
      assert.deepEqual(await update(name), { ...shown(tenant.key), name })
      const revoked = await store.apiKeys.revoke({
        organizationId,
        keyId: tenant.key.id,
        entry: newEntry(),
      })
      assert.deepEqual(await update('Once more'), { ...revoked, name: 'Once more' })
      assert.deepEqual(await store.apiKeys.get(organizationId, other.id), shown(other))
    },
  )

  harness.test(
    'apiKeys.update() changes nothing if the current name is different, and one of ten concurrent calls succeeds',
    async () => {
      const tenant = await createTenant(harness)
      const { id: organizationId, key } = tenant
      const [keyId, replaces] = [key.id, key.name]
      const wrong = { organizationId, keyId, name: 'New', entry: newEntry(), replaces: `${replaces}?` }
      assert.deepEqual(await tenant.store.apiKeys.update(wrong), shown(key))
      let count = 0
      const names: string[] = []
      const keys = await callAtOnce(tenant, ({ apiKeys }) => {
        const name = `${++count}`
        names.push(name)
        return apiKeys.update({ organizationId, keyId, name, entry: newEntry(), replaces })
      })
      assert.equal(keys.filter((one, index) => one?.name === names[index]).length, 1)
    },
  )

  harness.test(
    'apiKeys.revoke() returns the key with the time of its revocation by the store’s clock',
    async () => {
      const tenant = await createTenant(harness)
      const revoked = await tenant.store.apiKeys.revoke({
        organizationId: tenant.id,
        keyId: tenant.key.id,
        entry: newEntry(),
      })
      assert.match(revoked?.revokedAt ?? '', TIMESTAMP)
      assert.deepEqual(revoked, { ...shown(tenant.key), revokedAt: revoked?.revokedAt })
      assert.deepEqual(await tenant.store.apiKeys.list(tenant.id), [revoked])
    },
  )

  harness.test('apiKeys.revoke() of a revoked key keeps the earlier time', async () => {
    const tenant = await createTenant(harness)
    const first = await tenant.store.apiKeys.revoke({
      organizationId: tenant.id,
      keyId: tenant.key.id,
      entry: newEntry(),
    })
    await setTimeout(20)
    assert.deepEqual(
      await tenant.secondStore.apiKeys.revoke({
        organizationId: tenant.id,
        keyId: tenant.key.id,
        entry: newEntry(),
      }),
      first,
    )
  })

  harness.test('apiKeys.revoke() of an unknown id returns null and changes no key', async () => {
    const tenant = await createTenant(harness)
    assert.equal(
      await tenant.store.apiKeys.revoke({ organizationId: tenant.id, keyId: ids('key'), entry: newEntry() }),
      null,
    )
    assert.deepEqual(await tenant.store.apiKeys.list(tenant.id), [shown(tenant.key)])
  })
}

function testLastUse(harness: StoreHarness): void {
  async function isStale(tenant: Tenant): Promise<boolean> {
    const admission = await tenant.store.apiKeys.admit(requestOf(tenant.key))
    assert.ok(admission.outcome === 'admitted', admission.outcome)
    return admission.lastUseIsStale
  }

  harness.test('apiKeys.markUsed() records the last use once a minute at most', async () => {
    const tenant = await createTenant(harness)
    assert.equal(await isStale(tenant), true, 'never used')
    await tenant.store.apiKeys.markUsed(tenant.id, tenant.key.id)
    const { lastUsedAt: first } = await find(tenant, tenant.key.id)
    assert.match(first ?? '', TIMESTAMP)
    assert.equal(await isStale(tenant), false, 'just used')

    await setTimeout(20)
    await tenant.secondStore.apiKeys.markUsed(tenant.id, tenant.key.id)
    assert.equal((await find(tenant, tenant.key.id)).lastUsedAt, first, 'within the minute')

    await tenant.letTimePass(60_001)
    const { lastUsedAt: aged } = await find(tenant, tenant.key.id)
    assert.equal(await isStale(tenant), true, 'a minute later')
    await tenant.store.apiKeys.markUsed(tenant.id, tenant.key.id)
    const { lastUsedAt: second } = await find(tenant, tenant.key.id)
    assert.ok(Date.parse(second ?? '') >= Date.parse(aged ?? '') + 60_000, `${second} after ${aged}`)
    assert.equal(await isStale(tenant), false)
  })

  harness.test('apiKeys.markUsed() of an unknown id does nothing', async () => {
    const tenant = await createTenant(harness)
    await tenant.store.apiKeys.markUsed(tenant.id, ids('key'))
    assert.deepEqual(await tenant.store.apiKeys.list(tenant.id), [shown(tenant.key)])
  })
}

function testOrganizationLimit(harness: StoreHarness): void {
  harness.test('apiKeys.getOrganizationLimit() returns the limit that was set last, or null', async () => {
    const tenant = await createTenant(harness)
    const { apiKeys } = tenant.store
    assert.equal(await apiKeys.getOrganizationLimit(tenant.id), null)
    for (const rateLimit of [{ perSecond: 0.5, burst: 3 }, { perSecond: 20, burst: 7 }, null]) {
      await apiKeys.limitOrganization({ organizationId: tenant.id, rateLimit, entry: newEntry() })
      assert.deepEqual(await tenant.secondStore.apiKeys.getOrganizationLimit(tenant.id), rateLimit)
    }
  })

  harness.test(
    'apiKeys.readResets() returns the time until the bucket of each key is full, by key',
    async () => {
      const [tenant, other] = [await createTenant(harness), await createTenant(harness)]
      const used = await tenant.insertKey({ rateLimit: { perSecond: 0.01, burst: 10 } })
      await tenant.insertKey()
      assert.deepEqual(await tenant.store.apiKeys.readResets(tenant.id), {})
      const limit = { perSecond: 0.01, burst: 10 }
      for (let request = 0; request < 2; request++)
        await tenant.store.apiKeys.admit(requestOf(used, { rateLimits: { key: limit, organization: limit } }))
      const resets = await tenant.secondStore.apiKeys.readResets(tenant.id)
      assert.deepEqual(Object.keys(resets), [used.id])
      // Two tokens of 100 s each, and the test itself takes less than a minute.
      assert.ok(
        (resets[used.id] ?? 0) > 140_000 && (resets[used.id] ?? 0) <= 200_000,
        `${resets[used.id]} ms`,
      )
      assert.deepEqual(await other.store.apiKeys.readResets(other.id), {})
    },
  )

  harness.test('apiKeys.getOrganizationLimit() returns nothing of another organization', async () => {
    const [tenant, other] = [await createTenant(harness), await createTenant(harness)]
    const rateLimit = { perSecond: 1, burst: 1 }
    await other.store.apiKeys.limitOrganization({ organizationId: other.id, rateLimit, entry: newEntry() })
    assert.equal(await tenant.store.apiKeys.getOrganizationLimit(tenant.id), null)
  })
}
