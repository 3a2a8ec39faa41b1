import assert from 'node:assert/strict'
import { newLead } from '../../lib/resources/leads.ts'
import { newEntry } from './audit-entry.ts'
import type { StoreHarness } from './harness.ts'
import { idsOf, itemsOf, type Kind, kinds } from './kinds.ts'
import { claim, createTenant, events, ids, newKey, requestOf, type Tenant } from './tenant.ts'

const LIMITS = { key: { perSecond: 0.01, burst: 2 }, organization: { perSecond: 0.01, burst: 2 } }

/**
 * Tests that an id of another organization is treated as unknown, and that organizations can't access
 * each other's data.
 */
export function testIsolation(harness: StoreHarness): void {
  for (const kind of Object.values(kinds)) testSameIds(harness, kind)
  testIds(harness)
  testShared(harness)
}

async function createTwo(harness: StoreHarness): Promise<readonly [Tenant, Tenant]> {
  return [await createTenant(harness), await createTenant(harness)]
}

/** Returns everything that an organization can read. */
async function stateOf(tenant: Tenant): Promise<object> {
  const lists = Object.values(kinds).map((kind) => itemsOf(kind, tenant))
  return {
    lists: await Promise.all(lists),
    keys: await tenant.store.apiKeys.list(tenant.id),
    events: await tenant.events(),
  }
}

function testSameIds(harness: StoreHarness, kind: Kind): void {
  harness.test(
    `two organizations can have the same ${kind.name}, event and idempotency key without seeing each other`,
    async () => {
      const [ours, theirs] = await createTwo(harness)
      const [item, unshared] = kind.examples
      assert.ok(item && unshared, 'item or unshared is missing')
      const [published, idempotency] = [events(2), claim()]
      const attempt = { item, events: published, idempotency }
      assert.deepEqual((await kind.create(ours, attempt)).outcome, { outcome: 'created' })
      assert.deepEqual((await kind.create(theirs, attempt)).outcome, { outcome: 'created' })
      await kind.create(theirs, { item: unshared, events: events(1) })

      assert.deepEqual(await itemsOf(kind, ours), [item])
      assert.deepEqual(await itemsOf(kind, theirs), [unshared, item])
      assert.deepEqual(await ours.events(), published)
      assert.equal((await theirs.events()).length, 3)
    },
  )
}

function testIds(harness: StoreHarness): void {
  harness.test(
    'leads.create() returns the same for a business of another organization as for an unknown one',
    async () => {
      const [ours, theirs] = await createTwo(harness)
      const foreign = await theirs.insertBusiness()
      const before = [await stateOf(ours), await stateOf(theirs)]
      const answers = []
      for (const businessId of [foreign, ids('biz')]) {
        const { record, events } = newLead({ businessId }, { ids, now: Date.now() })
        const idempotency = claim()
        answers.push(await ours.store.leads.create({ organizationId: ours.id, record, events, idempotency }))
      }
      assert.deepEqual(answers[0], answers[1])
      assert.deepEqual([await stateOf(ours), await stateOf(theirs)], before)
    },
  )

  harness.test(
    'apiKeys.update() of a key of another organization returns null and changes nothing',
    async () => {
      const [ours, theirs] = await createTwo(harness)
      const before = await stateOf(theirs)
      for (const keyId of [theirs.key.id, ids('key')]) {
        const change = { organizationId: ours.id, keyId, name: 'Taken', entry: newEntry() }
        assert.equal(await ours.store.apiKeys.update(change), null)
      }
      assert.deepEqual(await stateOf(theirs), before)
    },
  )

  harness.test(
    'apiKeys.revoke() returns the same for a key of another organization as for an unknown one',
    async () => {
      const [ours, theirs] = await createTwo(harness)
      const before = await stateOf(theirs)
      const foreign = await ours.store.apiKeys.revoke({
        organizationId: ours.id,
        keyId: theirs.key.id,
        entry: newEntry(),
      })
      assert.deepEqual(
        foreign,
        await ours.store.apiKeys.revoke({ organizationId: ours.id, keyId: ids('key'), entry: newEntry() }),
      )
      assert.deepEqual(await stateOf(theirs), before)
      assert.equal((await theirs.store.apiKeys.admit(requestOf(theirs.key))).outcome, 'admitted')
    },
  )

  harness.test(
    'apiKeys.markUsed() returns the same for a key of another organization as for an unknown one',
    async () => {
      const [ours, theirs] = await createTwo(harness)
      const before = await stateOf(theirs)
      const foreign = await ours.store.apiKeys.markUsed(ours.id, theirs.key.id)
      assert.deepEqual(foreign, await ours.store.apiKeys.markUsed(ours.id, ids('key')))
      assert.deepEqual(await stateOf(theirs), before)
    },
  )

  harness.test('apiKeys.insert() of an id used by another organization creates a new key', async () => {
    const [ours, theirs] = await createTwo(harness)
    const before = await stateOf(theirs)
    const key = newKey({ id: theirs.key.id })
    await ours.store.apiKeys.insert({ organizationId: ours.id, limit: 1000, key, entry: newEntry() })
    assert.deepEqual(
      (await ours.store.apiKeys.list(ours.id)).map(({ id }) => id),
      [key.id, ours.key.id],
    )
    await ours.store.apiKeys.revoke({ organizationId: ours.id, keyId: key.id, entry: newEntry() })
    assert.deepEqual(await stateOf(theirs), before)
    assert.equal((await theirs.store.apiKeys.admit(requestOf(theirs.key))).outcome, 'admitted')
  })
}

function testShared(harness: StoreHarness): void {
  harness.test(
    'requests of one organization take no token from another, even for a key with the same id',
    async () => {
      const [ours, theirs] = await createTwo(harness)
      const twin = newKey({ id: theirs.key.id })
      await ours.store.apiKeys.insert({ organizationId: ours.id, limit: 1000, key: twin, entry: newEntry() })
      for (const key of [twin, twin, ours.key]) {
        await ours.store.apiKeys.admit(requestOf(key, { rateLimits: LIMITS }))
      }
      const admission = await theirs.store.apiKeys.admit(requestOf(theirs.key, { rateLimits: LIMITS }))
      assert.ok(admission.outcome === 'admitted', admission.outcome)
      assert.equal(admission.rateLimit?.key.remaining, 1)
      assert.equal(admission.rateLimit?.organization.remaining, 1)
    },
  )

  harness.test('the limit of an organization does not apply to another', async () => {
    const [ours, theirs] = await createTwo(harness)
    await ours.store.apiKeys.limitOrganization({
      organizationId: ours.id,
      rateLimit: { perSecond: 0.01, burst: 1 },
      entry: newEntry(),
    })
    const admission = await theirs.store.apiKeys.admit(requestOf(theirs.key, { rateLimits: LIMITS }))
    assert.ok(admission.outcome === 'admitted', admission.outcome)
    assert.equal(admission.rateLimit?.organization.burst, 2)
  })

  harness.test('a key can only read the lists of its own organization', async () => {
    const [ours, theirs] = await createTwo(harness)
    for (const kind of Object.values(kinds)) {
      const mine = await kind.create(ours)
      await kind.create(theirs)
      if (kind !== kinds.clients) assert.deepEqual(await idsOf(kind, ours), [mine.id])
    }
  })
}
