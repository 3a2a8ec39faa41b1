import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createIds } from '../../lib/base/ids.ts'
import type { NewReversal } from '../../lib/platform.ts'
import { describeOnEveryStore, type Host, openPostgres, typesOf } from './_platform.ts'

// Reversed payments, and invoices with a total of zero.

const PAST = '2020-01-01T00:00:00.000Z'
const FUTURE = '2999-01-01T00:00:00.000Z'
const newId = createIds()

/** An issued invoice over 1250 TND. */
async function issued({ platform, organizationId }: Host, dueDate = FUTURE, total = '1250'): Promise<string> {
  const draft = { currency: 'TND', total, issueDate: PAST, dueDate }
  const { id: invoiceId } = await platform.invoices.create(organizationId, draft)
  await platform.invoices.issue(organizationId, { invoiceId })
  return invoiceId
}

async function pay({ platform, organizationId }: Host, invoiceId: string, amount: string): Promise<string> {
  return (await platform.invoices.recordPayment(organizationId, { invoiceId, amount })).payment.id
}

function reverse(
  { platform, organizationId }: Host,
  invoiceId: string,
  paymentId: string,
  given?: Partial<NewReversal>,
) {
  return platform.invoices.reversePayment(organizationId, { invoiceId, paymentId, ...given })
}

async function markOverdue({ platform, organizationId }: Host) {
  const marked = await platform.invoices.markOverdue(organizationId, {})
  // The database makes these events' ids, which aren't in order with other ids of the same millisecond.
  await sleep(2)
  return marked
}

