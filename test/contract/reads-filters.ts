import assert from 'node:assert/strict'
import type { Invoice, InvoiceFilter } from '../../lib/resources/invoices.ts'
import type { Lead, LeadFilter } from '../../lib/resources/leads.ts'
import { changeClaim, createItem, invoiceItem, settlement, verbs } from './changing.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

// Tests the filters of individual resources, signatures and payments.

/** Defines the tests. */
export function testReadsFilters(harness: StoreHarness): void {
  testBusinessIds(harness)
  testNumbers(harness)
  testDueDates(harness)
  testSignatures(harness)
  testPayments(harness)
}

function idsOf(records: readonly { readonly id: string }[]): readonly string[] {
  return records.map(({ id }) => id)
}

function testBusinessIds(harness: StoreHarness): void {
  harness.test(
    'leads.list() by businessId returns the leads of the business, optionally by stage, in pages',
    async () => {
      const tenant = await createTenant(harness)
      const [business, other] = [await tenant.insertBusiness(), await tenant.insertBusiness()]
      const created: { readonly lead: Lead; readonly businessId: string }[] = []
      for (const [stage, businessId] of [
        ['new', business],
        ['won', business],
        ['new', other],
        ['lost', business],
        ['new', business],
      ] as const) {
        const lead = { ...(verbs.lead.item(stage) as Lead) }
        const record = { ...lead, businessId }
        await tenant.store.leads.create({ organizationId: tenant.id, record, events: [], idempotency: null })
        created.unshift({ lead, businessId })
      }
      const list = async (filter: LeadFilter, limit = 10, before: string | null = null) => {
        const page = await tenant.store.leads.list(tenant.id, filter, limit, before)
        return page.map(({ updatedAt: _, ...lead }) => lead)
      }
      const select = (wanted: (one: (typeof created)[number]) => boolean) =>
        created.filter(wanted).map(({ lead, businessId }) => ({ ...lead, businessId }))
      const ofBusiness = select(({ businessId }) => businessId === business)
      assert.deepEqual(await list({ businessId: business }), ofBusiness)
      const page = await list({ businessId: business }, 2)
      assert.deepEqual(page, ofBusiness.slice(0, 2))
      assert.deepEqual(await list({ businessId: business }, 2, page[1]?.id), ofBusiness.slice(2))
      assert.deepEqual(
        await list({ businessId: business, stages: ['new', 'won'] }),
        select(({ lead, businessId }) => businessId === business && lead.stage !== 'lost'),
      )
      assert.deepEqual(await list({ businessId: 'biz_none' }), [])
      assert.deepEqual(await list({ businessId: business, stages: [] }), [])
    },
  )

  harness.test(
    'clients.list() by businessId returns the client of the business if its status matches',
    async () => {
      const tenant = await createTenant(harness)
      const businessId = await tenant.insertBusiness()
      await tenant.insertBusiness()
      const { clients } = tenant.store
      const [client, ...more] = await clients.list(tenant.id, { businessId }, 10, null)
      assert.deepEqual([client?.business.id, more], [businessId, []])
      for (const [filter, count] of [
        [{ businessId, statuses: ['active'] }, 1],
        [{ businessId, statuses: ['inactive'] }, 0],
        [{ businessId: 'biz_none' }, 0],
      ] as const) {
        assert.equal((await clients.list(tenant.id, filter, 10, null)).length, count)
      }
      assert.deepEqual(await clients.list(tenant.id, { businessId }, 10, client?.id ?? null), [])
    },
  )
}

function testNumbers(harness: StoreHarness): void {
  for (const verb of [verbs.invoice, verbs.proposal]) {
    harness.test(
      `${verb.kind.name}.list() by number returns the record with exactly that number if its status matches`,
      async () => {
        const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
        const item = { ...verb.item('sent'), number: "N'1" }
        for (const tenant of [ours, theirs]) await createItem(tenant, verb, { ...item, id: ids('inv') })
        await createItem(ours, verb)
        const slice = ours.store[verb.kind.name as 'invoices']
        const [found, ...more] = await slice.list(ours.id, { number: item.number }, 10, null)
        assert.deepEqual([found?.number, more], [item.number, []])
        assert.equal(
          (await slice.list(ours.id, { number: item.number, statuses: ['sent'] }, 10, null)).length,
          1,
        )
        assert.deepEqual(
          await slice.list(ours.id, { number: item.number, statuses: ['draft'] }, 10, null),
          [],
        )
        assert.deepEqual(await slice.list(ours.id, { number: "n'1" }, 10, null), [])
      },
    )
  }
}

