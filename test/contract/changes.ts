import assert from 'node:assert/strict'
import type { Client, ClientChanges } from '../../lib/resources/clients.ts'
import type { Invoice, InvoiceChanges } from '../../lib/resources/invoices.ts'
import type { Lead, LeadChanges } from '../../lib/resources/leads.ts'
import type { Proposal, ProposalChanges } from '../../lib/resources/proposals.ts'
import type { Change, ChangeOutcome } from '../../lib/writes/change.ts'
import { createItem, eventTemplate, type Item, listed, type Verb, verbs } from './changing.ts'
import { createPublisher, deliveriesOf } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that a change writes the record, the events and the deliveries together or not at all. */
export function testChanges(harness: StoreHarness): void {
  for (const verb of Object.values(verbs)) {
    testStates(harness, verb)
    testAbsence(harness, verb)
    testBlanks(harness, verb)
  }
  testFields(harness)
}

function testStates(harness: StoreHarness, verb: Verb): void {
  for (const from of [['closed', 'open'], null]) {
    harness.test(`${verb.name} from ${from ?? 'any state'} only changes that record`, async () => {
      const tenant = await createTenant(harness)
      const [other, item] = [await createItem(tenant, verb), await createItem(tenant, verb)]
      const outcome = await verb.prepare(tenant, item.id, { from }).send()
      assert.equal(outcome.outcome, 'changed')
      assert.deepEqual('representation' in outcome && verb.shown(outcome.representation), verb.after(item))
      assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item))
      assert.deepEqual(await listed(tenant, verb, other.id), other)
    })
  }

  harness.test(`${verb.name} is rejected in any other state and changes nothing`, async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const item = await createItem(tenant, verb, verb.item('elsewhere'))
    const events = [eventTemplate(verb, item)]
    for (const from of [['open', 'closed'], []]) {
      const outcome = await verb.prepare(tenant, item.id, { from, events }).send()
      assert.deepEqual(outcome, { outcome: 'refused', state: 'elsewhere', reason: 'state' })
    }
    assert.deepEqual(await listed(tenant, verb, item.id), item)
    assert.deepEqual(await tenant.events(), [])
    assert.deepEqual(await deliveriesOf(tenant), [])
  })
}

function testAbsence(harness: StoreHarness, verb: Verb): void {
  harness.test(
    `${verb.name} returns the same for an unknown id as for one of another organization, and changes nothing`,
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const item = await createItem(theirs, verb)
      for (const id of [item.id, ids('cli'), '', 'x'.repeat(10_000)]) {
        for (const from of [null, ['open']]) {
          const outcome = await verb.prepare(ours, id, { from, events: [eventTemplate(verb, item)] }).send()
          assert.deepEqual(outcome, { outcome: 'not_found' })
        }
      }
      assert.deepEqual(await listed(theirs, verb, item.id), item)
      assert.deepEqual([await ours.events(), await theirs.events()], [[], []])
    },
  )
}

function testBlanks(harness: StoreHarness, verb: Verb): void {
  harness.test(
    `${verb.name} records the events in order, rendered and with a delivery for each endpoint`,
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoints = [
        await tenant.insertEndpoint(),
        await tenant.insertEndpoint({ types: ['lead.stage_changed'] }),
      ]
      const item = await createItem(tenant, verb)
      const [stage, other] = [eventTemplate(verb, item), eventTemplate(verb, item, 'project.completed')]
      await verb.prepare(tenant, item.id, { events: [stage, other] }).send()

      const recorded = await tenant.events()
      assert.deepEqual(
        recorded.map(({ body: _, ...event }) => event),
        [stage, other].map(({ body: _, ...event }) => event),
      )
      for (const event of recorded) assertFilled(verb, event.body, verb.after(item))
      const deliveries = (await deliveriesOf(tenant)).map((delivery) => [
        delivery.eventId,
        delivery.endpointId,
      ])
      const expected = [
        [stage.id, endpoints[0]?.id],
        [stage.id, endpoints[1]?.id],
        [other.id, endpoints[0]?.id],
      ]
      assert.deepEqual(deliveries.toSorted(), expected.toSorted())
    },
  )

  harness.test(`${verb.name} rejects an event with an unknown placeholder, and changes nothing`, async () => {
    const tenant = await createTenant(harness)
    const item = await createItem(tenant, verb)
    const event = eventTemplate(verb, item)
    const body = event.body.replace('"data":{', '"data":{"misspelt":"\\u0000amuont",')
    await assert.rejects(verb.prepare(tenant, item.id, { events: [{ ...event, body }] }).send())
    assert.deepEqual(await listed(tenant, verb, item.id), item)
    assert.deepEqual(await tenant.events(), [])
  })

  harness.test(
    `${verb.name} renders every value exactly, and returns the record as the list does`,
    async () => {
      const tenant = await createTenant(harness)
      for (const example of verb.examples) {
        const item = await createItem(tenant, verb, withTextOfItsOwn(example))
        const outcome = await verb.prepare(tenant, item.id, { events: [eventTemplate(verb, item)] }).send()
        assert.deepEqual('representation' in outcome && verb.shown(outcome.representation), verb.after(item))
        assertFilled(verb, (await tenant.events()).at(-1)?.body ?? '', verb.after(item))
      }
    },
  )
}

