import assert from 'node:assert/strict'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { Invoice, OverdueRequest } from '../../lib/resources/invoices.ts'
import { overdueRequest } from '../../lib/resources/overdue.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { dataOf, invoiceItem, settlement } from './changing.ts'
import { createPublisher, deliveriesOf } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { itemsOf, kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

/** Tests that invoices become overdue by date, a limited number at a time and each once. */
export function testOverdue(harness: StoreHarness): void {
  testMarking(harness)
  testTimes(harness)
  testOrganizations(harness)
  testConcurrency(harness)
}

const AS_OF = '2026-06-01T00:00:00.000Z'
const NOW = Date.UTC(2026, 5, 2)

async function createInvoice(
  tenant: Tenant,
  dueDate: string,
  changes: Partial<Invoice> = {},
): Promise<Invoice> {
  const item = { ...invoiceItem('issued'), dueDate, ...changes }
  await kinds.invoices.create(tenant, { item })
  return item
}

function mark(
  { id, store }: Tenant,
  changes: Partial<Omit<OverdueRequest, 'event'>> = {},
  through: BusinessApiStore = store,
): Promise<readonly Invoice[]> {
  const which = { organizationId: id, asOf: AS_OF, limit: 100, ...changes }
  return through.invoices.markOverdue(overdueRequest(which, { now: NOW }))
}

function day(number: number): string {
  return toTimestamp(Date.UTC(2026, 0, number))
}

function marked(invoice: Invoice): Invoice {
  return { ...invoice, status: 'overdue' }
}

async function invoiceOf(tenant: Tenant, id: string): Promise<unknown> {
  return (await itemsOf(kinds.invoices, tenant)).find((item) => item.id === id)
}

function testMarking(harness: StoreHarness): void {
  harness.test('markOverdue() only marks due invoices that are issued or partially paid', async () => {
    const tenant = await createTenant(harness)
    const due = [
      await createInvoice(tenant, day(1)),
      await createInvoice(tenant, day(2), { status: 'partially_paid' }),
    ]
    const others = [
      await createInvoice(tenant, AS_OF),
      await createInvoice(tenant, '9999-12-31T00:00:00.000Z'),
    ]
    for (const status of ['draft', 'paid', 'overdue', 'void', 'theirs']) {
      others.push(await createInvoice(tenant, day(3), { status }))
    }
    assert.deepEqual(await mark(tenant), due.map(marked))
    for (const invoice of due) assert.deepEqual(await invoiceOf(tenant, invoice.id), marked(invoice))
    for (const invoice of others) assert.deepEqual(await invoiceOf(tenant, invoice.id), invoice)
    assert.deepEqual(await mark(tenant), [], 'each once')
    assert.equal((await tenant.events()).length, 2)
    for (const { id: subjectId } of due) {
      const { events } = await tenant.store.eventLog.list(tenant.id, { subjectId }, 10, null)
      assert.equal(events.length, 1)
    }
  })

  harness.test(
    'markOverdue() records an event for each, with a new id and a delivery for each endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoint = await tenant.insertEndpoint({ types: ['invoice.overdue'] })
      const text = 'O\'Brien & "Söhne" \\ 🏺\u2028'
      const due = [
        await createInvoice(tenant, day(1), { number: text }),
        await createInvoice(tenant, day(2), {
          currency: 'JPY',
          total: '900',
          amountPaid: '1',
          amountDue: '899',
        }),
      ]
      await mark(tenant)
      const events = await tenant.events()
      assert.deepEqual(new Set(events.map(dataOf)), new Set(due.map(overdueData)))
      for (const event of events) assertEnvelope(event)
      const deliveries = await deliveriesOf(tenant)
      assert.deepEqual(
        deliveries.map(({ eventId, endpointId }) => [eventId, endpointId]).toSorted(),
        events.map(({ id }) => [id, endpoint.id]).toSorted(),
      )
    },
  )

  harness.test('markOverdue() marks up to the limit, earliest due date first', async () => {
    const tenant = await createTenant(harness)
    const created = []
    for (const number of [5, 2, 4, 1, 3]) created.push(await createInvoice(tenant, day(number)))
    const expected = created.toSorted((one, other) => (one.dueDate < other.dueDate ? -1 : 1)).map(marked)
    assert.deepEqual(await mark(tenant, { limit: 2 }), expected.slice(0, 2))
    assert.deepEqual(await mark(tenant, { limit: 2 }), expected.slice(2, 4))
    assert.deepEqual(await mark(tenant, { limit: 2 }), expected.slice(4))
  })
}

