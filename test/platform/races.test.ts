import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import type { Invoice } from '../../lib/resources/invoices.ts'
import { type Host, openPostgres, typesOf } from './_platform.ts'
import { invoiceIn, leadIn, proposalIn } from './_records.ts'

// Guarantees under concurrency on PostgreSQL, both in one process and in two.

const opened = openPostgres()

/** Makes a number of calls at once, every other one in the second process. */
function atOnce<T>(
  host: Host,
  processes: 1 | 2,
  count: number,
  call: (platform: Platform, index: number) => Promise<T>,
): Promise<PromiseSettledResult<T>[]> {
  const other = createPlatform(opened.secondStore())
  const calls = Array.from({ length: count }, (_, index) =>
    call(processes === 2 && index % 2 === 1 ? other : host.platform, index),
  )
  return Promise.allSettled(calls)
}

function fulfilled<T>(results: readonly PromiseSettledResult<T>[]): T[] {
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
}

/** Returns the codes of the rejected calls. */
function codesOf(results: readonly PromiseSettledResult<unknown>[]): Set<unknown> {
  return new Set(results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : [])))
}

async function countOf(host: Host, type: string): Promise<number> {
  return (await typesOf(host)).filter((one) => one === type).length
}

// --- Payments ---

/** Splits the total into 50 different payments in minor units. */
const PLANS = {
  TND: { decimals: 3, total: '1275.050' },
  EUR: { decimals: 2, total: '90071992547409.93' },
  JPY: { decimals: 0, total: '1275' },
} as const

/** Splits a number of minor units into 50 different parts. */
function split(total: bigint): bigint[] {
  const parts = Array.from({ length: 49 }, (_, index) => BigInt(index + 1))
  return [...parts, total - parts.reduce((sum, part) => sum + part, 0n)]
}

function toDecimal(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, '0')
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

for (const [currency, { decimals, total }] of Object.entries(PLANS)) {
  for (const processes of [1, 2] as const) {
    const where = processes === 1 ? 'in one process' : 'in two processes'
    test(`50 payments of ${currency} at once, ${where}, settle an invoice once to the last minor unit`, async () => {
      const host = await opened.newHost()
      const { organizationId } = host
      const { id: invoiceId } = await invoiceIn(host, 'issued', { currency, total })
      const parts = split(BigInt(total.replace('.', '')))
      const results = await atOnce(host, processes, 50, ({ invoices }, index) =>
        invoices.recordPayment(organizationId, {
          invoiceId,
          amount: toDecimal(parts[index] ?? 0n, decimals),
        }),
      )
      const invoices = fulfilled(results)
      assert.equal(invoices.length, 50)
      assert.equal(invoices.filter(({ invoice }) => invoice.status === 'paid').length, 1)
      await assertSettled(host, total, decimals, parts)
    })
  }
}

async function assertSettled(
  host: Host,
  total: string,
  decimals: number,
  parts: readonly bigint[],
): Promise<void> {
  const [listed] = (await host.list('invoices')) as unknown as Invoice[]
  assert.deepEqual(
    [listed?.status, listed?.total, listed?.amountPaid, listed?.amountDue],
    ['paid', total, total, toDecimal(0n, decimals)],
  )
  const events = await host.events()
  const paid = events.filter(({ type }) => type === 'invoice.paid')
  assert.deepEqual(
    paid.map(({ data }) => data),
    [{ invoiceId: listed?.id, number: listed?.number }],
  )
  const received = events.filter(({ type }) => type === 'payment.received').map(({ data }) => data)
  assert.equal(received.length, 50)
  assert.equal(new Set(received.map(({ paymentId }) => paymentId)).size, 50)
  const amounts = received.map(({ amount }) => BigInt(String(amount).replace('.', '')))
  assert.deepEqual(amounts.toSorted(compare), [...parts].sort(compare))
  // Each payment was added to the sum of the previous one, so the ordered sums have no gap.
  let sum = 0n
  for (const data of received.toSorted((one, other) => compare(unitsOf(one), unitsOf(other)))) {
    sum += BigInt(String(data.amount).replace('.', ''))
    assert.equal(data.amountPaid, toDecimal(sum, decimals))
  }
}

function unitsOf({ amountPaid }: Record<string, unknown>): bigint {
  return BigInt(String(amountPaid).replace('.', ''))
}

function compare(one: bigint, other: bigint): number {
  return one < other ? -1 : one > other ? 1 : 0
}

test('if 33 of 50 payments at once fit, 33 are recorded and 17 are overpayments', async () => {
  const host = await opened.newHost()
  const { organizationId } = host
  const { id: invoiceId } = await invoiceIn(host, 'issued', { currency: 'EUR', total: '10.00' })
  const results = await atOnce(host, 2, 50, ({ invoices }) =>
    invoices.recordPayment(organizationId, { invoiceId, amount: '0.30' }),
  )
  assert.equal(fulfilled(results).length, 33)
  assert.deepEqual(codesOf(results), new Set(['overpayment']))
  const [listed] = await host.list('invoices')
  assert.deepEqual([listed?.amountPaid, listed?.amountDue], ['9.90', '0.10'])
  assert.deepEqual([await countOf(host, 'payment.received'), await countOf(host, 'invoice.paid')], [33, 0])
})

test('an invoice that is paid and voided at the same time is either paid or void', async () => {
  for (let round = 0; round < 10; round++) {
    const host = await opened.newHost()
    const { organizationId } = host
    const { id: invoiceId } = await invoiceIn(host, 'issued')
    const results = await atOnce<unknown>(host, 2, 2, ({ invoices }, index) =>
      index === 0
        ? invoices.void(organizationId, { invoiceId })
        : invoices.recordPayment(organizationId, { invoiceId, amount: '1' }),
    )
    assert.equal(fulfilled(results).length, 1)
    assert.deepEqual(codesOf(results), new Set(['invalid_state']))
  }
})