describeOnEveryStore((newHost) => {
  const TABLE: readonly [before: string, dueDate: string, kept: string, after: string][] = [
    ['partially_paid', FUTURE, '0', 'issued'],
    ['partially_paid', FUTURE, '250', 'partially_paid'],
    ['paid', FUTURE, '0', 'issued'],
    ['paid', FUTURE, '250', 'partially_paid'],
    ['partially_paid', PAST, '0', 'issued'],
    ['partially_paid', PAST, '250', 'partially_paid'],
    ['paid', PAST, '0', 'overdue'],
    ['paid', PAST, '250', 'overdue'],
    ['overdue', PAST, '0', 'overdue'],
    ['overdue', PAST, '250', 'overdue'],
  ]
  for (const [before, dueDate, kept, after] of TABLE) {
    const due = dueDate === PAST ? 'after' : 'before'
    test(`invoices.reversePayment ${due} the due date: ${before} with ${kept} left of it becomes ${after}`, async () => {
      const host = await newHost()
      const invoiceId = await issued(host, dueDate)
      if (kept !== '0') await pay(host, invoiceId, kept)
      const paymentId = await pay(host, invoiceId, before === 'paid' ? String(1250 - Number(kept)) : '1')
      if (before === 'overdue') await markOverdue(host)
      const published = await typesOf(host)
      const { invoice, payment } = await reverse(host, invoiceId, paymentId)
      assert.deepEqual(
        [invoice.status, invoice.amountPaid, invoice.amountDue],
        [after, `${kept}.000`, `${1250 - Number(kept)}.000`],
      )
      assert.deepEqual(await typesOf(host), published, 'a reversal publishes nothing')
      const { updatedAt: _, ...read } = await host.platform.invoices.get(host.organizationId, invoiceId)
      assert.deepEqual(read, invoice)
      const { data } = await host.platform.invoices.payments(host.organizationId, invoiceId)
      const [reversal, reversed] = data
      assert.deepEqual(reversal, payment)
      assert.deepEqual([reversed?.reversedBy, payment.amount], [payment.id, `-${reversed?.amount}`])
      // An invoice that wasn't overdue becomes overdue once like any other.
      const isNew = dueDate === PAST && after !== 'overdue'
      assert.equal((await markOverdue(host)).length, isNew ? 1 : 0)
    })
  }

  test('an invoice that was overdue, paid and reversed is overdue without a second event and can be paid again', async () => {
    const host = await newHost()
    const invoiceId = await issued(host, PAST)
    await markOverdue(host)
    const paymentId = await pay(host, invoiceId, '1250')
    const { invoice } = await reverse(host, invoiceId, paymentId)
    assert.equal(invoice.status, 'overdue')
    assert.deepEqual(await markOverdue(host), [])
    await pay(host, invoiceId, '1250')
    assert.deepEqual(await typesOf(host), [
      'invoice.issued',
      'invoice.overdue',
      'payment.received',
      'invoice.paid',
      'payment.received',
      'invoice.paid',
    ])
    const ids = (await host.events()).map(({ id }) => id)
    assert.equal(new Set(ids).size, ids.length)
  })

  test("an invoice whose payments were all reversed can be voided, and its payments can't be reversed again", async () => {
    const host = await newHost()
    const invoiceId = await issued(host)
    const paymentId = await pay(host, invoiceId, '0.001')
    const { payment: reversal } = await reverse(host, invoiceId, paymentId)
    await host.platform.invoices.void(host.organizationId, { invoiceId })
    const everything = await host.everything()
    for (const id of [paymentId, reversal.id]) {
      await assert.rejects(reverse(host, invoiceId, id), { code: 'invalid_state', fields: ['paymentId'] })
    }
    assert.deepEqual(await host.everything(), everything)
  })

  test('invoices.reversePayment names what it rejects and changes nothing', async () => {
    const host = await newHost()
    const [invoiceId, other] = [await issued(host), await issued(host)]
    const [paymentId, elsewhere] = [await pay(host, invoiceId, '1'), await pay(host, other, '1')]
    const { payment: reversal } = await reverse(host, other, elsewhere)
    const everything = await host.everything()
    const cases: [given: object, code: string, message: RegExp][] = [
      [{ invoiceId: 'inv_unknown' }, 'not_found', /the organization has no such record/],
      [{ paymentId: elsewhere }, 'not_found', /the invoice has no payment with this id/],
      [{ paymentId: '\0' }, 'not_found', /the invoice has no payment with this id/],
      [{ paymentId: '__proto__' }, 'not_found', /the invoice has no payment with this id/],
      [
        { invoiceId: other, paymentId: reversal.id },
        'invalid_state',
        /it was reversed before, or is a reversal/,
      ],
      [
        { invoiceId: other, paymentId: elsewhere },
        'invalid_state',
        /it was reversed before, or is a reversal/,
      ],
      [{ id: elsewhere }, 'already_exists', /another payment has the id of the reversal/],
      [{ id: paymentId }, 'already_exists', /another payment has the id/],
      [{ id: 'pay_mine' }, 'invalid_input', /id must be pay_ and a ULID/],
      [{ reversedAt: 'yesterday' }, 'invalid_input', /reversedAt must be/],
      [{ actor: '' }, 'invalid_input', /actor must be/],
      [{ amount: '1' }, 'invalid_input', /amount is unknown/],
      [{ paymentID: paymentId }, 'invalid_input', /paymentID is unknown: did you mean 'paymentId'/],
      [{ paymentId: undefined }, 'invalid_input', /paymentId must be given/],
    ]
    for (const [given, code, message] of cases) {
      await assert.rejects(reverse(host, invoiceId, paymentId, given), { code, message })
    }
    assert.deepEqual(await host.everything(), everything)
  })

  test('invoices.reversePayment with the same id or key happens once, even later', async () => {
    const host = await newHost()
    const invoiceId = await issued(host)
    const paymentId = await pay(host, invoiceId, '250')
    const byId = { id: newId('pay'), reversedAt: PAST }
    const first = await reverse(host, invoiceId, paymentId, byId)
    assert.equal(first.payment.receivedAt, PAST)
    await pay(host, invoiceId, '5')
    const again = await reverse(host, invoiceId, paymentId, { id: byId.id })
    assert.deepEqual([again.invoice.amountPaid, again.payment], ['5.000', first.payment])

    const keyed = await pay(host, invoiceId, '7')
    const key = { idempotencyKey: 'dispute-17' }
    const once = await reverse(host, invoiceId, keyed, key)
    assert.deepEqual(await reverse(host, invoiceId, keyed, key), once)
    await assert.rejects(reverse(host, invoiceId, paymentId, key), { code: 'idempotency_key_reused' })
    const { data } = await host.platform.invoices.payments(host.organizationId, invoiceId)
    assert.equal(data.length, 5)
  })

  test("an invoice with a total of zero is paid when it's issued, and publishes both events", async () => {
    const host = await newHost()
    const { platform, organizationId } = host
    for (const [currency, total, shown] of [
      ['TND', '0', '0.000'],
      ['EUR', '0.0', '0.00'],
      ['JPY', '000', '0'],
    ]) {
      const draft = await platform.invoices.create(organizationId, {
        currency,
        total,
        issueDate: PAST,
        dueDate: PAST,
      } as never)
      assert.deepEqual([draft.status, draft.total, draft.amountDue], ['draft', shown, shown])
      const published = (await host.events()).length
      const invoiceId = draft.id
      const paid = await platform.invoices.issue(organizationId, { invoiceId, dueDate: FUTURE })
      assert.deepEqual(paid, { ...draft, status: 'paid', dueDate: FUTURE })
      const [first, second, ...others] = (await host.events()).slice(published)
      const named = { invoiceId, number: draft.number }
      assert.deepEqual(
        [first?.type, first?.data],
        ['invoice.issued', { ...named, currency, total: shown, dueDate: FUTURE }],
      )
      assert.deepEqual([second?.type, second?.data, others], ['invoice.paid', named, []])
      const payment = { invoiceId, amount: '1' }
      await assert.rejects(platform.invoices.recordPayment(organizationId, payment), {
        code: 'invalid_state',
      })
      await assert.rejects(platform.invoices.void(organizationId, { invoiceId }), { code: 'invalid_state' })
    }
    assert.deepEqual(await markOverdue(host), [])
  })

  test("an imported invoice with a total of zero is settled when it's issued and never overdue", async () => {
    const host = await newHost()
    const { platform, organizationId } = host
    const record = { currency: 'EUR', total: '0', issueDate: PAST, dueDate: PAST }
    await platform.import(organizationId, [
      { kind: 'invoice', record: { ...record, id: 'inv_1', number: 'R1', status: 'draft' } },
      { kind: 'invoice', record: { ...record, id: 'inv_2', number: 'R2', status: 'issued' } },
    ])
    assert.deepEqual(await markOverdue(host), [])
    assert.equal((await platform.invoices.issue(organizationId, { invoiceId: 'inv_1' })).status, 'paid')
  })

  test("a reversed payment can be imported in any order and doesn't count", async () => {
    const host = await newHost()
    const { platform, organizationId } = host
    const moments = { issueDate: PAST, dueDate: FUTURE }
    const invoice = {
      ...moments,
      id: 'inv_1',
      number: 'R1',
      currency: 'EUR',
      status: 'partially_paid',
      total: '100',
      amountPaid: '60',
    }
    const row = (id: string, amount: string, reversedBy?: string) =>
      ({
        kind: 'payment',
        record: { id, amount, receivedAt: PAST, invoiceId: 'inv_1', ...(reversedBy && { reversedBy }) },
      }) as const
    await platform.import(organizationId, [
      { kind: 'invoice', record: { ...invoice, status: 'partially_paid' } },
    ])
    const rows = [row('pay_0', '-100'), row('pay_1', '100', 'pay_0'), row('pay_2', '60.0')]
    for (const each of rows) assert.equal((await platform.import(organizationId, [each])).added, 1)
    assert.equal((await platform.import(organizationId, rows)).known, 3)
    const { data } = await platform.invoices.payments(organizationId, 'inv_1')
    assert.deepEqual(data, [
      { id: 'pay_2', amount: '60.00', receivedAt: PAST },
      { id: 'pay_1', amount: '100.00', receivedAt: PAST, reversedBy: 'pay_0' },
      { id: 'pay_0', amount: '-100.00', receivedAt: PAST },
    ])
    const different = await platform.import(organizationId, [row('pay_1', '100'), row('pay_0', '100')])
    assert.deepEqual(
      different.different.map(({ id }) => id),
      ['pay_1', 'pay_0'],
    )
    const reversed = await reverse(host, 'inv_1', 'pay_2')
    assert.equal(reversed.invoice.status, 'issued')
    const wrong: [given: ReturnType<typeof row>, message: RegExp][] = [
      [row('pay_3', '0.01'), /exceed the amountPaid/],
      [row('pay_3', '-0.001'), /more decimals than the invoice's currency/],
      [row('pay_3', '-0'), /amount must be a decimal string/],
      [row('pay_3', '5', 'inv_1'), /reversedBy must be pay_/],
    ]
    for (const [given, message] of wrong) {
      await assert.rejects(platform.import(organizationId, [given]), { code: 'invalid_input', message })
    }
    const { invoiceId: _, ...below } = row('pay_5', '-100').record
    const nested = { ...invoice, id: 'inv_2', number: 'R2', payments: [below] }
    await assert.rejects(
      platform.import(organizationId, [{ kind: 'invoice', record: { ...nested, status: 'partially_paid' } }]),
      {
        code: 'invalid_input',
        message: /its payment 1, because amount must be a decimal string above zero/,
      },
    )
  })
})

describe('in the host’s transaction', () => {
  const opened = openPostgres()

  test('a reversal is rolled back with the transaction, including its audit entry', async () => {
    const host = await opened.newHost()
    const { platform, organizationId, store } = host
    const invoiceId = await issued(host)
    const paymentId = await pay(host, invoiceId, '5')
    const before = [await host.everything(), await store.audit.list(organizationId, {}, 10, null)]
    const rollback = new Error('rollback')
    const work = opened.sql().begin(async (tx) => {
      const given = { invoiceId, paymentId, actor: 'user_7' }
      assert.equal(
        (await platform.using(tx).invoices.reversePayment(organizationId, given)).invoice.status,
        'issued',
      )
      throw rollback
    })
    await assert.rejects(work, rollback)
    assert.deepEqual([await host.everything(), await store.audit.list(organizationId, {}, 10, null)], before)
  })
})
