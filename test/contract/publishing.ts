import assert from 'node:assert/strict'
import { newLead } from '../../lib/resources/leads.ts'
import { newEntry } from './audit-entry.ts'
import {
  claim,
  createPublisher,
  deliveriesOf,
  getDelivery,
  onlyDelivery,
  storeTime,
  TIMESTAMP,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { type Kind, kinds } from './kinds.ts'
import { events, ids, newEvent, claim as reserveKey, type Tenant } from './tenant.ts'

/** Tests that an event is written together with a delivery for each endpoint. */
export function testPublishing(harness: StoreHarness): void {
  testRecords(harness)
  testSizes(harness)
  testRecipients(harness)
  testSameEvent(harness)
  for (const kind of Object.values(kinds)) testCreation(harness, kind)
  testRefusedCreations(harness)
}

async function endpointsOf(tenant: Tenant, eventId: string): Promise<string[]> {
  const deliveries = await deliveriesOf(tenant)
  return deliveries.filter((delivery) => delivery.eventId === eventId).map(({ endpointId }) => endpointId)
}

function testRecords(harness: StoreHarness): void {
  harness.test(
    'publish() records the event byte for byte, with a delivery that is due immediately',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoint = await tenant.insertEndpoint()
      const event = await tenant.publish({ type: 'invoice.paid' })
      assert.deepEqual(await tenant.events(), [event])

      const { id, createdAt, dueAt, ...rest } = await onlyDelivery(tenant)
      assert.deepEqual(rest, {
        eventId: event.id,
        type: 'invoice.paid',
        subjectId: null,
        endpointId: endpoint.id,
        state: 'pending',
        attempts: 0,
        reason: null,
        finishedAt: null,
        lastStatus: null,
        lastError: null,
        body: event.body,
        attemptLog: [],
      })
      assert.match(id, /^dlv_[0-9A-HJKMNP-TV-Z]{26}$/)
      assert.match(createdAt, TIMESTAMP)
      assert.match(dueAt ?? '', TIMESTAMP)
      const now = await storeTime(tenant)
      for (const time of [createdAt, dueAt ?? '']) {
        assert.ok(Math.abs(now - Date.parse(time)) < 10_000, 'by the store’s clock')
      }
      assert.deepEqual((await claim(tenant)).eventIds, [event.id])
    },
  )

  harness.test('publish() keeps the given id of an event', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    for (const id of ['1', '~'.repeat(64), 'host:ticket/7?a="b"', "o'h\\{}"]) await tenant.publish({ id })
    const published = (await tenant.events()).map(({ id }) => id)
    assert.deepEqual((await claim(tenant)).eventIds.toSorted(), published.toSorted())
    assert.equal(new Set(published).size, 4)
  })

  harness.test(
    'publish() records an event that no endpoint wants, and later endpoints do not receive it',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const event = await tenant.publish()
      await tenant.insertEndpoint()
      assert.deepEqual(await tenant.events(), [event])
      assert.deepEqual(await deliveriesOf(tenant), [])
    },
  )
}

const MAX_BYTES = 256 * 1024

function testSizes(harness: StoreHarness): void {
  const refusal = {
    code: 'invalid_event',
    message:
      /^Cannot publish project\.completed because its body has 262145 bytes, more than the maximum of 262144\. Publish/,
  }

  harness.test(
    'publish() accepts a body of 256 KiB, and rejects one more byte with both sizes in the message',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const type = 'project.completed'
      // Bytes are counted, not characters.
      const largest = await tenant.publish({ type, body: 'é'.repeat(MAX_BYTES / 2) })
      await assert.rejects(tenant.publish({ type, body: `${'é'.repeat(MAX_BYTES / 2)}x` }), refusal)
      assert.deepEqual(await tenant.events(), [largest])
      assert.equal((await deliveriesOf(tenant)).length, 1)
    },
  )

  harness.test('a creation or a change with a larger event writes nothing', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const large = newEvent({ type: 'project.completed', body: 'x'.repeat(MAX_BYTES + 1) })
    const [example] = kinds.clients.examples
    assert.ok(example, 'no example')
    const item = { ...example, id: ids('cli') }
    const idempotency = reserveKey()
    await assert.rejects(kinds.clients.create(tenant, { item, events: [large], idempotency }), refusal)
    assert.deepEqual(await tenant.events(), [])
    // Neither the record nor the key was written, so the same creation succeeds with a smaller event.
    await kinds.clients.create(tenant, { item, events: events(1), idempotency })
    assert.equal((await tenant.events()).length, 1)
  })
}

