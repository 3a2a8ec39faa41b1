import assert from 'node:assert/strict'
import { newEntry } from './audit-entry.ts'
import { ODD, OFTEN, testAuditLists } from './audit-lists.ts'
import {
  claimOne,
  createPublisher,
  deliveriesOf,
  getDelivery,
  storeTime,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { type Call, changes, entriesOf, settingsOf } from './settings-changes.ts'
import { callAtOnce, createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that each change is recorded with its actor and time. */
export function testAudit(harness: StoreHarness): void {
  testEntries(harness)
  testBetween(harness)
  testRecoveries(harness)
  testAuditLists(harness)
  testIsolation(harness)
}

function testEntries(harness: StoreHarness): void {
  for (const [name, prepare] of Object.entries(changes)) {
    harness.test(
      `${name} writes a single entry, even if sent again, and returns the same result`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        const { change, subjectId = ids('dlv'), added } = await prepare(tenant)
        const entry = newEntry({ actor: ODD, subjectId, details: { odd: [ODD, null, 1.5, {}] } })
        const answer = await change(tenant.store, entry)
        const after = await settingsOf(tenant)
        assert.deepEqual(await change(tenant.secondStore, entry), answer)
        assert.deepEqual(await settingsOf(tenant), after)

        const [left, ...others] = await entriesOf(tenant, entry.subjectId)
        assert.match(left?.at ?? '', TIMESTAMP)
        assert.ok(
          Math.abs((await storeTime(tenant)) - Date.parse(left?.at ?? '')) < 10_000,
          `an entry at ${left?.at}`,
        )
        assert.deepEqual(left, { ...entry, at: left?.at, details: { ...entry.details, ...added } })
        assert.deepEqual(others, [])
      },
    )

    harness.test(`${name} writes no entry without a change`, async (t) => {
      const tenant = await createPublisher(harness, t)
      const { vain } = await prepare(tenant)
      const [settings, entries] = [await settingsOf(tenant), await entriesOf(tenant)]
      await vain(tenant.store, newEntry())
      assert.deepEqual(await settingsOf(tenant), settings)
      assert.deepEqual(await entriesOf(tenant), entries)
    })

    // A new record has one creator, who only repeats the insertion if its result was lost.
    if (name.endsWith('.insert()')) continue
    harness.test(
      `${name} called ten times concurrently by two processes writes the entry of the call that made the change`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        const { change } = await prepare(tenant)
        const subjectId = ids('we')
        await callAtOnce(tenant, (store) => change(store, newEntry({ subjectId })))
        assert.equal((await entriesOf(tenant, subjectId)).length, 1)
      },
    )
  }

  harness.test('audit.recordTest() records an entry once', async () => {
    const tenant = await createTenant(harness)
    const entry = newTest({ actor: ODD, details: { type: 'client.created' } })
    await tenant.store.audit.recordTest(tenant.id, entry, OFTEN)
    await tenant.secondStore.audit.recordTest(tenant.id, { ...entry, actor: 'another' }, OFTEN)
    const [left, ...others] = await entriesOf(tenant, entry.subjectId)
    assert.deepEqual([left, others], [{ ...entry, at: left?.at }, []])
  })

  harness.test('audit.recordTest() limits the number of tests in any period of the window', async () => {
    const [tenant, other] = [await createTenant(harness), await createTenant(harness)]
    const limit = { max: 4, windowMs: 60_000 }
    const isRecorded = () => tenant.store.audit.recordTest(tenant.id, newTest(), limit)
    assert.equal(await isRecorded(), true)
    await tenant.letTimePass(50_000)
    const recorded = await callAtOnce(tenant, (store) => store.audit.recordTest(tenant.id, newTest(), limit))
    assert.equal(recorded.filter((each) => each).length, 3)
    assert.equal(await other.store.audit.recordTest(other.id, newTest(), limit), true)
    // Still within a minute of the three, although the first is a minute old and part of the limit is available again.
    await tenant.letTimePass(11_000)
    assert.equal(await isRecorded(), true)
    assert.equal(await isRecorded(), false)
    await tenant.letTimePass(40_000)
    assert.equal(await isRecorded(), false)
    await tenant.letTimePass(10_000)
    assert.deepEqual(
      [await isRecorded(), await isRecorded(), await isRecorded(), await isRecorded()],
      [true, true, true, false],
    )
  })

  harness.test(
    'audit.recordTest() only counts tests, and ignores an entry that is already recorded',
    async () => {
      const tenant = await createTenant(harness)
      const limit = { max: 1, windowMs: 60_000 }
      const [{ store }, entry] = [tenant, newTest()]
      await tenant.insertEndpoint()
      assert.equal(await store.audit.recordTest(tenant.id, entry, limit), true)
      assert.equal(await tenant.secondStore.audit.recordTest(tenant.id, entry, limit), true)
      assert.equal(await store.audit.recordTest(tenant.id, newTest(), limit), false)
    },
  )
}