function overdueData({ id, number, currency, amountDue, dueDate }: Invoice): object {
  return { invoiceId: id, number, currency, amountDue, dueDate }
}

function assertEnvelope({ id, type, body }: EventRecord): void {
  assert.match(id, /^evt_[0-9A-HJKMNP-TV-Z]{26}$/)
  const { data: _, ...envelope } = JSON.parse(body)
  assert.deepEqual(envelope, { id, type: 'invoice.overdue', createdAt: toTimestamp(NOW) })
  assert.equal(type, 'invoice.overdue')
}

function testTimes(harness: StoreHarness): void {
  harness.test('markOverdue() marks invoices due before the given time, not at that time', async () => {
    const tenant = await createTenant(harness)
    const { id } = await createInvoice(tenant, AS_OF)
    assert.deepEqual(await mark(tenant), [])
    const [only] = await mark(tenant, { asOf: '2026-06-01T00:00:00.001Z' })
    assert.equal(only?.id, id)
  })

  harness.test('markOverdue() uses the clock of the store if no time is given', async () => {
    const tenant = await createTenant(harness)
    const { id } = await createInvoice(tenant, toTimestamp(Date.now() - 60_000))
    await createInvoice(tenant, '9999-12-31T23:59:59.999Z')
    const invoices = await mark(tenant, { asOf: null })
    assert.deepEqual(
      invoices.map((invoice) => invoice.id),
      [id],
    )
  })
}

function testOrganizations(harness: StoreHarness): void {
  harness.test('markOverdue() of an organization does not affect other organizations', async () => {
    const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
    const foreign = await createInvoice(theirs, day(1))
    assert.deepEqual(await mark(ours), [])
    assert.deepEqual(await invoiceOf(theirs, foreign.id), foreign)
    assert.deepEqual(await theirs.events(), [])
  })

  harness.test(
    'markOverdue() of all organizations marks the invoices of each, with events in the same organization',
    async () => {
      const tenants = [await createTenant(harness), await createTenant(harness)]
      // Earlier than anything else written by the suite.
      const all = { organizationId: null, asOf: '1969-12-31T00:00:00.000Z' }
      const created: Invoice[] = []
      for (const [index, tenant] of [...tenants, ...tenants].entries()) {
        created.push(await createInvoice(tenant, `1969-01-0${index + 1}T00:00:00.000Z`))
      }
      const answers = []
      // With row-level security, each call only sees the rows of its own organization.
      for (const tenant of tenants) answers.push(...(await mark(tenant, all)))
      const byDate = answers.toSorted((one, other) => (one.dueDate < other.dueDate ? -1 : 1))
      assert.deepEqual(byDate, created.map(marked))
      for (const [index, tenant] of tenants.entries()) {
        const invoices = (await tenant.events()).map((event) => dataOf(event).invoiceId)
        const own = created.filter((_, place) => place % 2 === index).map(({ id }) => id)
        assert.deepEqual(invoices.toSorted(), own.toSorted())
      }
    },
  )
}

function testConcurrency(harness: StoreHarness): void {
  harness.test('of ten concurrent calls in two processes, each invoice is marked once', async () => {
    const tenant = await createTenant(harness)
    const created: string[] = []
    for (let number = 1; number <= 20; number++) created.push((await createInvoice(tenant, day(number))).id)
    const { store, secondStore } = tenant
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        mark(tenant, { limit: 7 }, index % 2 === 0 ? store : secondStore),
      ),
    )
    // Invoices being changed by other calls at that time are left for the next call.
    answers.push(await mark(tenant))
    assert.deepEqual(
      answers
        .flat()
        .map(({ id }) => id)
        .toSorted(),
      created,
    )
    assert.equal((await tenant.events()).length, 20)
  })

  harness.test(
    'an invoice that is paid and marked concurrently is paid, and can only have been marked before',
    async () => {
      for (let round = 0; round < 5; round++) {
        const tenant = await createTenant(harness)
        const { id } = await createInvoice(tenant, day(1))
        const change = {
          organizationId: tenant.id,
          id: ids('chg'),
          recordId: id,
          from: ['issued', 'partially_paid', 'overdue'],
          set: settlement('1000'),
          events: [],
          idempotency: null,
        }
        const [invoices] = await Promise.all([mark(tenant), tenant.secondStore.invoices.pay(change)])
        assert.equal(Reflect.get(Object((await invoiceOf(tenant, id)) ?? {}), 'status'), 'paid')
        assert.equal((await tenant.events()).length, invoices.length)
      }
    },
  )
}
