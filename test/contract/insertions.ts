import assert from 'node:assert/strict'
import type { ApiKeyRecord } from '../../lib/access/api-keys.ts'
import type { AuditRecord } from '../../lib/access/audit.ts'
import type { Insertion } from '../../lib/access/insertion.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { newEntry } from './audit-entry.ts'
import { createPublisher, storeTime } from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { entriesOf } from './settings-changes.ts'
import {
  callAtOnce,
  createTenant,
  newEndpoint,
  newKey,
  newSuccessor,
  requestOf,
  type Tenant,
} from './tenant.ts'

/** Tests the outcome of inserting a key or endpoint, and the limits per organization. */
export function testInsertions(harness: StoreHarness): void {
  for (const kind of [keys, endpoints]) {
    testOutcomes(harness, kind)
    testLimits(harness, kind)
  }
  testCountedKeys(harness)
  testCountedEndpoints(harness)
}

/** A kind of record. Each test has an organization with one record of it. */
interface Kind {
  readonly name: string
  /** Creates a new record, optionally with a given id. */
  make(id?: string): NewRecord
  list(store: BusinessApiStore, organizationId: string): Promise<readonly { readonly id: string }[]>
}

interface NewRecord {
  readonly id: string
  insert(
    store: BusinessApiStore,
    organizationId: string,
    limit: number,
    entry?: AuditRecord,
  ): Promise<Insertion<{ readonly id: string }>>
}

const keys: Kind = {
  name: 'apiKeys.insert()',
  make(id) {
    const key = newKey(id === undefined ? {} : { id })
    return {
      id: key.id,
      insert: ({ apiKeys }, organizationId, limit, entry = newEntry()) =>
        apiKeys.insert({ organizationId, key, limit, entry }),
    }
  },
  list: ({ apiKeys }, organizationId) => apiKeys.list(organizationId),
}

const endpoints: Kind = {
  name: 'endpoints.insert()',
  make(id) {
    const endpoint = newEndpoint({ ...(id && { id }), sealedSecret: `sealed ${Math.random()}` })
    return {
      id: endpoint.id,
      insert: (store, organizationId, limit, entry = newEntry()) =>
        store.endpoints.insert({ organizationId, endpoint, limit, entry }),
    }
  },
  list: (store, organizationId) => store.endpoints.list(organizationId),
}

/** Creates an organization with one key and one endpoint. */
async function setUp(harness: StoreHarness, t: ContractTest): Promise<Tenant> {
  const tenant = await createPublisher(harness, t)
  await tenant.insertEndpoint()
  return tenant
}

function testOutcomes(harness: StoreHarness, { name, make, list }: Kind): void {
  harness.test(`${name} returns the inserted record, even if sent again after a lost result`, async (t) => {
    const tenant = await setUp(harness, t)
    const record = make()
    const entry = newEntry()
    const inserted = await record.insert(tenant.store, tenant.id, 10, entry)
    const [shown] = await list(tenant.store, tenant.id)
    assert.deepEqual(inserted, { outcome: 'inserted', item: shown })
    assert.equal(shown?.id, record.id)
    assert.deepEqual(await record.insert(tenant.secondStore, tenant.id, 10, entry), inserted)
    assert.equal((await entriesOf(tenant, entry.subjectId)).filter(({ id }) => id === entry.id).length, 1)
  })

  harness.test(
    `${name} of a used id returns the record with that id, changes nothing and writes no entry`,
    async (t) => {
      const tenant = await setUp(harness, t)
      const first = make()
      const inserted = await first.insert(tenant.store, tenant.id, 10)
      assert.ok(inserted.outcome === 'inserted', inserted.outcome)
      const before = [await list(tenant.store, tenant.id), await entriesOf(tenant)]
      const another = await make(first.id).insert(tenant.secondStore, tenant.id, 10)
      assert.deepEqual(another, { outcome: 'already_exists', item: inserted.item })
      assert.deepEqual([await list(tenant.store, tenant.id), await entriesOf(tenant)], before)
    },
  )

  harness.test(
    `${name} of ten records with one id concurrently in two processes inserts one and only reports it to its creator`,
    async (t) => {
      const tenant = await setUp(harness, t)
      const { id } = make()
      const outcomes = await callAtOnce(tenant, (store) => make(id).insert(store, tenant.id, 100))
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'inserted').length, 1)
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'already_exists').length, 9)
      const [item] = await list(tenant.store, tenant.id)
      for (const outcome of outcomes) assert.deepEqual('item' in outcome && outcome.item, item)
    },
  )

  harness.test(`${name} of an id used by another organization inserts a new record`, async (t) => {
    const [ours, theirs] = [await setUp(harness, t), await setUp(harness, t)]
    const { id } = make()
    const outcomes = [
      await make(id).insert(ours.store, ours.id, 10),
      await make(id).insert(theirs.store, theirs.id, 10),
    ]
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      ['inserted', 'inserted'],
    )
  })
}