function newTest(changes: Parameters<typeof newEntry>[0] = {}) {
  return newEntry({ action: 'endpoint.test_sent', subjectId: ids('we'), ...changes })
}

/** A method whose result was lost, and a call of the same kind made before it is repeated. */
const between: Readonly<
  Record<string, (tenant: Tenant) => Promise<{ readonly lost: Call; readonly other: Call }>>
> = {
  async 'apiKeys.update()'({ id, key }) {
    const rename =
      (name: string): Call =>
      ({ apiKeys }, entry) =>
        apiKeys.update({ organizationId: id, keyId: key.id, name, entry })
    return { lost: rename('Lost'), other: rename('Other') }
  },
  async 'endpoints.setState()'({ id, insertEndpoint }) {
    const endpoint = await insertEndpoint()
    return {
      lost: ({ endpoints }, entry) =>
        endpoints.setState({
          organizationId: id,
          endpointId: endpoint.id,
          state: 'paused',
          from: ['enabled'],
          entry,
        }),
      other: ({ endpoints }, entry) =>
        endpoints.setState({
          organizationId: id,
          endpointId: endpoint.id,
          state: 'enabled',
          from: ['paused'],
          entry,
        }),
    }
  },
  async 'endpoints.update()'({ id, insertEndpoint }) {
    const endpoint = await insertEndpoint()
    return {
      lost: ({ endpoints }, entry) =>
        endpoints.update({
          organizationId: id,
          endpointId: endpoint.id,
          changes: { url: 'https://lost.test/' },
          entry,
        }),
      other: ({ endpoints }, entry) =>
        endpoints.update({
          organizationId: id,
          endpointId: endpoint.id,
          changes: { url: 'https://other.test/' },
          entry,
        }),
    }
  },
  async 'endpoints.rotateSecret()'({ id, insertEndpoint }) {
    const endpoint = await insertEndpoint()
    return {
      lost: ({ endpoints }, entry) =>
        endpoints.rotateSecret({
          organizationId: id,
          changeId: ids('chg'),
          endpointId: endpoint.id,
          sealedSecret: 'sealed lost',
          overlapMs: 60_000,
          entry,
        }),
      other: ({ endpoints }, entry) =>
        endpoints.rotateSecret({
          organizationId: id,
          changeId: ids('chg'),
          endpointId: endpoint.id,
          sealedSecret: 'sealed other',
          overlapMs: 90_000,
          entry,
        }),
    }
  },
  async 'apiKeys.limitOrganization()'({ id }) {
    return {
      lost: ({ apiKeys }, entry) =>
        apiKeys.limitOrganization({ organizationId: id, rateLimit: { perSecond: 1, burst: 1 }, entry }),
      other: ({ apiKeys }, entry) =>
        apiKeys.limitOrganization({ organizationId: id, rateLimit: { perSecond: 2, burst: 2 }, entry }),
    }
  },
  async 'apiKeys.limitOrganization() of null'({ id, store }) {
    await store.apiKeys.limitOrganization({
      organizationId: id,
      rateLimit: { perSecond: 1, burst: 1 },
      entry: newEntry(),
    })
    return {
      lost: ({ apiKeys }, entry) => apiKeys.limitOrganization({ organizationId: id, rateLimit: null, entry }),
      other: ({ apiKeys }, entry) =>
        apiKeys.limitOrganization({ organizationId: id, rateLimit: { perSecond: 2, burst: 2 }, entry }),
    }
  },
}

function testBetween(harness: StoreHarness): void {
  for (const [name, prepare] of Object.entries(between)) {
    harness.test(
      `${name} repeated after its result was lost does not undo a change made in between`,
      async (t) => {
        const tenant = await createPublisher(harness, t)
        const { lost, other } = await prepare(tenant)
        const entry = newEntry()
        await lost(tenant.store, entry)
        await other(tenant.secondStore, newEntry())
        const after = [await settingsOf(tenant), await hiddenOf(tenant)]
        await lost(tenant.store, entry)
        assert.deepEqual([await settingsOf(tenant), await hiddenOf(tenant)], after)
      },
    )
  }
}

/**
 * Returns what lists don't show, which are the endpoints' signing secrets, the current one first, and the
 * organization's rate limit.
 */
