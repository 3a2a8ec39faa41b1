import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { claimOne, createPublisher, deliveriesOf, onlyEndpoint } from '../contract/delivering.ts'
import { kinds } from '../contract/kinds.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { createTenant, events, newEndpoint, newEvent } from '../contract/tenant.ts'

let passedMs = 0
const store = createMemoryStore({ clock: () => Date.now() + passedMs })
const harness = {
  store: () => store,
  secondStore: () => store,
  events: (organizationId: string) => store.recordedEvents(organizationId),
  letTimePass: (_organizationId: string, ms: number) => {
    passedMs += ms
  },
}

describeStoreContract({ name: 'memory', runner: { describe, test }, ...harness })

test('the memory store keeps given records, also when the caller changes the objects later', async () => {
  const tenant = await createTenant(harness)
  const published = events(1).map((event) => ({ ...event }))
  const expected = structuredClone(published)
  await kinds.clients.create(tenant, { events: published })
  for (const event of published) event.body = 'changed'
  assert.deepEqual(await tenant.events(), expected)
})

test('the memory store gives out events that cannot be changed', async () => {
  const tenant = await createTenant(harness)
  await kinds.clients.create(tenant, { events: events(1) })
  const [event] = store.recordedEvents(tenant.id)
  assert.throws(() => Object.assign(event ?? {}, { body: 'changed' }), TypeError)
})

test('the memory store keeps given endpoints and published events, also when the caller changes the objects later', async (t) => {
  const tenant = await createPublisher(harness, t)
  const headerNames = ['X-A']
  const endpoint = newEndpoint({ headerNames, sealedHeaders: 'sealed', types: ['client.created'] })
  const event = { ...newEvent() }
  const expected = structuredClone(event)
  await store.endpoints.insert({ organizationId: tenant.id, limit: 1000, endpoint, entry: newEntry() })
  await store.events.publish(tenant.id, event)
  headerNames[0] = 'changed'
  event.body = 'changed'
  assert.deepEqual((await onlyEndpoint(tenant)).headerNames, ['X-A'])
  assert.deepEqual(store.recordedEvents(tenant.id), [expected])

  const changed = { headerNames: ['X-B'], sealedHeaders: 'sealed anew', replaces: 'sealed' }
  await store.endpoints.update({
    organizationId: tenant.id,
    endpointId: endpoint.id,
    changes: { headers: changed },
    entry: newEntry(),
  })
  changed.headerNames[0] = 'changed'
  const { body, headerNames: claimed } = await claimOne(tenant)
  assert.deepEqual([body, claimed], [expected.body, ['X-B']])
})

test('the memory store returns copies: a change of a returned object changes no stored record', async (t) => {
  const tenant = await createPublisher(harness, t)
  await tenant.insertEndpoint({ headerNames: ['X-A'], types: ['client.created'] })
  await tenant.publish()
  const before = [await onlyEndpoint(tenant), await deliveriesOf(tenant)]
  const endpoint = await onlyEndpoint(tenant)
  Object.assign(endpoint, { url: 'changed' })
  Object.assign(endpoint.headerNames, { 0: 'changed' })
  Object.assign(endpoint.types ?? {}, { 0: 'lead.created' })
  for (const delivery of await deliveriesOf(tenant)) Object.assign(delivery, { state: 'delivered' })
  assert.deepEqual([await onlyEndpoint(tenant), await deliveriesOf(tenant)], before)
  const { headerNames } = await claimOne(tenant)
  Object.assign(headerNames, { 0: 'changed' })
  assert.deepEqual((await onlyEndpoint(tenant)).headerNames, ['X-A'])
})

test('a watcher may call the memory store, because the waking verb has ended', async (t) => {
  const tenant = await createPublisher(harness, t)
  await tenant.insertEndpoint()
  await tenant.insertEndpoint()
  const seen: Promise<readonly unknown[]>[] = []
  t.after(store.deliveries.watch(() => seen.push(deliveriesOf(tenant))).end)
  await kinds.clients.create(tenant, { events: events(2) })
  assert.equal(seen.length, 1, 'once for all that a verb has recorded')
  assert.equal((await Promise.all(seen)).flat().length, 4)
})

test('the memory store takes organizations and endpoints of any name', async (t) => {
  const plain = createMemoryStore()
  const tenant = await createPublisher({ ...harness, store: () => plain, secondStore: () => plain }, t)
  const id = 'constructor'
  await plain.endpoints.insert({
    organizationId: id,
    limit: 1000,
    endpoint: newEndpoint({ id }),
    entry: newEntry(),
  })
  await plain.events.publish(id, newEvent())
  const { organizationId, endpointId } = await claimOne(tenant, {
    maxBytes: 4 * 1024 * 1024,
    capacity: { endpoint: 1, organization: 1, endpoints: {}, organizations: {} },
  })
  assert.deepEqual([organizationId, endpointId], [id, id])
})

test('the memory store has no events for an unknown organization', () => {
  assert.deepEqual(store.recordedEvents('org_unheard_of'), [])
})

test('createMemoryStore() goes by Date.now without a clock of the caller', async () => {
  const plain = createMemoryStore()
  const tenant = await createTenant({ ...harness, store: () => plain, secondStore: () => plain })
  await plain.apiKeys.markUsed(tenant.id, tenant.key.id)
  const [key] = await plain.apiKeys.list(tenant.id)
  assert.ok(Math.abs(Date.parse(key?.lastUsedAt ?? '') - Date.now()) < 60_000)
})
