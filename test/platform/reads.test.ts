import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from '../../lib/platform.ts'
import { PLAIN_RESOURCES } from '../../lib/resources/records.ts'
import { call as callByName, make as makeOf } from './_calls.ts'
import { describeOnEveryStore, type Host, type NewHost, openPostgres } from './_platform.ts'
import { clientIn, createInvoice, invoiceIn, leadIn, OVERDUE_AT, projectIn, proposalIn } from './_records.ts'

// The host's reads, which are list and get for every resource.

interface Item {
  readonly id: string
}

interface ReadUnderTest {
  readonly resource: string
  readonly one: string
  /** The fields of the filter. */
  readonly fields: readonly string[]
  make(host: Host): Promise<Item>
}

const READS: readonly ReadUnderTest[] = [
  {
    resource: 'businesses',
    one: 'business',
    fields: [],
    make: ({ organizationId, platform }) => platform.businesses.create(organizationId, { name: 'Atlas' }),
  },
  {
    resource: 'clients',
    one: 'client',
    fields: ['statuses', 'businessId'],
    make: (host) => clientIn(host, 'active'),
  },
  {
    resource: 'leads',
    one: 'lead',
    fields: ['stages', 'businessId'],
    make: async (host) => (await leadIn(host, 'new')).lead,
  },
  {
    resource: 'invoices',
    one: 'invoice',
    fields: ['statuses', 'number', 'dueAfter', 'dueBefore'],
    make: (host) => createInvoice(host),
  },
  {
    resource: 'proposals',
    one: 'proposal',
    fields: ['statuses', 'number'],
    make: (host) => proposalIn(host, 'draft'),
  },
  ...Object.entries(PLAIN_RESOURCES).map(([resource, { kind }]) => ({
    resource,
    one: kind,
    fields: ['statuses'],
    make: async (host: Host) => ({ id: await makeOf(host, resource) }),
  })),
]

describeOnEveryStore((newHost) => {
  for (const read of READS) {
    testPages(newHost, read)
    testGet(newHost, read)
    testWrong(newHost, read)
  }
  testFilters(newHost)
  testPayments(newHost)
  testSigned(newHost)
})

function listOf({ platform, organizationId }: Host, { resource }: ReadUnderTest, query?: object) {
  return callByName(platform, `${resource}.list`, organizationId, query) as Promise<Page<Item>>
}

/** A record without the time that only the host's reads return. */
function undated<Stored extends { readonly updatedAt: string }>({ updatedAt: _, ...shown }: Stored) {
  return shown
}

function testPages(newHost: NewHost, read: ReadUnderTest): void {
  test(`${read.resource}.list returns pages, newest first, each with the start of the next or null at the end`, async () => {
    const host = await newHost()
    assert.deepEqual(await listOf(host, read), { data: [], next: null })
    for (let index = 0; index < 5; index++) await read.make(host)
    const { data: all, next } = await listOf(host, read)
    assert.equal(next, null)
    assert.ok(all.length >= 5)
    assert.deepEqual(
      all.map(({ id }) => id),
      all
        .map(({ id }) => id)
        .toSorted()
        .toReversed(),
    )
    for (const limit of [1, 2, all.length - 1, all.length]) {
      const met: Item[] = []
      for (let before: string | null | undefined; before !== null; ) {
        const page: Page<Item> = await listOf(host, read, { limit, before })
        assert.ok(page.data.length > 0, 'no page but the first is empty')
        met.push(...page.data)
        before = page.next
      }
      assert.deepEqual(met, all)
    }
    for (const item of all) {
      assert.deepEqual(
        await callByName(host.platform, `${read.resource}.get`, host.organizationId, item.id),
        item,
      )
    }
  })
}

function testGet(newHost: NewHost, read: ReadUnderTest): void {
  test(`${read.resource}.get throws not_found for an unknown id and that of another organization`, async () => {
    const [ours, theirs] = [await newHost(), await newHost()]
    const { id } = await read.make(theirs)
    for (const wanted of [id, '', 'none\0', 'x'.repeat(1000), `${id} `]) {
      await assert.rejects(callByName(ours.platform, `${read.resource}.get`, ours.organizationId, wanted), {
        name: 'BusinessApiError',
        code: 'not_found',
        message: `Cannot get the ${read.one} because the organization has no such record`,
      })
    }
    assert.deepEqual((await listOf(ours, read)).data, [])
  })
}

