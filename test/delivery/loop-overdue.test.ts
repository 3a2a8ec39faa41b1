import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import { createPlatform } from '../../lib/platform.ts'
import type { Invoice } from '../../lib/resources/invoices.ts'
import { addEndpoint, createTestSender, describeOnStores, ORG } from './_loop.ts'

// The platform marks overdue invoices of one organization, while a loop can do it for all of them.

const OTHER = 'org_overdue'

/** An issued invoice that was due a minute ago. */
async function issueLate(store: BusinessApiStore, organizationId: string): Promise<Invoice> {
  const { invoices } = createPlatform(store)
  const now = Date.now()
  const { id: invoiceId } = await invoices.create(organizationId, {
    currency: 'TND',
    total: '1250',
    issueDate: new Date(now - 3_600_000),
    dueDate: new Date(now - 60_000),
  })
  return invoices.issue(organizationId, { invoiceId })
}

describeOnStores('A loop that marks invoices overdue', (under) => {
  test('marks overdue invoices of all organizations once and delivers the events', async () => {
    const invoices = [await issueLate(under.store, ORG), await issueLate(under.store, OTHER)]
    await addEndpoint(under.store)
    await addEndpoint(under.store, {}, OTHER)
    const sender = createTestSender()
    const loop = under.loop(sender, { markOverdue: true })
    await loop.runOnce()
    await loop.runOnce()
    const events = sender.requests.map(({ body }) => JSON.parse(body))
    assert.deepEqual(
      events
        .map(({ type, data }) => ({ type, ...data }))
        .sort((a, b) => (a.invoiceId < b.invoiceId ? -1 : 1)),
      invoices.map(({ id, number, currency, amountDue, dueDate }) => ({
        type: 'invoice.overdue',
        invoiceId: id,
        number,
        currency,
        amountDue,
        dueDate,
      })),
    )
  })

  test('only does this if the option is set', async () => {
    await issueLate(under.store, ORG)
    await addEndpoint(under.store)
    const sender = createTestSender()
    await under.loop(sender).runOnce()
    assert.deepEqual(sender.requests, [])
  })

  test('requires a store with invoices', () => {
    const { service, deliveries, notices } = under.store
    const create = () =>
      createDeliveryLoop({ service, deliveries, notices }, createTestSender(), { markOverdue: true })
    assert.throws(create, TypeError)
  })
})
