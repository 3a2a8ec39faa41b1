import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ImportRecord, Platform } from '../../lib/platform.ts'
import { businessOf } from '../_business.ts'
import { untilWaiting } from '../_waiting.ts'
import { describeOnEveryStore, type Host, type NewHost, openPostgres } from './_platform.ts'

// Imports existing records like a host does. The rules for stores are in test/store.

const MOMENT = '2019-03-14T09:26:53.589Z'

const BUSINESS = businessOf({ id: 'biz_1', city: 'Tunis', email: 'a@b.example' })
const CLIENT = {
  id: 'cli_1',
  status: 'active',
  totalRevenue: 10.5,
  monthlyRevenue: 0,
  convertedAt: MOMENT,
} as const
const INVOICE = {
  id: 'inv_1',
  number: 'INV-2019-0041',
  status: 'paid',
  currency: 'TND',
  issueDate: MOMENT,
  dueDate: MOMENT,
  total: '1250',
} as const
const INVOICE_DRAFT = { ...INVOICE, status: 'draft' } as const
const PAYMENT = { id: 'pay_1', amount: '1250.0', receivedAt: new Date(MOMENT) }
const PROPOSAL = {
  id: 'prop_1',
  number: 'PROP-2019-0007',
  title: 'Website',
  status: 'accepted',
  total: 100,
  currency: 'TND',
} as const
const LEAD = { id: 'lead_1', businessId: 'biz_1', stage: 'won', leadScore: 70, createdAt: MOMENT } as const
const PROJECT = {
  id: 'proj_1',
  name: 'Relaunch',
  status: 'completed',
  billingType: 'fixed',
  value: 5,
} as const

const RECORDS: readonly ImportRecord[] = [
  { kind: 'client', record: { ...CLIENT, business: BUSINESS } },
  { kind: 'lead', record: LEAD },
  { kind: 'proposal', record: { ...PROPOSAL, signature: { signedBy: 'Amel', signedAt: MOMENT } } },
  { kind: 'invoice', record: { ...INVOICE, payments: [PAYMENT] } },
  { kind: 'project', record: PROJECT },
]

/** A record without the time it was written. */
function undated<Stored extends { readonly updatedAt: string }>({ updatedAt: _, ...shown }: Stored) {
  return shown
}

/** Returns what the host's reads show in the form of an import. */
async function exported({ organizationId, platform }: Host<Platform>): Promise<readonly ImportRecord[]> {
  const kinds = ['business', 'client', 'lead', 'proposal', 'invoice', 'project'] as const
  const lists = kinds.map(async (kind) => {
    const calls = { ...platform, business: platform.businesses }
    const { data } =
      kind === 'business'
        ? await calls.business.list(organizationId)
        : await calls[`${kind}s`].list(organizationId)
    return data.map((record) => ({ kind, record }) as ImportRecord)
  })
  return (await Promise.all(lists)).flat()
}

describeOnEveryStore((newHost) => {
  testResults(newHost)
  testRefusals(newHost)
})