function testWrong(newHost: NewHost, read: ReadUnderTest): void {
  const filters: Readonly<Record<string, readonly unknown[]>> = {
    statuses: ['active', [17], [''], ['x'.repeat(65)], Array.from({ length: 21 }, () => 'active'), null],
    stages: ['new', [null]],
    businessId: [17, null, ['biz']],
    number: [17, '', null],
    dueAfter: ['tomorrow', 17, null],
    dueBefore: ['2026-01-01', null],
  }
  test(`${read.resource}.list and get reject invalid input by name`, async () => {
    const host = await newHost()
    const wrong = [
      ...[0, 201, 1.5, '50', null].map((limit) => ['limit', limit] as const),
      ...[17, '', 'x'.repeat(65), 'a\0'].map((before) => ['before', before] as const),
      ...read.fields.flatMap((name) => (filters[name] ?? []).map((value) => [name, value] as const)),
    ]
    for (const [name, value] of wrong) {
      await assert.rejects(listOf(host, read, { [name]: value }), (error: Error) => {
        assert.equal(Reflect.get(error, 'code'), 'invalid_input')
        assert.match(
          error.message,
          new RegExp(`^Cannot list ${read.resource} because ${name} must (be|not) `),
          `${value}`,
        )
        assert.deepEqual(Reflect.get(error, 'fields'), [name])
        return true
      })
    }
    for (const organizationId of ['', null, 17, 'x'.repeat(65)]) {
      for (const call of ['list', 'get']) {
        const attempt = callByName(
          host.platform,
          `${read.resource}.${call}`,
          organizationId,
          call === 'get' ? 'id' : {},
        )
        await assert.rejects(attempt, { code: 'invalid_input' })
      }
    }
    await assert.rejects(callByName(host.platform, `${read.resource}.get`, host.organizationId, 17), {
      code: 'invalid_input',
    })
    // A field that is undefined is treated as absent, and unknown fields are ignored.
    const absent = Object.fromEntries(Object.keys(filters).map((name) => [name, undefined]))
    assert.deepEqual(await listOf(host, read, { ...absent, limit: undefined, before: undefined }), {
      data: [],
      next: null,
    })
  })
}

function testFilters(newHost: NewHost): void {
  test('lists by status and stage reflect the transitions', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const { lead, businessId } = await leadIn(host, 'new')
    const { leads } = platform
    const idsOf = async (page: Promise<Page<Item>>) => (await page).data.map(({ id }) => id)
    assert.deepEqual(await idsOf(leads.list(organizationId, { stages: ['new'], businessId })), [lead.id])
    await leads.setStage(organizationId, { leadId: lead.id, stage: 'contacted' })
    assert.deepEqual(await idsOf(leads.list(organizationId, { stages: ['new'] })), [])
    const open = await leads.list(organizationId, { stages: ['new', 'contacted'] })
    assert.deepEqual(open.data.map(undated), [{ ...lead, stage: 'contacted', businessId }])

    const project = await projectIn(host, 'on_hold')
    assert.deepEqual(await idsOf(platform.projects.list(organizationId, { statuses: ['active'] })), [])
    assert.deepEqual(await idsOf(platform.projects.list(organizationId, { statuses: ['on_hold'] })), [
      project.id,
    ])
  })

  test('invoices.list by due date returns unpaid invoices and rejects other statuses', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const overdue = await invoiceIn(host, 'overdue')
    const later = await invoiceIn(host, 'issued', { dueDate: '2020-03-01T00:00:00Z' })
    for (const state of ['draft', 'void', 'paid'] as const) await invoiceIn(host, state)
    const due = async (query: object) => {
      const page = await platform.invoices.list(organizationId, query)
      return { ...page, data: page.data.map(undated) }
    }
    assert.deepEqual((await due({ dueAfter: '2019-01-01T00:00:00Z' })).data, [later, overdue])
    assert.deepEqual((await due({ dueBefore: OVERDUE_AT })).data, [overdue])
    assert.deepEqual((await due({ dueAfter: new Date(OVERDUE_AT), limit: 1 })).data, [later])
    assert.deepEqual(await due({ dueBefore: '2021-01-01T00:00:00Z', limit: 1 }), {
      data: [later],
      next: later.id,
    })
    assert.deepEqual(await due({ dueBefore: '2021-01-01T00:00:00Z', limit: 1, before: later.id }), {
      data: [overdue],
      next: null,
    })
    await assert.rejects(due({ dueBefore: OVERDUE_AT, statuses: ['issued', 'paid'] }), {
      code: 'invalid_input',
      message:
        'Cannot list invoices because with dueAfter or dueBefore the statuses must be of issued, partially_paid, overdue',
    })
    assert.deepEqual((await due({ number: later.number })).data, [later])
  })
}