// --- States ---

for (const processes of [1, 2] as const) {
  const where = processes === 1 ? 'in one process' : 'in two processes'
  test(`50 accepts at once, ${where}, cause one proposal.accepted and 49 times invalid_state`, async () => {
    const host = await opened.newHost()
    const { id: proposalId } = await proposalIn(host, 'sent')
    const results = await atOnce(host, processes, 50, ({ proposals }, index) =>
      proposals.accept(host.organizationId, { proposalId, signedBy: `Signer ${index}` }),
    )
    const [accepted] = fulfilled(results)
    assert.equal(fulfilled(results).length, 1)
    assert.deepEqual(codesOf(results), new Set(['invalid_state']))
    assert.deepEqual(await host.list('proposals'), [accepted])
    assert.equal(await countOf(host, 'proposal.accepted'), 1)
  })

  test(`50 setStage calls at once, ${where}, run one after another, each leaving the previous stage`, async () => {
    const host = await opened.newHost()
    const { lead } = await leadIn(host, 'new')
    const stages = ['contacted', 'qualified', 'proposal', 'new'] as const
    const results = await atOnce(host, processes, 50, ({ leads }, index) =>
      leads.setStage(host.organizationId, { leadId: lead.id, stage: stages[index % 4] ?? 'new' }),
    )
    assert.equal(fulfilled(results).length, 50)
    const moves = (await host.events()).filter(({ type }) => type === 'lead.stage_changed')
    const [listed] = await host.list('leads')
    // Each stage is entered as often as it's left, except for the first and last.
    const balance = new Map<unknown, number>([
      ['new', 1],
      [listed?.stage, -1],
    ])
    if (listed?.stage === 'new') balance.set('new', 0)
    for (const { data } of moves) {
      assert.notEqual(data.stage, data.previousStage)
      balance.set(data.previousStage, (balance.get(data.previousStage) ?? 0) - 1)
      balance.set(data.stage, (balance.get(data.stage) ?? 0) + 1)
    }
    assert.deepEqual(new Set(balance.values()), new Set([0]))
  })
}

test('if setStage is called 50 times at once with won and lost, the first is final', async () => {
  const host = await opened.newHost()
  const { lead } = await leadIn(host, 'qualified')
  const results = await atOnce(host, 2, 50, ({ leads }, index) =>
    leads.setStage(host.organizationId, { leadId: lead.id, stage: index % 3 === 0 ? 'won' : 'lost' }),
  )
  assert.deepEqual(fulfilled(results), await host.list('leads'))
  assert.deepEqual(codesOf(results), new Set(['invalid_state']))
})

test('50 projects.complete calls at once cause one project.completed', async () => {
  const host = await opened.newHost()
  const { organizationId, platform } = host
  const project = { name: 'Relaunch', billingType: 'fixed', value: 1 } as const
  const { id: projectId } = await platform.projects.create(organizationId, project)
  const results = await atOnce(host, 2, 50, ({ projects }) =>
    projects.complete(organizationId, { projectId }),
  )
  assert.equal(fulfilled(results).length, 1)
  assert.equal(await countOf(host, 'project.completed'), 1)
})

test('50 revisions at once create 50 versions', async () => {
  const host = await opened.newHost()
  const { id: proposalId } = await proposalIn(host, 'draft')
  const results = await atOnce(host, 2, 50, ({ proposals }, index) =>
    proposals.revise(host.organizationId, { proposalId, total: index }),
  )
  const versions = fulfilled(results).map(({ version }) => version)
  const expected = Array.from({ length: 50 }, (_, index) => index + 2)
  assert.deepEqual(
    versions.toSorted((one, other) => one - other),
    expected,
  )
})

test('converting 20 leads of the same business at once creates one client and one client.created', async () => {
  const host = await opened.newHost()
  const { organizationId, platform } = host
  const { businessId, lead } = await leadIn(host, 'new')
  const ids = [lead.id]
  for (let count = 1; count < 20; count++) {
    ids.push((await platform.leads.create(organizationId, { businessId })).id)
  }
  const results = await atOnce(host, 2, 20, ({ leads }, index) =>
    leads.convert(organizationId, { leadId: ids[index] ?? '' }),
  )
  const [client] = await host.list('clients')
  for (const converted of fulfilled(results)) assert.deepEqual(converted.client, client)
  assert.equal(fulfilled(results).length, 20)
  assert.equal((await host.list('clients')).length, 1)
  assert.equal(await countOf(host, 'client.created'), 1)
  assert.equal(await countOf(host, 'lead.stage_changed'), 20)
})

test('creating 50 invoices and proposals at once leaves no gap in the series', async () => {
  const host = await opened.newHost()
  const { organizationId } = host
  const dueDate = '2099-01-01T00:00:00Z'
  await atOnce<unknown>(host, 2, 50, ({ invoices, proposals }, index) =>
    index % 4 < 2
      ? invoices.create(organizationId, {
          currency: 'EUR',
          total: '1',
          issueDate: '2026-12-31T23:59:59.999Z',
          dueDate,
        })
      : proposals.create(organizationId, { currency: 'EUR', total: 1, title: 'Website' }),
  )
  const year = new Date().getUTCFullYear()
  for (const [resource, series, count] of [
    ['invoices', 'INV-2026', 26],
    ['proposals', `PROP-${year}`, 24],
  ] as const) {
    const numbers = (await host.list(resource)).map(({ number }) => String(number))
    const expected = Array.from({ length: count }, (_, index) => {
      return `${series}-${String(index + 1).padStart(4, '0')}`
    })
    assert.deepEqual(numbers.toSorted(), expected)
  }
})
