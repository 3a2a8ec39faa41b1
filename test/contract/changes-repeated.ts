import assert from 'node:assert/strict'
import type { Proposal } from '../../lib/resources/proposals.ts'
import { businessOf } from '../_business.ts'
import {
  changeClaim,
  conversion,
  createItem,
  eventTemplate,
  type Item,
  invoiceItem,
  listed,
  type PreparedChange,
  settlement,
  type Verb,
  verbs,
} from './changing.ts'
import { createPublisher, deliveriesOf } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that a change repeated after a lost result is only applied once, even if the record was changed in between. */
export function testRepeatedChanges(harness: StoreHarness): void {
  for (const verb of Object.values(verbs)) {
    testRepeat(harness, verb)
    testRepeatLater(harness, verb)
    testRepeatAtOnce(harness, verb)
  }
  testConversions(harness)
  testOthersBetween(harness)
}

const KEYS = { 'with an idempotency key': changeClaim, 'without a key': () => null }

function testRepeat(harness: StoreHarness, verb: Verb): void {
  harness.test(
    `${verb.name} sent again after a lost result returns the same result and duplicates nothing`,
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      for (const [how, claim] of Object.entries(KEYS)) {
        const item = await createItem(tenant, verb)
        const event = eventTemplate(verb, item)
        // The change results in a state that doesn't allow the change.
        const options = { from: ['open'], events: [event], idempotency: claim() }
        const change = verb.prepare(tenant, item.id, options)
        const answer = await change.send()
        const events = await tenant.events()
        assert.equal(answer.outcome, 'changed', how)
        assert.deepEqual(await change.send(), answer, how)
        assert.deepEqual(await change.send(tenant.secondStore), answer, how)
        assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item), how)
        assert.deepEqual(await tenant.events(), events, how)
        const deliveries = await deliveriesOf(tenant)
        assert.equal(deliveries.filter(({ eventId }) => eventId === event.id).length, 1, how)
      }
      assert.equal((await tenant.events()).length, 2)
    },
  )
}

/** Sets the state of a record, as another caller might. */
async function move(tenant: Tenant, { kind }: Verb, recordId: string, state: string): Promise<void> {
  const { id: organizationId, store } = tenant
  const change = {
    organizationId,
    id: ids('chg'),
    recordId,
    from: null,
    events: [],
    idempotency: null,
    set: kind === kinds.leads ? { stage: state } : { status: state },
  }
  const outcome = await Reflect.apply(store[kind.name as 'clients'].change, undefined, [change])
  assert.equal(outcome.outcome, 'changed')
}

function testRepeatLater(harness: StoreHarness, verb: Verb): void {
  harness.test(`${verb.name} sent again after other changes to the record is not applied again`, async () => {
    const tenant = await createTenant(harness)
    for (const claim of Object.values(KEYS)) {
      const item = await createItem(tenant, verb)
      const options = { from: ['open'], events: [eventTemplate(verb, item)], idempotency: claim() }
      const change = verb.prepare(tenant, item.id, options)
      await change.send()
      const events = await tenant.events()
      for (const state of ['elsewhere', 'open']) {
        await move(tenant, verb, item.id, state)
        const now = { ...verb.after(item), [verb.kind === kinds.leads ? 'stage' : 'status']: state }
        for (const store of [tenant.store, tenant.secondStore]) {
          const answer = await change.send(store)
          assert.deepEqual('representation' in answer && verb.shown(answer.representation), now)
        }
        assert.deepEqual(await listed(tenant, verb, item.id), now)
      }
      assert.deepEqual(await tenant.events(), events)
    }
  })
}

function testRepeatAtOnce(harness: StoreHarness, verb: Verb): void {
  harness.test(
    `if one ${verb.name} is sent 20 times concurrently by two processes, all succeed and the record changes once`,
    async () => {
      const tenant = await createTenant(harness)
      const item = await createItem(tenant, verb)
      const change = verb.prepare(tenant, item.id, { from: ['open'], events: [eventTemplate(verb, item)] })
      for (const answer of await sendAtOnce(tenant, change, 20)) assert.equal(answer.outcome, 'changed')
      assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item))
      assert.equal((await tenant.events()).length, 1)
    },
  )
}

