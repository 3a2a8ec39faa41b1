import assert from 'node:assert/strict'
import type { Client } from '../../lib/resources/clients.ts'
import type { Conversion, ConvertedLead, Lead } from '../../lib/resources/leads.ts'
import type { Change, ChangeOutcome } from '../../lib/writes/change.ts'
import { toEventRecord } from '../../lib/writes/event-envelope.ts'
import { placeholder } from '../../lib/writes/placeholders.ts'
import { businessOf } from '../_business.ts'
import { conversion, dataOf, verbs } from './changing.ts'
import { createPublisher, deliveriesOf } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { itemsOf, kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that a won lead makes its business a client, once. */
export function testConversions(harness: StoreHarness): void {
  testNewClient(harness)
  testKnownClient(harness)
  testRaces(harness)
}

const BUSINESS = businessOf({
  id: 'biz_1',
  name: 'O\'Brien & "Söhne" \\ 🏺\u2028',
  city: '',
  email: 'a@b.example',
  phone: '+216 71 000 000',
})

async function createBusiness({ store, id: organizationId }: Tenant): Promise<void> {
  await store.businesses.create({ organizationId, record: BUSINESS, events: [], idempotency: null })
}

async function createLead(tenant: Tenant, stage = 'open'): Promise<Lead> {
  const lead = verbs.lead.item(stage) as Lead
  const { store, id: organizationId } = tenant
  const made = { ...lead, businessId: BUSINESS.id }
  const plain = { organizationId, events: [], idempotency: null }
  assert.deepEqual(await store.leads.create({ ...plain, record: made }), { outcome: 'created' })
  return lead
}

/** Prepares a conversion with all its events. */
function prepare({ id: organizationId }: Tenant, recordId: string): Change<Conversion> {
  const now = Date.UTC(2026, 2, 14)
  const moved = {
    leadId: recordId,
    businessId: placeholder('businessId'),
    previousStage: placeholder('previousStage'),
  }
  const events = [toEventRecord(ids('evt'), 'lead.stage_changed', moved, now)]
  const { client } = conversion()
  const data = { clientId: client.id, businessId: placeholder('businessId'), client: placeholder('client') }
  const clientEvents = [toEventRecord(ids('evt'), 'client.created', data, now)]
  const set = { stage: 'won', client, clientEvents }
  return { organizationId, id: ids('chg'), recordId, from: ['open', 'won'], events, set, idempotency: null }
}

async function typesOf(tenant: Tenant): Promise<readonly string[]> {
  return (await tenant.events()).map(({ type }) => type)
}

async function clientsOf(tenant: Tenant): Promise<readonly unknown[]> {
  return itemsOf(kinds.clients, tenant)
}

function testNewClient(harness: StoreHarness): void {
  harness.test(
    'leads.convert() moves the lead and makes its business a client, with the events of both',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await createBusiness(tenant)
      const lead = await createLead(tenant)
      const change = prepare(tenant, lead.id)
      const client: Client = { ...change.set.client, business: BUSINESS }
      const item = { lead: { ...lead, stage: 'won' }, client }
      assert.deepEqual(await tenant.store.leads.convert(change), { outcome: 'changed', representation: item })
      assert.deepEqual(await clientsOf(tenant), [client])
      assert.deepEqual(await itemsOf(kinds.leads, tenant), [item.lead])

      const [moved, created] = await tenant.events()
      assert.deepEqual(moved && dataOf(moved), {
        leadId: lead.id,
        businessId: BUSINESS.id,
        previousStage: 'open',
      })
      assert.deepEqual(created && dataOf(created), { clientId: client.id, businessId: BUSINESS.id, client })
      assert.equal((await deliveriesOf(tenant)).length, 2)
    },
  )

  harness.test('leads.convert() of a won lead creates the client without an event for the lead', async () => {
    const tenant = await createTenant(harness)
    await createBusiness(tenant)
    const { id } = await createLead(tenant, 'won')
    await tenant.store.leads.convert(prepare(tenant, id))
    assert.deepEqual(await typesOf(tenant), ['client.created'])
    assert.equal((await clientsOf(tenant)).length, 1)
  })
}

function testKnownClient(harness: StoreHarness): void {
  harness.test('leads.convert() returns the existing client if the business already is one', async () => {
    const tenant = await createTenant(harness)
    await createBusiness(tenant)
    const [first, second] = [await createLead(tenant), await createLead(tenant)]
    const made = await tenant.store.leads.convert(prepare(tenant, first.id))
    const [client] = (await clientsOf(tenant)) as Client[]
    assert.ok(client, 'no client')
    const change = {
      organizationId: tenant.id,
      id: ids('chg'),
      recordId: client.id,
      from: null,
      events: [],
      idempotency: null,
    }
    await tenant.store.clients.change({ ...change, set: { status: 'inactive', totalRevenue: 18250.5 } })

    const known = await tenant.store.leads.convert(prepare(tenant, second.id))
    assert.equal(made.outcome, 'changed')
    assert.deepEqual(known.outcome === 'changed' && known.representation, {
      lead: { ...second, stage: 'won' },
      client: { ...client, status: 'inactive', totalRevenue: 18250.5 },
    })
    assert.equal((await clientsOf(tenant)).length, 1)
    assert.deepEqual(await typesOf(tenant), ['lead.stage_changed', 'client.created', 'lead.stage_changed'])
  })

  harness.test('leads.convert() finds a client that was created together with the business', async () => {
    const tenant = await createTenant(harness)
    const lead = (await kinds.leads.create(tenant)).id
    const [client] = await clientsOf(tenant)
    const answer = await tenant.store.leads.convert({ ...prepare(tenant, lead), from: null })
    assert.deepEqual(answer.outcome === 'changed' && answer.representation.client, client)
  })

  harness.test('leads.convert() creates no client if it is rejected', async () => {
    const tenant = await createTenant(harness)
    await createBusiness(tenant)
    const { id } = await createLead(tenant, 'lost')
    const refused = { outcome: 'refused', state: 'lost', reason: 'state' }
    assert.deepEqual(await tenant.store.leads.convert(prepare(tenant, id)), refused)
    assert.deepEqual([await clientsOf(tenant), await tenant.events()], [[], []])
  })
}

function testRaces(harness: StoreHarness): void {
  harness.test(
    'two leads of the same business converted concurrently create a single client and a single client.created',
    async () => {
      for (let round = 0; round < 5; round++) {
        const tenant = await createTenant(harness)
        await createBusiness(tenant)
        const [first, second] = [await createLead(tenant), await createLead(tenant)]
        const answers = await Promise.all([
          tenant.store.leads.convert(prepare(tenant, first.id)),
          tenant.secondStore.leads.convert(prepare(tenant, second.id)),
        ])
        const clients = answers.map(clientOf)
        assert.ok(clients[0], 'no client')
        assert.deepEqual(clients[1], clients[0])
        assert.deepEqual(await clientsOf(tenant), [clients[0]])
        const types = (await typesOf(tenant)).toSorted()
        assert.deepEqual(types, ['client.created', 'lead.stage_changed', 'lead.stage_changed'])
      }
    },
  )
}

function clientOf(answer: ChangeOutcome<ConvertedLead>): Client | undefined {
  return answer.outcome === 'changed' ? answer.representation.client : undefined
}
