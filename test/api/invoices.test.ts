import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Invoice } from '../../lib/index.ts'
import { ids, listOf, plainCreation, request, startPlatform } from './_api.ts'
import { testList } from './_lists.ts'

const platform = await startPlatform()
after(() => platform.close())

const PATH = '/api/v1/invoices'

const INVOICE: Omit<Invoice, 'id' | 'number'> = {
  status: 'issued',
  currency: 'TND',
  issueDate: '2026-01-02T03:04:05.006Z',
  dueDate: '2026-02-01T00:00:00.000Z',
  total: '1250.000',
  amountPaid: '250.000',
  amountDue: '1000.000',
}

let numbers = 0

/** Creates an invoice for each set of changes, oldest first. */
async function seed(organizationId: string, changes: Partial<Invoice>[]): Promise<Invoice[]> {
  const invoices = changes.map((change): Invoice => {
    numbers++
    return { id: ids('inv'), number: `INV-${numbers}`, ...INVOICE, ...change }
  })
  await Promise.all(
    invoices.map((invoice) => platform.store.invoices.create(plainCreation(organizationId, invoice))),
  )
  return invoices
}

testList(platform, {
  path: PATH,
  seed: async (organizationId, count) =>
    (
      await seed(
        organizationId,
        Array.from({ length: count }, () => ({})),
      )
    ).map(({ id }) => id),
})

describe('GET /invoices', () => {
  test('GET /invoices returns all fields of an invoice and no others', async () => {
    const { id, key } = await platform.organization()
    const [invoice] = await seed(id, [{}])
    const listed = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(listed, [invoice])
    assert.deepEqual(Object.keys(listed[0] ?? {}), [
      'id',
      'number',
      'status',
      'currency',
      'issueDate',
      'dueDate',
      'total',
      'amountPaid',
      'amountDue',
    ])
  })

  const amounts: [currency: string, total: string, amountPaid: string, amountDue: string][] = [
    ['TND', '1250.000', '250.000', '1000.000'],
    ['TND', '0.001', '0.000', '0.001'],
    ['TND', '999999999999.999', '0.001', '999999999999.998'],
    ['EUR', '1000.50', '1000.50', '0.00'],
    ['EUR', '0.30', '0.10', '0.20'],
    ['EUR', '9007199254740.93', '0.01', '9007199254740.92'],
    ['JPY', '900', '0', '900'],
  ]
  for (const [currency, total, amountPaid, amountDue] of amounts) {
    test(`GET /invoices returns ${total} ${currency} minus ${amountPaid} as decimal strings`, async () => {
      const { id, key } = await platform.organization()
      await seed(id, [{ currency, total, amountPaid, amountDue }])
      const [invoice] = listOf(await request(platform.api, PATH, { key }))
      assert.deepEqual(
        [invoice?.total, invoice?.amountPaid, invoice?.amountDue],
        [total, amountPaid, amountDue],
      )
    })
  }

  test('GET /invoices returns any status stored by the host', async () => {
    const { id, key } = await platform.organization()
    const statuses = ['draft', 'issued', 'partially_paid', 'paid', 'overdue', 'void', 'disputed']
    await seed(
      id,
      statuses.map((status) => ({ status })),
    )
    const listed = listOf(await request(platform.api, PATH, { key }))
    assert.deepEqual(
      listed.map(({ status }) => status),
      statuses.toReversed(),
    )
  })
})