function testResults(newHost: NewHost): void {
  test('import writes records with their own ids, dates and final statuses and publishes nothing', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    assert.deepEqual(await platform.import(organizationId, RECORDS), { added: 5, known: 0, different: [] })
    const client = undated(await platform.clients.get(organizationId, 'cli_1'))
    assert.deepEqual(client, { ...CLIENT, business: BUSINESS })
    assert.deepEqual(undated(await platform.leads.get(organizationId, 'lead_1')), {
      ...LEAD,
      scoreBand: 'hot',
      expectedValue: null,
    })
    const invoice = await platform.invoices.get(organizationId, 'inv_1')
    assert.deepEqual(
      [invoice.total, invoice.amountPaid, invoice.amountDue],
      ['1250.000', '1250.000', '0.000'],
    )
    const { data: payments } = await platform.invoices.payments(organizationId, 'inv_1')
    assert.deepEqual(payments, [{ id: 'pay_1', amount: '1250.000', receivedAt: MOMENT }])
    const { signature } = await platform.proposals.get(organizationId, 'prop_1')
    assert.deepEqual(signature, { signedBy: 'Amel', signedAt: MOMENT })
    assert.deepEqual(await host.events(), [])
  })

  test('import counts existing records, and reports and keeps those that differ', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    await platform.import(organizationId, RECORDS)
    const before = await host.everything()
    assert.deepEqual(await platform.import(organizationId, RECORDS), { added: 0, known: 5, different: [] })
    const changed: ImportRecord = {
      kind: 'client',
      record: { ...CLIENT, business: { ...BUSINESS, name: 'B' } },
    }
    const project: ImportRecord = { kind: 'project', record: { ...PROJECT, id: 'proj_2' } }
    assert.deepEqual(await platform.import(organizationId, [project, changed, project]), {
      added: 1,
      known: 1,
      different: [{ index: 1, kind: 'business', id: 'biz_1' }],
    })
    const { data } = await platform.clients.list(organizationId)
    assert.deepEqual(data.map(undated), [{ ...CLIENT, business: BUSINESS }])
    assert.notDeepEqual(await host.everything(), before)
  })

  test('import counts a record as added even if part of it existed with other values, and reports that part', async () => {
    const { organizationId, platform } = await newHost()
    const other = {
      ...INVOICE,
      id: 'inv_0',
      number: 'R-1',
      total: '1',
      payments: [{ ...PAYMENT, amount: '1' }],
    }
    await platform.import(organizationId, [
      { kind: 'business', record: { ...BUSINESS, name: 'B' } },
      { kind: 'invoice', record: other },
    ])
    const records: readonly ImportRecord[] = [
      { kind: 'client', record: { ...CLIENT, business: BUSINESS } },
      { kind: 'invoice', record: { ...INVOICE, payments: [PAYMENT] } },
    ]
    const different = [
      { index: 0, kind: 'business', id: 'biz_1' },
      { index: 1, kind: 'payment', id: 'pay_1' },
    ]
    assert.deepEqual(await platform.import(organizationId, records), { added: 2, known: 0, different })
    assert.equal((await platform.clients.get(organizationId, 'cli_1')).business.name, 'B')
    assert.equal((await platform.invoices.get(organizationId, 'inv_1')).amountPaid, '1250.000')
    assert.deepEqual(await platform.import(organizationId, records), { added: 0, known: 0, different })
    const changed: ImportRecord = {
      kind: 'invoice',
      record: { ...INVOICE, number: 'R-2', payments: [{ ...PAYMENT, id: 'pay_2' }] },
    }
    assert.deepEqual(await platform.import(organizationId, [changed]), {
      added: 0,
      known: 0,
      different: [{ index: 0, kind: 'invoice', id: 'inv_1' }],
    })
    assert.deepEqual((await platform.invoices.payments(organizationId, 'inv_1')).data, [])
  })

  test('import accepts what the reads return in another organization, repeatedly', async () => {
    const [from, to] = [await newHost(), await newHost()]
    await from.platform.import(from.organizationId, RECORDS)
    const { id } = await from.platform.clients.create(from.organizationId, { name: 'New' })
    await from.platform.clients.setStatus(from.organizationId, { clientId: id, status: 'inactive' })
    const records = await exported(from)
    const { added } = await to.platform.import(to.organizationId, records)
    assert.equal(added, records.length)
    // The time of writing isn't imported.
    const undatedAll = (all: readonly ImportRecord[]) =>
      all.map(({ kind, record }) => ({ kind, record: undated({ updatedAt: '', ...record }) }))
    assert.deepEqual(undatedAll(await exported(to)), undatedAll(records))
    assert.equal((await to.platform.import(to.organizationId, records)).known, records.length)
  })

  test('import makes series of numbers continue after the imported numbers', async () => {
    const { organizationId, platform } = await newHost()
    await platform.import(organizationId, [
      { kind: 'invoice', record: INVOICE_DRAFT },
      { kind: 'invoice', record: { ...INVOICE_DRAFT, id: 'inv_2', number: 'INV-2019-00099' } },
      { kind: 'invoice', record: { ...INVOICE_DRAFT, id: 'inv_3', number: 'R-17' } },
    ])
    const next = await platform.invoices.create(organizationId, {
      currency: 'TND',
      total: '1',
      issueDate: MOMENT,
      dueDate: MOMENT,
    })
    assert.equal(next.number, 'INV-2019-0042', 'a number of another form moves nothing')
  })
}