function sendAtOnce({ store, secondStore }: Tenant, change: PreparedChange, count: number) {
  const stores = Array.from({ length: count }, (_, index) => (index % 2 === 0 ? store : secondStore))
  return Promise.all(stores.map((through) => change.send(through)))
}

function testConversions(harness: StoreHarness): void {
  harness.test(
    'leads.convert() sent again after a lost result creates a single client and returns it',
    async () => {
      const tenant = await createTenant(harness)
      const { id } = await createLeadOfBusiness(tenant)
      const change = {
        organizationId: tenant.id,
        id: ids('chg'),
        recordId: id,
        from: ['open'],
        events: [],
        set: conversion(),
        idempotency: null,
      }
      const answer = await tenant.store.leads.convert(change)
      assert.equal(answer.outcome === 'changed' && answer.representation.client.id, change.set.client.id)
      assert.deepEqual(await tenant.secondStore.leads.convert(change), answer)
    },
  )
}

async function createLeadOfBusiness({ store, id: organizationId }: Tenant): Promise<Item> {
  const business = businessOf({ id: ids('biz') })
  const plain = { organizationId, events: [], idempotency: null }
  await store.businesses.create({ ...plain, record: business })
  const lead = { ...verbs.lead.item(), stage: 'open' }
  await Reflect.apply(store.leads.create, undefined, [
    { ...plain, record: { ...lead, businessId: business.id } },
  ])
  return lead
}

function testOthersBetween(harness: StoreHarness): void {
  harness.test('a revision sent again after another one counts once', async () => {
    const tenant = await createTenant(harness)
    const item = (await createItem(tenant, verbs.proposal)) as Proposal
    const [first, second] = [verbs.proposal.prepare(tenant, item.id), verbs.proposal.prepare(tenant, item.id)]
    for (const change of [first, second, first, second, first]) await change.send()
    assert.equal(((await listed(tenant, verbs.proposal, item.id)) as Proposal).version, item.version + 2)
  })

  harness.test('a payment sent again after ten other payments still counts once', async () => {
    const tenant = await createTenant(harness)
    const item = { ...invoiceItem('issued'), amountPaid: '0.000', amountDue: '1250.000' }
    await kinds.invoices.create(tenant, { item })
    const pay = (id: string, set: ReturnType<typeof settlement>) =>
      tenant.store.invoices.pay({
        organizationId: tenant.id,
        id,
        recordId: item.id,
        from: ['issued', 'partially_paid'],
        set,
        events: [],
        idempotency: null,
      })
    const [changeId, set] = [ids('chg'), settlement('100')]
    await pay(changeId, set)
    for (let other = 0; other < 10; other++) await pay(ids('chg'), settlement('1'))
    const answer = await pay(changeId, set)
    assert.equal(answer.outcome === 'changed' && answer.representation.invoice.amountPaid, '110.000')
  })

  harness.test('a change sent again after the invoice was marked overdue is not applied again', async () => {
    const tenant = await createTenant(harness)
    const item = { ...invoiceItem('draft'), dueDate: '2026-03-15T00:00:00.000Z' }
    await kinds.invoices.create(tenant, { item })
    const issue = verbs.invoice.prepare(tenant, item.id, { from: ['draft'] })
    await issue.send()
    const event = eventTemplate(verbs.invoice, item, 'invoice.overdue')
    const which = { organizationId: tenant.id, asOf: '2026-03-16T00:00:00.000Z', limit: 10, event }
    assert.equal((await tenant.store.invoices.markOverdue(which)).length, 1)
    const answer = await issue.send()
    assert.equal(answer.outcome === 'changed' && Reflect.get(answer.representation, 'status'), 'overdue')
  })
}