/** Each method gets its own record because several of them may change the same example. */
function withTextOfItsOwn(example: Item): Item {
  const id = ids('cli')
  const number = 'number' in example ? { number: `${example.number} ${id}` } : {}
  const business =
    'business' in example ? { business: { ...(example.business as Item), id: ids('biz') } } : {}
  return { ...example, id, ...number, ...business }
}

function assertFilled(verb: Verb, body: string, item: Item): void {
  const { whole, fields, text } = JSON.parse(body).data
  assert.equal(text, '"\\u0000id" é 🏺', 'what only looks like a placeholder stays')
  assert.deepEqual(verb.shown(whole), item)
  if (verb !== verbs.conversion) assert.deepEqual(fields, item)
}

// --- The fields that each method can change ---

function testFields(harness: StoreHarness): void {
  testSets<Client, ClientChanges>(harness, verbs.client, (store) => store.clients.change, [
    { status: 'inactive' },
    { totalRevenue: -0.001 },
    { monthlyRevenue: 999_999_999_999.999 },
    { status: 'vip', totalRevenue: 1, monthlyRevenue: 2 },
    {},
  ])
  testSets<Lead, LeadChanges>(harness, verbs.lead, (store) => store.leads.change, [
    { stage: 'won' },
    { leadScore: 99.999, scoreBand: 'hot' },
    { leadScore: null, scoreBand: null },
    {},
  ])
  testSets<Proposal, ProposalChanges>(harness, verbs.proposal, (store) => store.proposals.change, [
    { status: 'sent' },
    { title: '' },
    { total: 0 },
    { monthlyTotal: 0.001 },
    {},
  ])
  testSets<Invoice, InvoiceChanges>(harness, verbs.invoice, (store) => store.invoices.change, [
    { status: 'void' },
    { issueDate: '1970-01-01T00:00:00.000Z' },
    { dueDate: '9999-12-31T23:59:59.999Z' },
    { issueDate: '2024-02-29T00:00:00.001Z', dueDate: '2024-02-29T00:00:00.001Z' },
    {},
  ])
}

type ChangeVerb<Shown, Changes> = (change: Change<Changes>) => Promise<ChangeOutcome<Shown, string>>

function testSets<Shown extends Item, Changes extends object>(
  harness: StoreHarness,
  verb: Verb,
  change: (store: Tenant['store']) => ChangeVerb<Shown, Changes>,
  sets: readonly Changes[],
): void {
  harness.test(`${verb.name} sets the given fields and keeps the others`, async () => {
    const tenant = await createTenant(harness)
    for (const set of sets) {
      const item = await createItem(tenant, verb)
      const given = { organizationId: tenant.id, recordId: item.id, from: null, idempotency: null, set }
      const outcome = await change(tenant.store)({ ...given, id: ids('chg'), events: [] })
      assert.deepEqual(outcome, { outcome: 'changed', representation: { ...item, ...set } })
      assert.deepEqual(await listed(tenant, verb, item.id), { ...item, ...set })
    }
  })
}
