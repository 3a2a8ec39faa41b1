import assert from 'node:assert/strict'
import type { Proposal } from '../../lib/resources/proposals.ts'
import type { Change } from '../../lib/writes/change.ts'
import { createItem, dataOf, eventTemplate, type Item, invoiceItem, listed, verbs } from './changing.ts'
import type { StoreHarness } from './harness.ts'
import { type Kind, kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** Tests rules that only apply to one kind of record. */
export function testRules(harness: StoreHarness): void {
  testLeads(harness)
  testProposals(harness)
  testInvoices(harness)
  testDates(harness)
}

/** Returns a change without events and key. */
function plain<Changes>(tenant: Tenant, recordId: string, set: Changes): Change<Changes> {
  const { id: organizationId } = tenant
  return { organizationId, id: ids('chg'), recordId, from: null, set, events: [], idempotency: null }
}

function testLeads(harness: StoreHarness): void {
  harness.test('leads.change() adds the business and the previous stage to its events', async () => {
    const tenant = await createTenant(harness)
    const item = await createItem(tenant, verbs.lead)
    const events = [eventTemplate(verbs.lead, item)]
    await verbs.lead.prepare(tenant, item.id, { events }).send()
    const [event] = await tenant.events()
    const { businessId, previousStage } = (event ? dataOf(event).facts : {}) as Record<string, unknown>
    assert.match(String(businessId), /^biz_/)
    assert.equal(previousStage, 'open')
  })

  harness.test(
    'leads.change() records no event if the stage stays the same, and changes the rest',
    async () => {
      const tenant = await createTenant(harness)
      const item = await createItem(tenant, verbs.lead)
      for (const set of [{ stage: 'open', leadScore: 7 }, { leadScore: 7 }]) {
        const change = plain(tenant, item.id, set)
        const outcome = await tenant.store.leads.change({
          ...change,
          events: [eventTemplate(verbs.lead, item)],
        })
        assert.deepEqual(outcome, { outcome: 'changed', representation: { ...item, leadScore: 7 } })
      }
      assert.deepEqual(await tenant.events(), [])
    },
  )
}

function testProposals(harness: StoreHarness): void {
  async function createProposal(
    tenant: Tenant,
    changes: Partial<Proposal & { minorUnits: number }>,
  ): Promise<string> {
    const item = { ...verbs.proposal.item('draft'), ...changes }
    await kinds.proposals.create(tenant, { item })
    return item.id
  }

  harness.test(
    'proposals.change() rejects a price that is too precise for the old or new currency',
    async () => {
      const tenant = await createTenant(harness)
      const { change } = tenant.store.proposals
      const euros = { currency: 'EUR', total: 10.25, monthlyTotal: 0 }
      const before = await createProposal(tenant, euros)
      for (const set of [
        { total: 10.255 },
        { monthlyTotal: 0.001 },
        { currency: 'JPY' },
        { currency: 'JPY', total: 10, monthlyTotal: 0.5 },
        { currency: 'TND', minorUnits: 1 },
      ]) {
        const outcome = await change(plain(tenant, before, { ...set, status: 'sent' }))
        assert.deepEqual(outcome, { outcome: 'refused', state: 'draft', reason: 'too_fine' })
      }
      const item = await listed(tenant, verbs.proposal, before)
      assert.deepEqual(item, {
        ...verbs.proposal.item('draft'),
        ...euros,
        id: before,
        number: numberOf(item),
      })

      for (const set of [
        { currency: 'TND', total: 10.255 },
        { currency: 'JPY', minorUnits: 3, monthlyTotal: 0.125 },
        { currency: 'JPY', total: 10, monthlyTotal: 0 },
        { total: 11 },
      ]) {
        assert.equal((await change(plain(tenant, before, set))).outcome, 'changed')
      }
      assert.equal(
        (await change(plain(tenant, before, { total: 11.5 }))).outcome,
        'refused',
        'it is in JPY now',
      )
    },
  )

  harness.test('proposals.create() keeps the given decimals of the currency', async () => {
    const tenant = await createTenant(harness)
    const id = await createProposal(tenant, { currency: 'HUF', total: 10, monthlyTotal: 0, minorUnits: 0 })
    const outcome = await tenant.store.proposals.change(plain(tenant, id, { total: 10.5 }))
    assert.equal(outcome.outcome, 'refused')
  })

  harness.test('proposals.change() increases the version with each revision', async () => {
    const tenant = await createTenant(harness)
    const id = await createProposal(tenant, { version: 1 })
    const versions = []
    for (const isRevision of [true, false, true]) {
      const outcome = await tenant.store.proposals.change(plain(tenant, id, { isRevision }))
      versions.push(outcome.outcome === 'changed' && outcome.representation.version)
    }
    assert.deepEqual(versions, [2, 2, 3])
  })
}

function numberOf(item: unknown): unknown {
  return (item as { readonly number: string } | undefined)?.number
}

function testInvoices(harness: StoreHarness): void {
  harness.test(
    'invoices.change() with isOnlyIfUnpaid is rejected after a payment, although the state allows the change',
    async () => {
      const tenant = await createTenant(harness)
      const { change } = tenant.store.invoices
      const set = { status: 'void', isOnlyIfUnpaid: true }
      const paid = invoiceItem('issued')
      const unpaid = { ...invoiceItem('issued'), amountPaid: '0.000', amountDue: '1250.000' }
      await create(tenant, kinds.invoices, paid)
      await create(tenant, kinds.invoices, unpaid)
      assert.deepEqual(await change(plain(tenant, paid.id, set)), {
        outcome: 'refused',
        state: 'issued',
        reason: 'paid',
      })
      assert.deepEqual(await change({ ...plain(tenant, paid.id, set), from: ['draft'] }), {
        outcome: 'refused',
        state: 'issued',
        reason: 'state',
      })
      assert.deepEqual(await listed(tenant, verbs.invoice, paid.id), paid)
      assert.deepEqual(await change(plain(tenant, unpaid.id, set)), {
        outcome: 'changed',
        representation: { ...unpaid, status: 'void' },
      })
    },
  )
}

function testDates(harness: StoreHarness): void {
  harness.test('invoices.change() rejects an issue date after the due date', async () => {
    const tenant = await createTenant(harness)
    const { change } = tenant.store.invoices
    const item = {
      ...invoiceItem('draft'),
      issueDate: '2026-01-01T00:00:00.000Z',
      dueDate: '2026-01-31T00:00:00.000Z',
    }
    const odd = { ...invoiceItem('draft'), issueDate: item.dueDate, dueDate: item.issueDate }
    for (const created of [item, odd]) await create(tenant, kinds.invoices, created)
    for (const set of [
      { issueDate: '2026-01-31T00:00:00.001Z' },
      { dueDate: '2025-12-31T23:59:59.999Z' },
      { issueDate: '2026-03-01T00:00:00.000Z', dueDate: '2026-02-28T00:00:00.000Z' },
    ]) {
      const refused = { outcome: 'refused', state: 'draft', reason: 'due_before_issue' }
      assert.deepEqual(await change(plain(tenant, item.id, { ...set, status: 'issued' })), refused)
    }
    assert.deepEqual(await listed(tenant, verbs.invoice, item.id), item)
    const outcome = await change(plain(tenant, odd.id, { status: 'issued' }))
    assert.equal(outcome.outcome, 'changed', 'nothing is said of dates that stay')
  })
}

async function create(tenant: Tenant, kind: Kind, item: Item): Promise<void> {
  await kind.create(tenant, { item })
}
