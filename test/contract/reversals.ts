import assert from 'node:assert/strict'
import type { AuditRecord } from '../../lib/access/audit.ts'
import type { Invoice, Payment, Settlement } from '../../lib/resources/invoices.ts'
import { overdueRequest } from '../../lib/resources/overdue.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from './audit-entry.ts'
import { changeClaim, dataOf, eventTemplate, invoiceItem, listed, settlement, verbs } from './changing.ts'
import type { StoreHarness } from './harness.ts'
import {
  createInvoice,
  MOMENT,
  money,
  moneyOf,
  type PaymentOutcome,
  type SettleChoices,
  settle,
} from './paying.ts'
import { callAtOnce, createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that a payment is reversed once, by its own row. */
export function testReversals(harness: StoreHarness): void {
  testRows(harness)
  testStatuses(harness)
  testRefusals(harness)
  testRepeats(harness)
  testNothingDue(harness)
}

const STATUSES = {
  'paid past due': 'late',
  'paid unpaid': 'open again',
  paid: 'half',
  'partially_paid unpaid': 'open again',
  partially_paid: 'half',
}

async function pay(tenant: Tenant, recordId: string, amount: string): Promise<string> {
  const set = settlement(amount)
  assert.equal((await settle(tenant, recordId, set)).outcome, 'changed')
  return set.payment.id
}

interface Choices extends SettleChoices {
  /** The id of the reversal. */
  readonly back?: string
  readonly entry?: AuditRecord
}

function reversalOf(paymentId: string, id = ids('pay'), entry = newEntry()): Settlement {
  const payment = { id, amount: '0', receivedAt: MOMENT }
  return settlement('0', { payment, unsettledStatus: STATUSES, reverses: { paymentId, entry } })
}

function reverse(
  tenant: Tenant,
  recordId: string,
  paymentId: string,
  { back, entry, ...choices }: Choices = {},
): Promise<PaymentOutcome> {
  return settle(tenant, recordId, reversalOf(paymentId, back, entry), choices)
}

async function paymentsOf({ id, store }: Tenant, invoiceId: string): Promise<readonly Payment[]> {
  return (await store.invoices.listPayments(id, invoiceId, 100, null)) ?? []
}

function testRows(harness: StoreHarness): void {
  const totals: Record<string, readonly [total: string, paid: string, left: string]> = {
    TND: ['1250.000', '0.100', '1249.900'],
    EUR: ['99999999999999.99', '0.01', '99999999999999.98'],
    JPY: ['900', '1', '899'],
    CLF: ['1.0000', '0.9999', '0.0001'],
  }
  for (const [currency, [total, paid, left]] of Object.entries(totals)) {
    harness.test(`invoices.pay() reverses a payment in ${currency} with its own row`, async () => {
      const tenant = await createTenant(harness)
      const id = await createInvoice(tenant, { currency, total, dueDate: '2999-01-01T00:00:00.000Z' })
      const [first, second] = [await pay(tenant, id, paid), await pay(tenant, id, left)]
      const entry = newEntry({ action: 'payment.reversed', subjectId: first, details: { invoiceId: id } })
      const outcome = await reverse(tenant, id, first, { entry })
      assert.ok(outcome.outcome === 'changed', outcome.outcome)
      const { invoice, payment } = outcome.representation
      assert.deepEqual(moneyOf(invoice), ['half', left, paid])
      assert.deepEqual(payment, { id: payment.id, amount: `-${paid}`, receivedAt: MOMENT })
      assert.deepEqual(await paymentsOf(tenant, id), [
        payment,
        { id: second, amount: left, receivedAt: MOMENT },
        { id: first, amount: paid, receivedAt: MOMENT, reversedBy: payment.id },
      ])
      assert.deepEqual(await listed(tenant, verbs.invoice, id), invoice)
      const [recorded] = await tenant.store.audit.list(tenant.id, {}, 1, null)
      assert.deepEqual(recorded, { ...entry, at: recorded?.at })
      assert.deepEqual(await tenant.events(), [])
    })
  }

  harness.test(
    'invoices.pay() of a reversal publishes the events of the change, with the fields of the invoice',
    async () => {
      const tenant = await createTenant(harness)
      const id = await createInvoice(tenant)
      const paymentId = await pay(tenant, id, '1')
      const set = reversalOf(paymentId)
      const events = [eventTemplate(verbs.invoice, invoiceItem('issued'))]
      const choices = { events, idempotency: changeClaim() }
      assert.equal((await settle(tenant, id, set, choices)).outcome, 'changed')
      const [event, ...others] = await tenant.events()
      assert.deepEqual([Object(event && dataOf(event).fields).amountDue, others], ['1250.000', []])
      assert.equal((await settle(tenant, id, set, choices)).outcome, 'replayed')
    },
  )
}

function testStatuses(harness: StoreHarness): void {
  harness.test(
    'invoices.pay() of a reversal sets the status according to the current one, the due date and what is left',
    async () => {
      const [past, future] = ['2020-01-01T00:00:00.000Z', '2999-01-01T00:00:00.000Z']
      const cases: [status: string, dueDate: string, rest: string, then: string][] = [
        ['partially_paid', past, '0', 'open again'],
        ['partially_paid', past, '1', 'half'],
        ['partially_paid', future, '0', 'open again'],
        ['partially_paid', future, '1', 'half'],
        ['paid', past, '0', 'late'],
        ['paid', past, '1', 'late'],
        ['paid', future, '0', 'open again'],
        ['paid', future, '1', 'half'],
        ['overdue', past, '0', 'overdue'],
        ['overdue', future, '1', 'overdue'],
        ['it\'s "else"', past, '0', 'it\'s "else"'],
      ]
      const tenant = await createTenant(harness)
      for (const [status, dueDate, rest, then] of cases) {
        const id = await createInvoice(tenant, { status, dueDate, issueDate: past })
        if (rest !== '0') await pay(tenant, id, rest)
        const paymentId = await pay(tenant, id, '2')
        const change = { organizationId: tenant.id, id: ids('chg'), recordId: id, from: null, events: [] }
        await tenant.store.invoices.change({ ...change, set: { status }, idempotency: null })
        const left = await reverse(tenant, id, paymentId)
        assert.deepEqual(
          money(left),
          [then, `${rest}.000`, `${1250 - Number(rest)}.000`],
          `${status}, ${dueDate}`,
        )
      }
    },
  )
}

function testRefusals(harness: StoreHarness): void {
  harness.test(
    'invoices.pay() only reverses payments of the invoice, and otherwise changes nothing',
    async () => {
      const [tenant, stranger] = [await createTenant(harness), await createTenant(harness)]
      const [id, other, theirs] = [
        await createInvoice(tenant),
        await createInvoice(tenant),
        await createInvoice(stranger),
      ]
      const [paid, kept, foreign] = [
        await pay(tenant, id, '1'),
        await pay(tenant, id, '2'),
        await pay(stranger, theirs, '3'),
      ]
      const elsewhere = await pay(tenant, other, '4')
      const back = ids('pay')
      assert.equal((await reverse(tenant, id, paid, { back })).outcome, 'changed')
      const before = [await paymentsOf(tenant, id), await listed(tenant, verbs.invoice, id)]
      const entries = await tenant.store.audit.list(tenant.id, {}, 100, null)
      const cases: [what: string, paymentId: string, reason: string, choices?: Choices][] = [
        ['an unknown id', 'pay_unknown', 'no_payment'],
        ['an empty id', '', 'no_payment'],
        ['of another invoice', elsewhere, 'no_payment'],
        ['of another organization', foreign, 'no_payment'],
        ['a reversal', back, 'reversed'],
        ['reversed before', paid, 'reversed'],
        ['by the id of a payment', kept, 'id_taken', { back: paid }],
        ['by the id of another reversal', kept, 'id_taken', { back }],
        ['by its own id', kept, 'id_taken', { back: kept }],
        ['from a state that is not allowed', kept, 'state', { from: ['paid'] }],
      ]
      for (const [what, paymentId, reason, choices] of cases) {
        const outcome = await reverse(tenant, id, paymentId, choices)
        assert.ok(outcome.outcome === 'refused', what)
        assert.equal(outcome.reason, reason, what)
      }
      assert.deepEqual(await reverse(tenant, theirs, foreign), { outcome: 'not_found' })
      assert.deepEqual([await paymentsOf(tenant, id), await listed(tenant, verbs.invoice, id)], before)
      assert.deepEqual(await tenant.store.audit.list(tenant.id, {}, 100, null), entries)
    },
  )
}

function testRepeats(harness: StoreHarness): void {
  harness.test('a reversal that is repeated, by its change or its id, is only applied once', async () => {
    const tenant = await createTenant(harness)
    const id = await createInvoice(tenant)
    const paymentId = await pay(tenant, id, '1250')
    const choices = { back: ids('pay'), id: ids('chg') }
    const first = await reverse(tenant, id, paymentId, choices)
    await pay(tenant, id, '5')
    const entries = (await tenant.store.audit.list(tenant.id, {}, 100, null)).length
    for (const again of [choices, { back: choices.back }]) {
      const repeated = await reverse(tenant, id, paymentId, { ...again, through: tenant.secondStore })
      assert.ok(repeated.outcome === 'changed' && first.outcome === 'changed', repeated.outcome)
      const { invoice, payment } = repeated.representation
      assert.equal(invoice.amountPaid, '5.000')
      assert.deepEqual(payment, first.representation.payment)
    }
    assert.equal((await paymentsOf(tenant, id)).length, 3)
    assert.equal((await tenant.store.audit.list(tenant.id, {}, 100, null)).length, entries)
  })

  harness.test('of ten concurrent reversals of a payment in two processes, one succeeds', async () => {
    const tenant = await createTenant(harness)
    const id = await createInvoice(tenant)
    await pay(tenant, id, '10')
    const paymentId = await pay(tenant, id, '0.5')
    const outcomes = await callAtOnce(tenant, (through) => reverse(tenant, id, paymentId, { through }))
    const refused = outcomes.filter((each) => each.outcome === 'refused' && each.reason === 'reversed')
    assert.deepEqual([outcomes.filter(({ outcome }) => outcome === 'changed').length, refused.length], [1, 9])
    assert.equal(((await listed(tenant, verbs.invoice, id)) as Invoice).amountPaid, '10.000')
    assert.equal((await paymentsOf(tenant, id)).length, 3)
  })

  harness.test('of ten concurrent reversals with one id in two processes, one is written', async () => {
    const tenant = await createTenant(harness)
    const id = await createInvoice(tenant)
    const paymentId = await pay(tenant, id, '0.5')
    const back = ids('pay')
    const outcomes = await callAtOnce(tenant, (through) => reverse(tenant, id, paymentId, { back, through }))
    assert.deepEqual([...new Set(outcomes.map(({ outcome }) => outcome))], ['changed'])
    assert.deepEqual(
      (await paymentsOf(tenant, id)).map(({ amount }) => amount),
      ['-0.500', '0.500'],
    )
  })

  harness.test(
    'after concurrent payments and reversals, the sum of the rows is the amount paid',
    async () => {
      const tenant = await createTenant(harness)
      const id = await createInvoice(tenant)
      const paid = await Promise.all(Array.from({ length: 5 }, () => pay(tenant, id, '1.001')))
      let next = 0
      await callAtOnce(tenant, async (through) => {
        const paymentId = paid[next++]
        if (paymentId) await reverse(tenant, id, paymentId, { through })
        else await pay({ ...tenant, store: through }, id, '0.010')
      })
      const sum = (await paymentsOf(tenant, id)).reduce(
        (all, { amount }) => all + Math.round(Number(amount) * 1000),
        0,
      )
      assert.equal(sum, 50)
      assert.equal(((await listed(tenant, verbs.invoice, id)) as Invoice).amountPaid, '0.050')
    },
  )
}

function testNothingDue(harness: StoreHarness): void {
  harness.test('markOverdue() ignores an invoice with nothing to pay', async () => {
    const tenant = await createTenant(harness)
    const dueDate = toTimestamp(Date.UTC(2020, 0, 1))
    await createInvoice(tenant, { total: '0', dueDate, issueDate: dueDate })
    const which = { organizationId: tenant.id, asOf: null, limit: 10 }
    const request = overdueRequest(which, { now: Date.now() })
    assert.deepEqual(await tenant.store.invoices.markOverdue(request), [])
  })
}
