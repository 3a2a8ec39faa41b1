import assert from 'node:assert/strict'
import { overdueRequest } from '../../lib/resources/overdue.ts'
import { createItem, eventTemplate, invoiceItem, verbs } from './changing.ts'
import { claim, createPublisher } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { newEvent, type Tenant } from './tenant.ts'

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const TRACED = { traceparent: TRACEPARENT }

/** Returns the traces of claimed deliveries by event. */
async function tracesOf(tenant: Tenant): Promise<Record<string, string | undefined>> {
  const { deliveries } = await claim(tenant)
  return Object.fromEntries(deliveries.map(({ eventId, traceparent }) => [eventId, traceparent]))
}

/** Tests that an event's trace is passed on to the attempts of its deliveries. */
export function testTraces(harness: StoreHarness): void {
  harness.test('claim() and read() return the trace of an event, if it has one', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const traced = await tenant.publish(TRACED)
    const plain = await tenant.publish()
    const { token, unread } = await claim(tenant, { maxBytes: 0 })
    const refs = unread.map(({ organizationId, id }) => ({ organizationId, deliveryId: id, token }))
    const read = await tenant.store.deliveries.read(refs)
    await tenant.store.deliveries.release(refs)
    const { deliveries } = await claim(tenant)
    for (const given of [read, deliveries]) {
      const one = given.find(({ eventId }) => eventId === traced.id)
      const other = given.find(({ eventId }) => eventId === plain.id)
      assert.ok(one && other, 'a delivery is missing')
      assert.equal(one.traceparent, TRACEPARENT)
      assert.equal(one.body, traced.body)
      assert.equal(Object.hasOwn(other, 'traceparent'), false)
    }
  })

  harness.test('publish() of an existing id keeps the trace of the first event', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const event = await tenant.publish()
    await tenant.publish({ ...event, ...TRACED })
    assert.deepEqual(await tracesOf(tenant), { [event.id]: undefined })
  })

  harness.test(
    'create() and change() write the traces of their events, and markOverdue() its trace',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const created = newEvent(TRACED)
      await kinds.clients.create(tenant, { events: [created, newEvent()] })

      const verb = verbs.project
      const item = await createItem(tenant, verb)
      const changed = { ...eventTemplate(verb, item), ...TRACED }
      await verb.prepare(tenant, item.id, { events: [changed] }).send()

      const due = { ...invoiceItem('issued'), dueDate: '2026-01-01T00:00:00.000Z' }
      await kinds.invoices.create(tenant, { item: due })
      const asOf = '2026-01-02T00:00:00.000Z'
      const which = { organizationId: tenant.id, asOf, limit: 1 }
      await tenant.store.invoices.markOverdue(overdueRequest(which, { now: Date.parse(asOf), ...TRACED }))

      const { deliveries } = await claim(tenant)
      const traces = deliveries.map(({ eventId, type, traceparent }) => [
        type === 'invoice.overdue' ? type : eventId,
        traceparent,
      ])
      const traced = traces.filter(([, traceparent]) => traceparent === TRACEPARENT).map(([name]) => name)
      assert.deepEqual(traced.toSorted(), [created.id, changed.id, 'invoice.overdue'].toSorted())
      assert.equal(traces.length, 4)
    },
  )

  harness.test('methods that read events do not return the trace', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const event = await tenant.publish(TRACED)
    const [read] = await tenant.store.eventLog.read(tenant.id, [event.id])
    const { traceparent: _, ...untraced } = event
    assert.deepEqual(read, untraced)
    const got = await tenant.store.eventLog.get(tenant.id, event.id)
    assert.ok(got, 'no event')
    assert.equal(JSON.stringify(got).includes(TRACEPARENT), false)
  })
}