const DAY = (day: number): string => `2026-03-${String(day).padStart(2, '0')}T00:00:00.000Z`

async function createDue(tenant: Tenant, status: string, dueDate: string): Promise<Invoice> {
  const invoice = { ...invoiceItem(status), issueDate: DAY(1), dueDate }
  await kinds.invoices.create(tenant, { item: invoice })
  return invoice
}

function testDueDates(harness: StoreHarness): void {
  harness.test(
    'invoices.list() by due date returns unpaid invoices, latest due date first, in pages of any size',
    async () => {
      const tenant = await createTenant(harness)
      const created: Invoice[] = []
      for (const [status, day] of [
        ['issued', 5],
        ['overdue', 3],
        ['partially_paid', 5],
        ['draft', 5],
        ['paid', 5],
        ['void', 4],
        ['issued', 2],
        ['issued', 5],
        ['overdue', 9],
        ['issued', 4],
      ] as const) {
        created.push(await createDue(tenant, status, DAY(day)))
      }
      const keyOf = ({ dueDate, id }: Invoice): string => dueDate + id
      const expectedOf = ({ statuses, dueAfter, dueBefore }: InvoiceFilter): readonly string[] =>
        idsOf(
          created
            .filter(({ status }) => (statuses ?? ['issued', 'partially_paid', 'overdue']).includes(status))
            .filter(({ status }) => !['draft', 'paid', 'void'].includes(status))
            .filter(({ dueDate }) => dueAfter === undefined || dueDate >= dueAfter)
            .filter(({ dueDate }) => dueBefore === undefined || dueDate < dueBefore)
            .sort((one, other) => (keyOf(one) < keyOf(other) ? 1 : -1)),
        )
      for (const filter of [
        { dueBefore: DAY(31) },
        { dueAfter: DAY(1) },
        { dueBefore: DAY(5) },
        { dueAfter: DAY(4), dueBefore: DAY(9) },
        { dueAfter: DAY(5), dueBefore: DAY(5) },
        { dueAfter: DAY(2), statuses: ['issued', 'overdue'] },
        { dueBefore: DAY(31), statuses: ['paid', 'partially_paid'] },
        { dueBefore: DAY(31), statuses: ['paid'] },
        { dueBefore: DAY(31), statuses: [] },
      ] satisfies InvoiceFilter[]) {
        const expected = expectedOf(filter)
        for (const limit of [1, 2, 3, 100]) {
          const met: string[] = []
          for (let before: string | null = null; ; ) {
            const page: readonly Invoice[] = await tenant.store.invoices.list(
              tenant.id,
              filter,
              limit,
              before,
            )
            met.push(...idsOf(page))
            before = page.at(-1)?.id ?? null
            if (before === null) break
          }
          assert.deepEqual(met, expected, JSON.stringify({ filter, limit }))
        }
        const after = tenant.store.invoices.list(tenant.id, filter, 100, 'inv_unknown')
        assert.deepEqual(await after, [], "an id that the organization doesn't have is after no page")
      }
    },
  )

  harness.test(
    'invoices.list() by due date and number only returns the invoice if it is due then',
    async () => {
      const tenant = await createTenant(harness)
      const { number } = await createDue(tenant, 'issued', DAY(5))
      const paid = await createDue(tenant, 'paid', DAY(5))
      const { invoices } = tenant.store
      for (const [filter, count] of [
        [{ number, dueBefore: DAY(6) }, 1],
        [{ number, dueBefore: DAY(5) }, 0],
        [{ number, dueAfter: DAY(6) }, 0],
        [{ number: paid.number, dueBefore: DAY(6) }, 0],
      ] as const) {
        assert.equal((await invoices.list(tenant.id, filter, 10, null)).length, count)
      }
    },
  )
}