function testRefusals(newHost: NewHost): void {
  const wrong: readonly (readonly [name: string, record: unknown, message: RegExp])[] = [
    ['no kind', {}, /^Cannot import record 1 because kind must be given; record must be given/],
    [
      'an unknown kind',
      { kind: 'order', record: {} },
      /record 1 because kind must be one of business, client/,
    ],
    [
      'another form of an id',
      { kind: 'project', record: { ...PROJECT, id: '42' } },
      /record 1 \(project 42\) because id must be proj_ and 1 to 59 letters, digits, hyphens and underscores/,
    ],
    [
      'unknown fields',
      { kind: 'invoice', record: { ...INVOICE_DRAFT, payment: [] } },
      /\(invoice inv_1\) because it has unknown fields: payment$/,
    ],
    [
      'a status of another spelling',
      { kind: 'client', record: { ...CLIENT, status: 'Active', businessId: 'biz_1' } },
      /because status must be one of active, inactive/,
    ],
    ['a client without a business', { kind: 'client', record: CLIENT }, /because it must have the business/],
    [
      'a business inside a client that cannot be used',
      { kind: 'client', record: { ...CLIENT, business: { ...BUSINESS, email: 'x' } } },
      /\(client cli_1\), its business, because email must be an email address/,
    ],
    [
      'a date without a time zone',
      { kind: 'lead', record: { ...LEAD, createdAt: '2019-03-14' } },
      /because createdAt must be a Date, or ISO 8601 with a time zone/,
    ],
    [
      'a paid invoice with money due',
      { kind: 'invoice', record: INVOICE },
      /its status is paid, and something is due/,
    ],
    [
      'payments that are not the amount paid',
      {
        kind: 'invoice',
        record: { ...INVOICE, amountPaid: '1250', payments: [{ ...PAYMENT, amount: '1' }] },
      },
      /its amountPaid must be the sum of its payments/,
    ],
    [
      'a payment finer than the currency',
      { kind: 'invoice', record: { ...INVOICE, payments: [{ ...PAYMENT, amount: '1.0001' }] } },
      /its payments can have at most \d decimals for [A-Z]{3}/,
    ],
    [
      'more paid than the total',
      { kind: 'invoice', record: { ...INVOICE, amountPaid: '1250.001' } },
      /its amountPaid exceeds its total/,
    ],
    [
      'the signature of a draft',
      {
        kind: 'proposal',
        record: { ...PROPOSAL, status: 'draft', signature: { signedBy: 'Amel', signedAt: MOMENT } },
      },
      /only an accepted proposal has a signature/,
    ],
  ]
  for (const [name, record, message] of wrong) {
    test(`import rejects ${name} and writes nothing of the call`, async () => {
      const host = await newHost()
      const before = await host.everything()
      const records = [RECORDS[0], record] as readonly ImportRecord[]
      await assert.rejects(host.platform.import(host.organizationId, records), {
        code: 'invalid_input',
        message,
      })
      assert.deepEqual(await host.everything(), before)
    })
  }

  test('import rejects an unknown business, a taken number and contradicting records', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const lead: ImportRecord = { kind: 'lead', record: LEAD }
    await assert.rejects(platform.import(organizationId, [lead]), {
      code: 'not_found',
      message: /record 0 \(lead lead_1\) because the organization has no business with its businessId/,
    })
    const invoice: ImportRecord = { kind: 'invoice', record: INVOICE_DRAFT }
    const second: ImportRecord = { kind: 'invoice', record: { ...INVOICE_DRAFT, id: 'inv_2' } }
    await assert.rejects(platform.import(organizationId, [invoice, second]), {
      code: 'already_exists',
      message: /record 1 \(invoice inv_2\) because record 0 \(invoice inv_1\) has the same number/,
    })
    await platform.import(organizationId, [invoice])
    await assert.rejects(platform.import(organizationId, [second]), {
      code: 'already_exists',
      message: /record 0 \(invoice inv_2\) because another record already has its number/,
    })
  })

  test('import rejects more than 500 records', async () => {
    const { organizationId, platform } = await newHost()
    const records = Array.from({ length: 501 }, (_, index): ImportRecord => {
      return { kind: 'project', record: { ...PROJECT, id: `proj_${index}` } }
    })
    await assert.rejects(platform.import(organizationId, records), { code: 'invalid_input' })
    assert.equal((await platform.import(organizationId, records.slice(1))).added, 500)
  })
}

describe('import in a transaction of the host', () => {
  const { newHost, sql } = openPostgres()

  test('is committed or rolled back with the transaction, which remains usable after a rejection', async () => {
    const { organizationId, platform } = await newHost()
    await sql()
      .begin(async (tx) => {
        assert.equal((await platform.using(tx).import(organizationId, RECORDS)).added, 5)
        throw new Error('rolled back')
      })
      .catch(() => {})
    assert.deepEqual((await platform.clients.list(organizationId)).data, [])
    await sql().begin(async (tx) => {
      const lead: ImportRecord = { kind: 'lead', record: LEAD }
      await assert.rejects(platform.using(tx).import(organizationId, [lead]), { code: 'not_found' })
      await platform.using(tx).import(organizationId, RECORDS)
    })
    assert.equal((await platform.clients.list(organizationId)).data.length, 1)
  })

  test('imports of payments of the same invoice wait, so that payments never exceed amountPaid', async () => {
    const { organizationId, platform } = await newHost()
    const invoice: ImportRecord = { kind: 'invoice', record: { ...INVOICE, amountPaid: '1250' } }
    await platform.import(organizationId, [invoice])
    const payment = (id: string): ImportRecord => {
      return { kind: 'payment', record: { ...PAYMENT, id, invoiceId: INVOICE.id } }
    }
    let second: Promise<unknown> | undefined
    await sql().begin(async (tx) => {
      await platform.using(tx).import(organizationId, [payment('pay_1')])
      second = platform.import(organizationId, [payment('pay_2')]).catch((error: unknown) => error)
      await untilWaiting(sql())
    })
    assert.match(String(await second), /the payments of its invoice exceed the amountPaid/)
    assert.equal((await platform.invoices.payments(organizationId, INVOICE.id)).data.length, 1)
  })
})
