import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'

// The `fields` of an error are those its message is about.

const ORG = 'org_42'
const platform = createPlatform(createMemoryStore())
const invoice = { currency: 'TND', total: '10', dueDate: '2099-04-01T00:00:00Z' }
const payment = { id: 'pay_1', invoiceId: 'inv_1', amount: '1', receivedAt: '2026-03-01T00:00:00Z' }
const proposal = { title: 'A', currency: 'TND', total: 1.25 }

async function issued(): Promise<string> {
  const { id } = await platform.invoices.create(ORG, invoice)
  await platform.invoices.issue(ORG, { invoiceId: id })
  return id
}

const CASES: readonly [what: string, fields: readonly string[], () => Promise<unknown>][] = [
  [
    'a total finer than the currency',
    ['total'],
    () => platform.invoices.create(ORG, { ...invoice, total: '1.2345' }),
  ],
  [
    'a due date before the issue date',
    ['dueDate', 'issueDate'],
    () => platform.invoices.create(ORG, { ...invoice, issueDate: '2099-05-01T00:00:00Z' }),
  ],
  [
    'a payment finer than the currency',
    ['amount'],
    async () => platform.invoices.recordPayment(ORG, { invoiceId: await issued(), amount: '1.2345' }),
  ],
  [
    'a payment of more than is due',
    ['amount'],
    async () => platform.invoices.recordPayment(ORG, { invoiceId: await issued(), amount: '11' }),
  ],
  [
    'a price finer than the currency',
    ['total', 'monthlyTotal'],
    () => platform.proposals.create(ORG, { ...proposal, currency: 'JPY' }),
  ],
  [
    'an import without its invoice',
    ['invoiceId'],
    () => platform.import(ORG, [{ kind: 'payment', record: payment }]),
  ],
  [
    'an event with wrong data',
    ['data.invoiceId', 'data.number'],
    () => platform.publish(ORG, 'invoice.paid', {} as never),
  ],
  ['an unknown event', ['type'], () => platform.publish(ORG, 'invoice.payed' as never, {} as never)],
  [
    'an id of an event with a space',
    ['id'],
    () => platform.publish(ORG, 'invoice.paid', { invoiceId: 'inv_1', number: '1' }, { id: 'a b' }),
  ],
]

for (const [what, fields, call] of CASES) {
  test(`${what} names ${fields.join(' and ')}`, async () => {
    await assert.rejects(call, { name: 'BusinessApiError', fields })
  })
}
