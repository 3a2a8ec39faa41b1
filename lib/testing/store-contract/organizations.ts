import assert from 'node:assert/strict'
import { claim, claimOne, createPublisher, success, writeResults } from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { ids, claim as reservation, type Tenant } from './tenant.ts'

/** Makes an organization with something in every collection, and a delivery that is pending. */
async function createFull(harness: StoreHarness, test: ContractTest): Promise<Tenant> {
  const tenant = await createPublisher(harness, test)
  const { store, id: organizationId } = tenant
  await tenant.insertEndpoint()
  for (const kind of Object.values(kinds)) await kind.create(tenant, { idempotency: reservation() })
  const [invoice] = await store.invoices.list(organizationId, {}, 1, null)
  assert.ok(invoice)
  const payment = { id: ids('pay'), amount: invoice.amountDue, receivedAt: invoice.issueDate }
  const set = { payment, settledStatus: 'paid', unsettledStatus: {}, settledEvents: [] }
  const change = {
    organizationId,
    id: ids('chg'),
    recordId: invoice.id,
    from: null,
    events: [],
    idempotency: null,
  }
  await store.invoices.pay({ ...change, set })
  await tenant.publish()
  return tenant
}

/** Deletes part by part. @returns the sum of the counts */
async function deleteAll({ store, id }: Tenant, limit: number): Promise<number> {
  let sum = 0
  for (;;) {
    const counts = Object.values(await store.organizations.deletePart(id, limit))
    if (counts.length === 0) return sum
    sum += counts.reduce((all, count) => all + count, 0)
  }
}

/** What an organization has, as far as the store shows it. */
async function left({ store, id }: Tenant): Promise<readonly unknown[]> {
  const { businesses, clients, leads, invoices, proposals, projects } = store
  const lists = await Promise.all(
    [businesses, clients, leads, invoices, proposals, projects].map((slice) => slice.list(id, {}, 200, null)),
  )
  const others = await Promise.all([
    store.apiKeys.list(id),
    store.endpoints.list(id),
    store.deliveries.list(id, {}, 200, null),
    store.audit.list(id, {}, 200, null),
    store.eventLog.list(id, {}, 200, null).then(({ events }) => events),
  ])
  return [...lists, ...others].flat()
}

/** Registers the tests of the deletion of organizations. */
export function testOrganizations(harness: StoreHarness): void {
  for (const limit of [1, 7, 1000]) {
    harness.test(
      `organizations.deletePart() by parts of ${limit} leaves nothing, and others untouched`,
      async (test) => {
        const [ours, theirs] = [await createFull(harness, test), await createFull(harness, test)]
        const before = await left(theirs)
        assert.ok((await deleteAll(ours, limit)) > 10)
        assert.deepEqual(await left(ours), [])
        assert.deepEqual(await ours.events(), [])
        assert.deepEqual(await left(theirs), before)
      },
    )
  }

  harness.test('organizations.deletePart() ends the keys with the first part', async (test) => {
    const tenant = await createFull(harness, test)
    const { store, id, key } = tenant
    await store.organizations.deletePart(id, 1)
    const request = { keyDigest: key.digest, scope: 'clients:read', rateLimits: null } as const
    const { admission } = await store.clients.admitAndList(request, { limit: 1 })
    assert.notEqual(admission.outcome, 'admitted')
    assert.deepEqual((await claim(tenant)).deliveries, [])
  })

  harness.test('organizations.deletePart() drops the result of a delivery in flight', async (test) => {
    const tenant = await createFull(harness, test)
    const delivery = await claimOne(tenant)
    await deleteAll(tenant, 1000)
    await writeResults(tenant, [success(delivery)])
    assert.deepEqual(await tenant.store.organizations.deletePart(tenant.id, 1000), {})
    assert.deepEqual(await left(tenant), [])
  })

  harness.test('organizations.deletePart() lets an organization of the same id begin anew', async (test) => {
    const tenant = await createFull(harness, test)
    await deleteAll(tenant, 1000)
    await kinds.clients.create(tenant)
    assert.equal((await tenant.store.clients.list(tenant.id, {}, 200, null)).length, 1)
  })
}
