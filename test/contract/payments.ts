import assert from 'node:assert/strict'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { Invoice, InvoiceRecord, Settlement } from '../../lib/resources/invoices.ts'
import { type EventRecord, toEventRecord } from '../../lib/writes/event-envelope.ts'
import { placeholder } from '../../lib/writes/placeholders.ts'
import { changeClaim, dataOf, listed, settlement, verbs } from './changing.ts'
import type { StoreHarness } from './harness.ts'
import { createInvoice, MOMENT, money, type PaymentOutcome, settle } from './paying.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that payments are exact to the last minor unit, and settle an invoice once. */
export function testPayments(harness: StoreHarness): void {
  testAmounts(harness)
  testRefusals(harness)
  testStatuses(harness)
  testSettling(harness)
}

const PAYABLE = ['issued', 'partially_paid', 'overdue']

function pay(
  tenant: Tenant,
  recordId: string,
  amount: string,
  changes: Partial<Settlement> = {},
  through?: BusinessApiStore,
): Promise<PaymentOutcome> {
  const events = [event('payment.received')]
  const set = settlement(amount, { settledEvents: [event('invoice.paid')], ...changes })
  return settle(tenant, recordId, set, { from: PAYABLE, events, through })
}

function event(type: string): EventRecord {
  const data = {
    amount: placeholder('amount'),
    paid: placeholder('amountPaid'),
    due: placeholder('amountDue'),
  }
  return toEventRecord(ids('evt'), type, data, Date.parse(MOMENT))
}

async function recorded(tenant: Tenant): Promise<readonly unknown[]> {
  return (await tenant.events()).map((one) => [one.type, ...Object.values(dataOf(one))])
}

function testAmounts(harness: StoreHarness): void {
  const plans: Record<string, readonly [total: string, ...payments: [string, string, string, string][]]> = {
    TND: ['0.300', ['0.1', '0.100', '0.100', '0.200'], ['0.200000000000', '0.200', '0.300', '0.000']],
    EUR: [
      '99999999999999.99',
      ['00.01', '0.01', '0.01', '99999999999999.98'],
      ['99999999999999.9', '99999999999999.90', '99999999999999.91', '0.08'],
      ['0.08', '0.08', '99999999999999.99', '0.00'],
    ],
    JPY: ['900', ['1', '1', '1', '899'], ['899.00', '899', '900', '0']],
    CLF: ['1.0000', ['0.0001', '0.0001', '0.0001', '0.9999'], ['0.9999', '0.9999', '1.0000', '0.0000']],
  }
  for (const [currency, [total, ...payments]] of Object.entries(plans)) {
    harness.test(
      `invoices.pay() adds up ${currency} to the last minor unit, and to exactly zero`,
      async () => {
        const tenant = await createTenant(harness)
        const id = await createInvoice(tenant, { currency, total })
        for (const [index, [amount, , paid, due]] of payments.entries()) {
          const status = index === payments.length - 1 ? 'paid' : 'partially_paid'
          assert.deepEqual(money(await pay(tenant, id, amount)), [status, paid, due])
        }
        const received = payments.map(([, amount, paid, due]) => ['payment.received', amount, paid, due])
        const [, ...last] = received.at(-1) ?? []
        assert.deepEqual(await recorded(tenant), [...received, ['invoice.paid', ...last]])
      },
    )
  }

  harness.test(
    'invoices.pay() uses the decimals that the invoice was created with, in any currency',
    async () => {
      const tenant = await createTenant(harness)
      const id = await createInvoice(tenant, { currency: 'HUF', total: '10', minorUnits: 0 })
      const finer = await createInvoice(tenant, { currency: 'JPY', total: '10', minorUnits: 3 })
      assert.equal((await pay(tenant, id, '0.5')).outcome, 'refused')
      assert.deepEqual(money(await pay(tenant, id, '3')), ['partially_paid', '3', '7'])
      assert.deepEqual(money(await pay(tenant, finer, '0.125')), ['partially_paid', '0.125', '9.875'])
    },
  )
}