function testPayments(newHost: NewHost): void {
  test('invoices.recordPayment returns the payment, and invoices.payments lists the payments of the invoice', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const { id: invoiceId } = await invoiceIn(host, 'issued')
    const receivedAt = '2026-03-14T09:26:53.589Z'
    const first = await platform.invoices.recordPayment(organizationId, {
      invoiceId,
      amount: '250',
      receivedAt,
    })
    assert.deepEqual(first.payment, { id: first.payment.id, amount: '250.000', receivedAt })
    assert.match(first.payment.id, /^pay_/)
    assert.deepEqual(first.invoice, undated(await platform.invoices.get(organizationId, invoiceId)))
    const rest = { invoiceId, amount: '1000', idempotencyKey: 'transfer-1' }
    const second = await platform.invoices.recordPayment(organizationId, rest)
    assert.deepEqual(await platform.invoices.recordPayment(organizationId, rest), second)
    assert.equal(second.invoice.status, 'paid')
    const { payments } = platform.invoices
    assert.deepEqual(await payments(organizationId, invoiceId), {
      data: [second.payment, first.payment],
      next: null,
    })
    const page = await payments(organizationId, invoiceId, { limit: 1 })
    assert.deepEqual(page, { data: [second.payment], next: second.payment.id })
    assert.deepEqual(await payments(organizationId, invoiceId, { before: page.next }), {
      data: [first.payment],
      next: null,
    })
    for (const wrong of ['inv_none', '\0']) {
      await assert.rejects(payments(organizationId, wrong), {
        code: 'not_found',
        message: 'Cannot list the payments of the invoice because the organization has no such record',
      })
    }
    await assert.rejects(payments(organizationId, invoiceId, { limit: 0 }), { code: 'invalid_input' })
  })
}

function testSigned(newHost: NewHost): void {
  test('proposals.get returns who signed and when', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const sent = await proposalIn(host, 'sent')
    const ref = { proposalId: sent.id }
    const get = async () => undated(await platform.proposals.get(organizationId, sent.id))
    assert.deepEqual(await get(), { ...sent, signature: null })
    const signature = { signedBy: 'Amina Ben Salah', signedAt: '2026-03-14T09:26:53.589Z' }
    const accepted = await platform.proposals.accept(organizationId, { ...ref, ...signature })
    assert.deepEqual(await get(), { ...accepted, signature })
    const { data } = await platform.proposals.list(organizationId, { number: sent.number })
    assert.deepEqual(data.map(undated), [{ ...accepted, signature }])
  })
}

// --- In the host's own transaction ---

const opened = openPostgres()

for (const read of READS) {
  test(`${read.resource}.list and get in the host's transaction see its own uncommitted writes, which others don't`, async () => {
    const host = await opened.newHost()
    const rolledBack = new Error('rolled back')
    const attempt = opened.sql().begin(async (tx) => {
      const inside = { ...host, platform: host.platform.using(tx) }
      const { id } = await read.make(inside)
      const { data } = await listOf(inside, read)
      assert.ok(data.some((item) => item.id === id))
      assert.deepEqual(
        await callByName(inside.platform, `${read.resource}.get`, host.organizationId, id),
        data.find((item) => item.id === id),
      )
      assert.deepEqual((await listOf(host, read)).data, [])
      await assert.rejects(callByName(host.platform, `${read.resource}.get`, host.organizationId, id), {
        code: 'not_found',
      })
      // If a record isn't found, the transaction isn't affected.
      await assert.rejects(callByName(inside.platform, `${read.resource}.get`, host.organizationId, 'none'), {
        code: 'not_found',
      })
      await tx`select 1`
      throw rolledBack
    })
    await assert.rejects(attempt, rolledBack)
    assert.deepEqual((await listOf(host, read)).data, [])
  })
}

test("invoices.payments and recordPayment in the host's transaction return the payment before the commit", async () => {
  const host = await opened.newHost()
  const { organizationId } = host
  const { id: invoiceId } = await invoiceIn(host, 'issued')
  await opened.sql().begin(async (tx) => {
    const { invoices } = host.platform.using(tx)
    const { payment } = await invoices.recordPayment(organizationId, { invoiceId, amount: '1' })
    assert.deepEqual((await invoices.payments(organizationId, invoiceId)).data, [payment])
    assert.deepEqual((await host.platform.invoices.payments(organizationId, invoiceId)).data, [])
    assert.deepEqual((await invoices.list(organizationId, { statuses: ['partially_paid'] })).data.length, 1)
  })
  assert.equal((await host.platform.invoices.payments(organizationId, invoiceId)).data.length, 1)
})