function testLimits(harness: StoreHarness, { name, make, list }: Kind): void {
  harness.test(
    `${name} inserts up to the limit, and keeps existing records if the limit is lowered`,
    async (t) => {
      const tenant = await setUp(harness, t)
      const [second, third] = [make(), make()]
      const entry = newEntry()
      assert.equal((await second.insert(tenant.store, tenant.id, 2, entry)).outcome, 'inserted')
      const before = [await list(tenant.store, tenant.id), await entriesOf(tenant)]
      for (const limit of [2, 1]) {
        assert.deepEqual(await third.insert(tenant.store, tenant.id, limit), { outcome: 'limit_reached' })
      }
      assert.deepEqual([await list(tenant.store, tenant.id), await entriesOf(tenant)], before)
      assert.equal((await second.insert(tenant.store, tenant.id, 1, entry)).outcome, 'inserted', 'sent again')
      assert.equal((await make(second.id).insert(tenant.store, tenant.id, 1)).outcome, 'already_exists')
      assert.equal((await third.insert(tenant.store, tenant.id, 3)).outcome, 'inserted')
    },
  )

  harness.test(
    `${name} called 50 times concurrently by two processes inserts exactly up to the limit`,
    async (t) => {
      const tenant = await setUp(harness, t)
      const other = await setUp(harness, t)
      await callAtOnce(tenant, (store) => list(store, tenant.id))
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, index) => {
          const store = index % 2 === 0 ? tenant.store : tenant.secondStore
          return make().insert(store, tenant.id, 11)
        }),
      )
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'inserted').length, 10)
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'limit_reached').length, 40)
      assert.equal((await list(tenant.store, tenant.id)).length, 11)
      assert.equal((await make().insert(other.store, other.id, 2)).outcome, 'inserted')
    },
  )
}