function testRefusals(harness: StoreHarness): void {
  const cases: [what: string, invoice: Partial<InvoiceRecord>, amount: string, reason: string][] = [
    ['too fine for TND', {}, '0.0001', 'too_fine'],
    ['too fine for EUR', { currency: 'EUR', total: '10.00' }, '0.001', 'too_fine'],
    ['too fine for JPY', { currency: 'JPY', total: '10' }, '0.1', 'too_fine'],
    ['too fine, and more than is due', { currency: 'JPY', total: '10' }, '10.5', 'too_fine'],
    ['a minor unit more than is due', {}, '1250.001', 'overpaid'],
    ['a minor unit more than is due after a payment', { amountPaid: '1249.999' }, '0.002', 'overpaid'],
    ['more than is due by far', {}, '999999999999999', 'overpaid'],
    ['of a state that may not be paid', { status: 'draft' }, '1', 'state'],
    [
      'of an invoice that is settled',
      { status: 'paid', total: '1.000', amountPaid: '1.000' },
      '0.001',
      'state',
    ],
    ['of a state that may not be paid, and too fine', { status: 'void' }, '0.0001', 'state'],
  ]
  harness.test(
    'invoices.pay() rejects an amount that is too precise or too large, and an invoice in a state without payments, and changes nothing',
    async () => {
      const tenant = await createTenant(harness)
      for (const [what, invoice, amount, reason] of cases) {
        const id = await createInvoice(tenant, invoice)
        const before = await listed(tenant, verbs.invoice, id)
        const { status: state = 'issued' } = invoice
        assert.deepEqual(await pay(tenant, id, amount), { outcome: 'refused', state, reason }, what)
        assert.deepEqual(await listed(tenant, verbs.invoice, id), before, what)
      }
      assert.deepEqual(await tenant.events(), [])
    },
  )

  harness.test('a rejected payment does not use up the idempotency key or the id', async () => {
    const tenant = await createTenant(harness)
    const id = await createInvoice(tenant)
    const set = settlement('1250.001')
    const choices = { id: ids('chg'), from: PAYABLE, idempotency: changeClaim() }
    assert.equal((await settle(tenant, id, set, choices)).outcome, 'refused')
    const fitting = { ...set, payment: { ...set.payment, amount: '1250' } }
    assert.equal((await settle(tenant, id, fitting, choices)).outcome, 'changed')
  })
}

function testStatuses(harness: StoreHarness): void {
  harness.test(
    'invoices.pay() sets the status listed for the current one if the invoice is unsettled, or keeps it',
    async () => {
      const tenant = await createTenant(harness)
      for (const [status, then] of [
        ['issued', 'partially_paid'],
        ['partially_paid', 'partially_paid'],
        ['overdue', 'overdue'],
      ] as const) {
        const id = await createInvoice(tenant, { status })
        assert.deepEqual(money(await pay(tenant, id, '1249.999')), [then, '1249.999', '0.001'])
        assert.deepEqual(money(await pay(tenant, id, '0.001')), ['paid', '1250.000', '0.000'])
      }
    },
  )

  harness.test(
    'invoices.pay() does not know any statuses because the caller provides all names',
    async () => {
      const tenant = await createTenant(harness)
      const names = { settledStatus: "it's done", unsettledStatus: { issued: 'a "half"' } }
      const id = await createInvoice(tenant)
      assert.deepEqual(money(await pay(tenant, id, '1', names)), ['a "half"', '1.000', '1249.000'])
      const other = await createInvoice(tenant)
      assert.deepEqual(money(await pay(tenant, other, '1250', names)), ["it's done", '1250.000', '0.000'])
    },
  )
}

function testSettling(harness: StoreHarness): void {
  harness.test(
    'of 30 concurrent payments in two processes that settle an invoice together, a single one settles it',
    async () => {
      const tenant = await createTenant(harness)
      const id = await createInvoice(tenant, { total: '0.030' })
      const { store, secondStore } = tenant
      const outcomes = await Promise.all(
        Array.from({ length: 30 }, (_, index) =>
          pay(tenant, id, '0.001', {}, index % 2 === 0 ? store : secondStore),
        ),
      )
      const settled = outcomes.map(money).filter((shown) => Array.isArray(shown) && shown[0] === 'paid')
      assert.deepEqual(settled, [['paid', '0.030', '0.000']])
      const events = await recorded(tenant)
      const paid = events.flatMap((one) =>
        Array.isArray(one) && one[0] === 'payment.received' ? [one[2]] : [],
      )
      assert.deepEqual(
        paid.toSorted(),
        Array.from({ length: 30 }, (_, index) => `0.0${String(index + 1).padStart(2, '0')}`),
        'each has added to what the one before has left',
      )
      assert.deepEqual(
        events.filter((one) => Array.isArray(one) && one[0] === 'invoice.paid'),
        [['invoice.paid', '0.001', '0.030', '0.000']],
      )
    },
  )

  harness.test('of 12 concurrent payments of which five fit, five are accepted', async () => {
    const tenant = await createTenant(harness)
    const id = await createInvoice(tenant, { currency: 'EUR', total: '10.99' })
    const { store, secondStore } = tenant
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        pay(tenant, id, '2.00', {}, index % 2 === 0 ? store : secondStore),
      ),
    )
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'changed').length, 5)
    for (const outcome of outcomes) {
      if (outcome.outcome === 'refused') assert.equal(outcome.reason, 'overpaid')
    }
    const { amountPaid, amountDue } = (await listed(tenant, verbs.invoice, id)) as Invoice
    assert.deepEqual([amountPaid, amountDue], ['10.00', '0.99'])
    assert.equal((await tenant.events()).length, 5)
  })
}
