import assert from 'node:assert/strict'
import type { PartResult } from '../../lib/access/organizations.ts'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { type CreateBusinessInput, CreateBusinessInputSchema } from '../../lib/resources/businesses.ts'
import { type Client, newClient } from '../../lib/resources/clients.ts'
import { newLead } from '../../lib/resources/leads.ts'
import type { Creation } from '../../lib/writes/creation.ts'
import { businessOf } from '../_business.ts'
import { claim, claimOne, createPublisher, failure, success, writeResults } from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { ids, claim as reservation, type Tenant } from './tenant.ts'

/** Creates an organization with something in all collections and a pending delivery. */
async function createFull(harness: StoreHarness, test: ContractTest): Promise<Tenant> {
  const tenant = await createPublisher(harness, test)
  const { store, id: organizationId } = tenant
  await tenant.insertEndpoint()
  for (const kind of Object.values(kinds)) await kind.create(tenant, { idempotency: reservation() })
  const [invoice] = await store.invoices.list(organizationId, {}, 1, null)
  assert.ok(invoice, 'no invoice')
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

/** Deletes an organization in parts, in one pass. @returns the sum of the counts */
async function deleteAll({ store, id: organizationId }: Tenant, limit: number): Promise<number> {
  let sum = 0
  let after: string | null = null
  do {
    const part: PartResult = await store.organizations.deletePart({ organizationId, limit, after })
    sum += Object.values(part.counts).reduce((all, count) => all + count, 0)
    after = part.next
  } while (after !== null)
  return sum
}

/** Returns what is left of an organization, as far as the store shows it. */
async function left({ store, id }: Tenant): Promise<readonly unknown[]> {
  const lists = await Promise.all(
    (['businesses', ...RESOURCES] as const).map((resource) => store[resource].list(id, {}, 200, null)),
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

/** Defines the tests for deleting organizations and personal data. */
export function testOrganizations(harness: StoreHarness): void {
  for (const limit of [1, 7, 1000]) {
    harness.test(
      `organizations.deletePart() in parts of ${limit} deletes everything and does not affect others`,
      async (test) => {
        const [ours, theirs] = [await createFull(harness, test), await createFull(harness, test)]
        const before = await left(theirs)
        assert.ok((await deleteAll(ours, limit)) > 10, 'ten rows or fewer were deleted')
        assert.deepEqual(await left(ours), [])
        assert.deepEqual(await ours.events(), [])
        assert.deepEqual(await left(theirs), before)
      },
    )
  }

  harness.test('organizations.deletePart() ends the keys with the first part', async (test) => {
    const tenant = await createFull(harness, test)
    const { store, id, key } = tenant
    await store.organizations.deletePart({ organizationId: id, limit: 1, after: null })
    const request = { keyDigest: key.digest, scope: 'clients:read', rateLimits: null } as const
    const { admission } = await store.clients.admitAndList(request, { limit: 1 })
    assert.notEqual(admission.outcome, 'admitted')
    assert.deepEqual((await claim(tenant)).deliveries, [])
  })

  harness.test(
    'organizations.deletePart() drops the result of a delivery that is being sent',
    async (test) => {
      const tenant = await createFull(harness, test)
      const delivery = await claimOne(tenant)
      await deleteAll(tenant, 1000)
      await writeResults(tenant, [success(delivery)])
      assert.equal(await deleteAll(tenant, 1000), 0)
      assert.deepEqual(await left(tenant), [])
    },
  )

  harness.test('organizations.deletePart() allows a new organization with the same id', async (test) => {
    const tenant = await createFull(harness, test)
    await deleteAll(tenant, 1000)
    await kinds.clients.create(tenant)
    assert.equal((await tenant.store.clients.list(tenant.id, {}, 200, null)).length, 1)
  })

  testForgetting(harness)
}

/** A personal value for each field of a business. */
const NAMES: CreateBusinessInput = Object.fromEntries(
  Object.keys(CreateBusinessInputSchema.entries).map((field) => [field, `Zoë's ${field}`]),
) as CreateBusinessInput

/** Creates a client with the events and keyed reply of a request, and a lead, and lets each delivery fail once. */
async function createPerson(tenant: Tenant): Promise<Person> {
  const { store, id: organizationId } = tenant
  await tenant.insertEndpoint()
  const { record, events } = newClient(NAMES, { ids, now: Date.now() })
  const idempotency = reservation({ reply: JSON.stringify({ data: record }) })
  const creation = { organizationId, record, events, idempotency }
  await store.clients.create(creation)
  const lead = newLead({ businessId: record.business.id }, { ids, now: Date.now() })
  await store.leads.create({ organizationId, record: lead.record, events: lead.events, idempotency: null })
  const { deliveries } = await claim(tenant)
  assert.equal(deliveries.length, 3)
  await writeResults(
    tenant,
    deliveries.map((delivery) =>
      failure(delivery, {
        bodyExcerpt: `no ${NAMES.name}`,
        location: `https://new.example.com/${NAMES.name}`,
      }),
    ),
  )
  const proposal = await createSigned(tenant)
  return { client: record, creation, proposalIds: [proposal] }
}

interface Person {
  readonly client: Client
  readonly creation: Creation<Client>
  readonly proposalIds: readonly string[]
}

/** @returns the id of a proposal signed by the person */
async function createSigned(tenant: Tenant): Promise<string> {
  const { store, id: organizationId } = tenant
  const { id: recordId } = await kinds.proposals.create(tenant)
  const signature = { signedBy: NAMES.name, signedAt: '2026-03-14T09:26:53.589Z' }
  const change = { organizationId, id: ids('chg'), recordId, from: null, events: [], idempotency: null }
  const { outcome } = await store.proposals.change({ ...change, set: { status: 'accepted', signature } })
  assert.equal(outcome, 'changed')
  return recordId
}

/** Erases a business in parts. @returns the sums of the counts */
async function forget(
  tenant: Tenant,
  person: Person,
  limit: number,
): Promise<Readonly<Record<string, number>>> {
  const { store, id: organizationId } = tenant
  const { client, proposalIds } = person
  const request = { organizationId, businessId: client.business.id, proposalIds, limit }
  const sums: Record<string, number> = {}
  let after: string | null = null
  do {
    const part = await store.organizations.forgetPart({ ...request, after })
    assert.ok(part, 'no part')
    for (const [name, count] of Object.entries(part.counts)) sums[name] = (sums[name] ?? 0) + count
    after = part.next
  } while (after !== null)
  return sums
}

/** Returns everything that the store shows of an organization, including the replay of a creation, as JSON. */
async function shown(tenant: Tenant, { creation }: Person): Promise<string> {
  const { store, id } = tenant
  const deliveries = await store.deliveries.list(id, {}, 200, null)
  const details = await Promise.all(deliveries.map((delivery) => store.deliveries.get(id, delivery.id)))
  const record = { ...creation.record, id: ids('cli') }
  const replay = await store.clients.create({ ...creation, record })
  assert.equal(replay.outcome, 'replayed')
  return JSON.stringify([await left(tenant), await tenant.events(), details, replay])
}

function testForgetting(harness: StoreHarness): void {
  for (const limit of [1, 1000]) {
    harness.test(
      `organizations.forgetPart() in parts of ${limit} erases all personal data and does not affect others`,
      async (test) => {
        const [ours, theirs] = [await createPublisher(harness, test), await createPublisher(harness, test)]
        const [person, stranger] = [await createPerson(ours), await createPerson(theirs)]
        const neighbour = newClient({ name: 'Neighbour' }, { ids, now: Date.now() })
        const { record, events } = neighbour
        await ours.store.clients.create({ organizationId: ours.id, record, events, idempotency: null })
        // The store doesn't know this type, which is a host's own.
        const body = JSON.stringify({ data: { bookingId: 'b', business: person.client.business } })
        await ours.publish({ type: 'booking.created', body })
        const others = await shown(theirs, stranger)
        const before = await ours.events()

        const counts = await forget(ours, person, limit)
        assert.ok(!Object.values(counts).includes(0), JSON.stringify(counts))
        const text = await shown(ours, person)
        for (const value of Object.values(NAMES)) assert.ok(!text.includes(value), value)

        const { business } = person.client
        const forgotten = businessOf({ id: business.id, name: 'Deleted' })
        assert.deepEqual(await ours.store.businesses.get(ours.id, business.id), forgotten)
        const replaced = [JSON.stringify(business), JSON.stringify(forgotten)] as const
        // The rest of an event doesn't change.
        assert.deepEqual(
          await ours.events(),
          before.map((event) => ({ ...event, body: event.body.replaceAll(...replaced) })),
        )
        assert.deepEqual(await ours.store.businesses.get(ours.id, record.business.id), record.business)
        assert.equal(await shown(theirs, stranger), others)

        const again = await forget(ours, person, limit)
        assert.deepEqual(new Set(Object.values(again)), new Set([0]))
        assert.equal(await shown(ours, person), text)
      },
    )
  }

  harness.test('organizations.forgetPart() changes pending deliveries and replays', async (test) => {
    const tenant = await createPublisher(harness, test)
    const person = await createPerson(tenant)
    await forget(tenant, person, 1000)
    const { business, ...client } = person.client
    const forgotten = { ...client, business: businessOf({ id: business.id, name: 'Deleted' }) }

    const record = { ...person.client, id: ids('cli') }
    const replay = await tenant.store.clients.create({ ...person.creation, record })
    assert.ok(replay.outcome === 'replayed', replay.outcome)
    assert.deepEqual(JSON.parse(replay.reply), { data: forgotten })

    const { deliveries } = await claim(tenant)
    // Retries may be due in any order.
    const bodies = deliveries.map(({ body }) => JSON.parse(body))
    const ordered = bodies.sort((one, other) => (one.id < other.id ? -1 : 1))
    const data = ordered.map((body) => body.data)
    const { lead, leadId } = data.pop()
    assert.equal(lead.id, leadId)
    assert.deepEqual(data, [
      { businessId: business.id, business: forgotten.business },
      { clientId: client.id, businessId: business.id, client: forgotten },
    ])
  })

  harness.test(
    'organizations.forgetPart() makes the client and the proposals count as changed',
    async (test) => {
      const tenant = await createPublisher(harness, test)
      const person = await createPerson(tenant)
      const { store, id } = tenant
      const [proposalId = ''] = person.proposalIds
      const read = async () => {
        const client = await store.clients.get(id, person.client.id)
        const proposal = await store.proposals.get(id, proposalId)
        assert.ok(client && proposal, 'client or proposal is missing')
        return [client, proposal] as const
      }
      const before = await read()
      await new Promise((resolve) => setTimeout(resolve, 5))
      await forget(tenant, person, 1000)
      const after = await read()
      assert.ok(
        after[0].updatedAt > before[0].updatedAt,
        `${after[0].updatedAt} after ${before[0].updatedAt}`,
      )
      assert.ok(
        after[1].updatedAt > before[1].updatedAt,
        `${after[1].updatedAt} after ${before[1].updatedAt}`,
      )
      assert.deepEqual(after[1].signature, { ...before[1].signature, signedBy: 'Deleted' })
    },
  )

  harness.test(
    'organizations.forgetPart() does not find a business of another organization',
    async (test) => {
      const [ours, theirs] = [await createPublisher(harness, test), await createPublisher(harness, test)]
      const { client, proposalIds } = await createPerson(theirs)
      const request = { organizationId: ours.id, businessId: client.business.id, proposalIds, limit: 1000 }
      assert.equal(await ours.store.organizations.forgetPart({ ...request, after: null }), null)
    },
  )
}