function testCountedKeys(harness: StoreHarness): void {
  async function canInsert({ store, id }: Tenant, limit: number): Promise<boolean> {
    return (await keys.make().insert(store, id, limit)).outcome === 'inserted'
  }

  harness.test(
    'apiKeys.insert() only counts active keys, which are neither revoked nor expired',
    async () => {
      const tenant = await createTenant(harness)
      const { id: organizationId, store, key } = tenant
      const inAnHour = new Date((await storeTime(tenant)) + 3_600_000).toISOString()
      await tenant.insertKey({ expiresAt: inAnHour })
      await tenant.insertKey({ expiresAt: '2020-02-29T12:00:00.010Z' })
      assert.equal(await canInsert(tenant, 2), false)
      await store.apiKeys.revoke({ organizationId, keyId: key.id, entry: newEntry() })
      assert.equal(await canInsert(tenant, 2), true)
      assert.equal(await canInsert(tenant, 2), false)
      await tenant.letTimePass(7_200_000)
      assert.equal(await canInsert(tenant, 2), true)
    },
  )

  const rotate = (
    { id: organizationId, store }: Tenant,
    { id: keyId }: Pick<ApiKeyRecord, 'id'>,
    changes: { readonly overlapMs: number; readonly limit: number },
    successor = newSuccessor(),
    entry = newEntry(),
  ) => store.apiKeys.rotate({ organizationId, keyId, successor, entry, ...changes })

  harness.test(
    'apiKeys.rotate() with an overlap is rejected at the limit and changes nothing, while no key is added without an overlap',
    async () => {
      const tenant = await createTenant(harness)
      const { key, store, id } = tenant
      const before = [await store.apiKeys.list(id), await entriesOf(tenant)]
      const refused = await rotate(tenant, key, { overlapMs: 60_000, limit: 1 })
      const [shown] = await store.apiKeys.list(id)
      assert.deepEqual(refused, { outcome: 'limit_reached', key: null, previous: shown })
      assert.deepEqual([await store.apiKeys.list(id), await entriesOf(tenant)], before)
      const [successor, entry] = [newSuccessor(), newEntry()]
      const rotated = await rotate(tenant, key, { overlapMs: 60_000, limit: 2 }, successor, entry)
      assert.equal(rotated?.outcome, 'rotated')
      const again = await rotate(tenant, key, { overlapMs: 60_000, limit: 2 }, successor, entry)
      assert.deepEqual(again, rotated, 'sent again after a lost answer')
      assert.equal((await rotate(tenant, successor, { overlapMs: 0, limit: 1 }))?.outcome, 'rotated')
    },
  )

  harness.test(
    'apiKeys.rotate() called for 20 keys concurrently by two processes respects the limit',
    async () => {
      const tenant = await createTenant(harness)
      const others = await Promise.all(Array.from({ length: 19 }, () => tenant.insertKey()))
      const outcomes = await Promise.all(
        [tenant.key, ...others].map((key, index) => {
          const store = index % 2 === 0 ? tenant.store : tenant.secondStore
          return rotate({ ...tenant, store }, key, { overlapMs: 60_000, limit: 25 })
        }),
      )
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'rotated').length, 5)
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'limit_reached').length, 15)
    },
  )

  harness.test(
    'apiKeys.rotate() to a used id returns the key with that id, and does not change the key to rotate',
    async () => {
      const tenant = await createTenant(harness)
      const { id, store, key } = tenant
      const other = await tenant.insertKey()
      const before = [await store.apiKeys.list(id), await entriesOf(tenant)]
      const [shownOther, shown] = await store.apiKeys.list(id)
      const outcome = await rotate(tenant, key, { overlapMs: 0, limit: 10 }, newSuccessor({ id: other.id }))
      assert.deepEqual(outcome, { outcome: 'already_exists', key: shownOther, previous: shown })
      assert.deepEqual([await store.apiKeys.list(id), await entriesOf(tenant)], before)
      assert.equal((await store.apiKeys.admit(requestOf(key))).outcome, 'admitted')
    },
  )

  harness.test(
    'apiKeys.rotate() ten times concurrently to one id in two processes rotates once and reports it to one caller',
    async () => {
      const tenant = await createTenant(harness)
      const { id } = newSuccessor()
      const outcomes = await callAtOnce(tenant, (store) =>
        rotate({ ...tenant, store }, tenant.key, { overlapMs: 0, limit: 10 }, newSuccessor({ id })),
      )
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'rotated').length, 1)
      assert.equal(outcomes.filter((outcome) => outcome?.outcome === 'already_exists').length, 9)
      for (const outcome of outcomes) assert.equal(outcome?.key?.id, id)
    },
  )
}

function testCountedEndpoints(harness: StoreHarness): void {
  harness.test(
    'endpoints.insert() counts paused and disabled endpoints, but not removed ones, whose id stays in use',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: organizationId, store } = tenant
      const [paused, disabled] = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
      const from = ['enabled'] as const
      for (const [endpointId, state] of [
        [paused.id, 'paused'] as const,
        [disabled.id, 'disabled'] as const,
      ]) {
        await store.endpoints.setState({ organizationId, endpointId, state, from, entry: newEntry() })
      }
      const insert = async (id?: string) => endpoints.make(id).insert(store, organizationId, 2)
      assert.equal((await insert()).outcome, 'limit_reached')
      await store.endpoints.remove({ organizationId, endpointId: paused.id, entry: newEntry() })
      assert.deepEqual(await insert(paused.id), { outcome: 'already_exists', item: null })
      assert.equal((await insert()).outcome, 'inserted')
    },
  )
}