function testSignatures(harness: StoreHarness): void {
  harness.test(
    'proposals.get() and list() return the signatory, and a revision removes the signature',
    async () => {
      const tenant = await createTenant(harness)
      const { id } = await createItem(tenant, verbs.proposal)
      const { proposals } = tenant.store
      const read = async () => [
        (await proposals.get(tenant.id, id))?.signature,
        (await proposals.list(tenant.id, {}, 1, null))[0]?.signature,
      ]
      const change = (set: object) =>
        proposals.change({
          organizationId: tenant.id,
          id: ids('chg'),
          recordId: id,
          from: null,
          set,
          events: [],
          idempotency: null,
        })
      assert.deepEqual(await read(), [null, null])
      const signature = { signedBy: 'Amina "é" O\'Brien', signedAt: '2026-03-14T09:26:53.589Z' }
      await change({ status: 'accepted', signature })
      assert.deepEqual(await read(), [signature, signature])
      await change({ status: 'draft', isRevision: true })
      assert.deepEqual(await read(), [null, null])
    },
  )
}

function testPayments(harness: StoreHarness): void {
  const payOf = (tenant: Tenant, recordId: string, set = settlement('0.5')) => ({
    organizationId: tenant.id,
    id: ids('chg'),
    recordId,
    from: null,
    set,
    events: [],
    idempotency: changeClaim(),
  })

  harness.test(
    'invoices.pay() returns the payment along with the invoice, even if repeated or replayed',
    async () => {
      const tenant = await createTenant(harness)
      const { id } = await createItem(tenant, verbs.payment, invoiceItem('issued'))
      const change = payOf(tenant, id)
      const payment = { ...change.set.payment, amount: '0.500' }
      const outcome = await tenant.store.invoices.pay(change)
      assert.ok(outcome.outcome === 'changed', outcome.outcome)
      assert.deepEqual(outcome.representation.payment, payment)
      assert.equal(outcome.representation.invoice.amountPaid, '250.500')
      assert.deepEqual(await tenant.secondStore.invoices.pay(change), outcome)
      const replay = await tenant.store.invoices.pay({
        ...payOf(tenant, id),
        idempotency: change.idempotency,
      })
      assert.ok(replay.outcome === 'replayed', replay.outcome)
      assert.deepEqual(JSON.parse(replay.reply), outcome.representation)
      assert.deepEqual(await tenant.store.invoices.listPayments(tenant.id, id, 10, null), [payment])
    },
  )

  harness.test(
    'invoices.listPayments() returns the payments of an invoice, newest first, in pages, or null if it is unknown',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const invoice = await createItem(ours, verbs.payment, invoiceItem('issued'))
      const other = await createItem(ours, verbs.payment, invoiceItem('issued'))
      const { invoices } = ours.store
      assert.deepEqual(await invoices.listPayments(ours.id, invoice.id, 10, null), [])
      const made: string[] = []
      for (const amount of ['1', '2.5', '3']) {
        const change = payOf(ours, invoice.id, settlement(amount))
        await invoices.pay(change)
        await invoices.pay(payOf(ours, other.id))
        made.unshift(change.set.payment.id)
      }
      const payments = (await invoices.listPayments(ours.id, invoice.id, 10, null)) ?? []
      assert.deepEqual(idsOf(payments), made)
      assert.deepEqual(
        payments.map(({ amount }) => amount),
        ['3.000', '2.500', '1.000'],
      )
      const page = (await invoices.listPayments(ours.id, invoice.id, 2, null)) ?? []
      assert.deepEqual(page, payments.slice(0, 2))
      assert.deepEqual(
        await invoices.listPayments(ours.id, invoice.id, 2, page[1]?.id ?? null),
        payments.slice(2),
      )
      for (const id of ['inv_none', '']) {
        assert.equal(await invoices.listPayments(ours.id, id, 10, null), null)
      }
      assert.equal(await theirs.store.invoices.listPayments(theirs.id, invoice.id, 10, null), null)
    },
  )
}