function testRecipients(harness: StoreHarness): void {
  harness.test(
    'an event goes to all endpoints that want its type, and to all endpoints for all types',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const every = await tenant.insertEndpoint({ types: null })
      const same = await tenant.insertEndpoint({ types: ['client.created'] })
      const among = await tenant.insertEndpoint({ types: ['lead.created', 'client.created'] })
      const others = await tenant.insertEndpoint({ types: ['lead.created', 'business.created'] })
      const client = await tenant.publish({ type: 'client.created' })
      const lead = await tenant.publish({ type: 'lead.created' })
      const payment = await tenant.publish({ type: 'payment.received' })
      assert.deepEqual((await endpointsOf(tenant, client.id)).toSorted(), [every.id, same.id, among.id])
      assert.deepEqual((await endpointsOf(tenant, lead.id)).toSorted(), [every.id, among.id, others.id])
      assert.deepEqual(await endpointsOf(tenant, payment.id), [every.id])
    },
  )

  harness.test('an event is recorded as skipped for a disabled endpoint, and is never claimed', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: ['enabled'],
      entry: newEntry(),
    })
    const event = await tenant.publish()
    const { state, reason, dueAt, finishedAt, attempts } = await onlyDelivery(tenant)
    assert.deepEqual([state, reason, dueAt, attempts], ['skipped', 'endpoint_disabled', null, 0])
    assert.match(finishedAt ?? '', TIMESTAMP)
    assert.deepEqual((await claim(tenant)).eventIds, [])
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'enabled',
      from: ['disabled'],
      entry: newEntry(),
    })
    assert.deepEqual((await claim(tenant)).eventIds, [])
    assert.deepEqual(await endpointsOf(tenant, event.id), [id])
  })

  harness.test('an event waits for a paused endpoint until the endpoint is resumed', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    const event = await tenant.publish()
    assert.equal((await onlyDelivery(tenant)).state, 'pending')
    assert.deepEqual((await claim(tenant)).eventIds, [])
    await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'enabled',
      from: ['paused'],
      entry: newEntry(),
    })
    assert.deepEqual((await claim(tenant)).eventIds, [event.id])
  })

  harness.test(
    'an event goes neither to a removed endpoint nor to an endpoint of another organization',
    async (t) => {
      const [ours, theirs] = [await createPublisher(harness, t), await createPublisher(harness, t)]
      const removed = await ours.insertEndpoint()
      const endpoint = await ours.insertEndpoint()
      await theirs.insertEndpoint()
      await ours.store.endpoints.remove({
        organizationId: ours.id,
        endpointId: removed.id,
        entry: newEntry(),
      })
      const event = await ours.publish()
      assert.deepEqual(await endpointsOf(ours, event.id), [endpoint.id])
      assert.deepEqual(await deliveriesOf(theirs), [])
      assert.deepEqual(await theirs.events(), [])
    },
  )
}

function testSameEvent(harness: StoreHarness): void {
  harness.test('publish() of an existing id keeps the first event, and sends nothing again', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const event = await tenant.publish()
    const [claimed] = (await claim(tenant)).deliveries
    const before = await onlyDelivery(tenant)
    await tenant.insertEndpoint()
    await tenant.publish(event)
    await tenant.publish({ ...event, type: 'lead.created', body: '{}' })
    assert.deepEqual(await tenant.events(), [event])
    assert.deepEqual(await onlyDelivery(tenant), before)
    assert.equal(claimed?.body, event.body)
  })

  harness.test(
    'an event published 20 times concurrently by two processes has one delivery for each endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoints = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
      const event = newEvent()
      const stores = [tenant.store, tenant.secondStore]
      const calls = stores.flatMap((store) =>
        Array.from({ length: 10 }, () => store.events.publish(tenant.id, event)),
      )
      await Promise.all(calls)
      assert.deepEqual(await tenant.events(), [event])
      const reached = await endpointsOf(tenant, event.id)
      assert.deepEqual(
        reached.toSorted(),
        endpoints.map(({ id }) => id),
      )
    },
  )

  harness.test(
    'two organizations can publish an event with the same id, and both events are sent',
    async (t) => {
      const [ours, theirs] = [await createPublisher(harness, t), await createPublisher(harness, t)]
      await ours.insertEndpoint()
      await theirs.insertEndpoint()
      const event = await ours.publish()
      await theirs.publish({ ...event, body: '{"whose":"theirs"}' })
      assert.equal((await onlyDelivery(ours)).body, event.body)
      assert.equal((await onlyDelivery(theirs)).body, '{"whose":"theirs"}')
    },
  )
}

function testCreation(harness: StoreHarness, kind: Kind): void {
  harness.test(
    `${kind.name}.create() records the deliveries of its events once, however often it is sent`,
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const every = await tenant.insertEndpoint()
      const some = await tenant.insertEndpoint({ types: ['client.created'] })
      const [business, client] = events(2)
      assert.ok(business && client, 'business or client is missing')
      const idempotency = reserveKey()
      const { again } = await kind.create(tenant, { events: [business, client], idempotency })
      await again()
      await again(tenant.secondStore)
      await kind.create(tenant, { events: events(2), idempotency })

      assert.deepEqual(await endpointsOf(tenant, business.id), [every.id])
      assert.deepEqual((await endpointsOf(tenant, client.id)).toSorted(), [every.id, some.id])
      assert.equal((await deliveriesOf(tenant)).length, 3)
      const { deliveries } = await claim(tenant)
      assert.equal(deliveries.length, 3)
      for (const { id, eventId, body } of deliveries) {
        assert.equal(body, eventId === client.id ? client.body : business.body)
        assert.equal((await getDelivery(tenant, id)).body, body)
      }
    },
  )
}

function testRefusedCreations(harness: StoreHarness): void {
  harness.test('a rejected creation records no delivery', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const { record, events: published } = newLead({ businessId: ids('biz') }, { ids, now: Date.now() })
    const creation = { organizationId: tenant.id, record, events: published, idempotency: null }
    assert.deepEqual(await tenant.store.leads.create(creation), { outcome: 'no_business' })

    const [example] = kinds.invoices.examples
    assert.ok(example, 'no example')
    await kinds.invoices.create(tenant, { item: example })
    const taken = { item: { ...example, id: ids('inv') }, events: events(1) }
    await assert.rejects(kinds.invoices.create(tenant, taken), { code: 'already_exists' })
    assert.deepEqual(await deliveriesOf(tenant), [])
  })
}