async function hiddenOf({ id, key, store }: Tenant): Promise<unknown> {
  const endpoints = await store.endpoints.list(id)
  const targets = await Promise.all(endpoints.map((endpoint) => store.endpoints.getTarget(id, endpoint.id)))
  const unlimited = { perSecond: 1000, burst: 1000 }
  const rateLimits = { key: unlimited, organization: unlimited }
  const admission = await store.apiKeys.admit({ keyDigest: key.digest, scope: 'clients:read', rateLimits })
  assert.ok('rateLimit' in admission, admission.outcome)
  return [targets.map((target) => target?.sealedSecrets), admission.rateLimit?.organization.burst]
}

function testRecoveries(harness: StoreHarness): void {
  /** Delivers a number of events and returns the ids of their deliveries. */
  async function deliver(tenant: Tenant, events: number): Promise<string[]> {
    await tenant.insertEndpoint()
    for (let event = 0; event < events; event++) {
      await tenant.publish()
      await writeResults(tenant, [success(await claimOne(tenant))])
    }
    return (await deliveriesOf(tenant)).map(({ id }) => id)
  }

  harness.test(
    'deliveries.recover() called several times with the same entry adds up the counts in it',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const [one = '', two = '', three = ''] = await deliver(tenant, 3)
      const { deliveries } = tenant.store
      const entry = newEntry({
        action: 'deliveries.recovered',
        subjectId: tenant.id,
        details: { filter: {} },
      })
      await deliveries.recover({ organizationId: tenant.id, ids: [one], filter: {}, limit: 10, entry })
      const [first] = await entriesOf(tenant, tenant.id)
      assert.deepEqual(
        (
          await deliveries.recover({
            organizationId: tenant.id,
            ids: [one, two, three],
            filter: {},
            limit: 10,
            entry,
          })
        ).toSorted(),
        [two, three].toSorted(),
      )
      await deliveries.recover({
        organizationId: tenant.id,
        ids: [one, two, three],
        filter: {},
        limit: 10,
        entry,
      })
      const expected = { ...entry, at: first?.at, details: { filter: {}, recovered: 3 } }
      assert.deepEqual(await entriesOf(tenant, tenant.id), [expected])
    },
  )

  harness.test(
    'deliveries.recover() does nothing for a delivery that the entry already names, whatever its state',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const [id = ''] = await deliver(tenant, 1)
      const entry = newEntry({ action: 'delivery.redelivered', subjectId: id })
      await tenant.store.deliveries.recover({
        organizationId: tenant.id,
        ids: [id],
        filter: {},
        limit: 1,
        entry,
      })
      await writeResults(tenant, [success(await claimOne(tenant))])
      const before = [await getDelivery(tenant, id), await entriesOf(tenant)]
      assert.deepEqual(
        await tenant.secondStore.deliveries.recover({
          organizationId: tenant.id,
          ids: [id],
          filter: {},
          limit: 1,
          entry,
        }),
        [id],
      )
      assert.deepEqual([await getDelivery(tenant, id), await entriesOf(tenant)], before)

      const another = newEntry({ subjectId: id })
      assert.deepEqual(
        await tenant.store.deliveries.recover({
          organizationId: tenant.id,
          ids: [id],
          filter: {},
          limit: 1,
          entry: another,
        }),
        [id],
      )
      assert.equal((await getDelivery(tenant, id)).state, 'pending')
    },
  )
}

function testIsolation(harness: StoreHarness): void {
  harness.test(
    'two organizations can have entries with the same id, and each only sees its own',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const entry = newEntry({ subjectId: 'shared' })
      await ours.store.audit.recordTest(ours.id, { ...entry, actor: 'ours' }, OFTEN)
      assert.deepEqual(await entriesOf(theirs, 'shared'), [])
      await theirs.store.audit.recordTest(theirs.id, { ...entry, actor: 'theirs' }, OFTEN)
      for (const [tenant, actor] of [
        [ours, 'ours'],
        [theirs, 'theirs'],
      ] as const) {
        assert.deepEqual(
          (await entriesOf(tenant, 'shared')).map((left) => left.actor),
          [actor],
        )
      }
    },
  )

  for (const name of ['endpoints.remove()', 'deliveries.cancel()', 'deliveries.recover()']) {
    harness.test(
      `${name} is not skipped because another organization has an entry with the same id`,
      async (t) => {
        const [ours, theirs] = [await createPublisher(harness, t), await createPublisher(harness, t)]
        const { change, vain } = (await changes[name]?.(ours)) ?? {}
        const entry = newEntry()
        const unknown = await vain?.(ours.store, newEntry())
        await theirs.store.audit.recordTest(theirs.id, entry, OFTEN)
        assert.deepEqual(await vain?.(ours.store, entry), unknown)
        assert.notDeepEqual(await change?.(ours.store, entry), unknown)
      },
    )
  }
}
