import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import { describeStore } from './_contract.ts'
import { kinds } from './_kinds.ts'
import { createTenant, events } from './_tenant.ts'

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

describeStore('memory', harness)

test('the memory store keeps what it was given, whatever becomes of the objects', async () => {
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

test('the memory store has no events for an organization that it has never heard of', () => {
  assert.deepEqual(store.recordedEvents('org_unheard_of'), [])
})

test('createMemoryStore() goes by Date.now unless it is given a clock', async () => {
  const plain = createMemoryStore()
  const tenant = await createTenant({ ...harness, store: () => plain, secondStore: () => plain })
  await plain.apiKeys.markUsed(tenant.id, tenant.key.id)
  const [key] = await plain.apiKeys.list(tenant.id)
  assert.ok(Math.abs(Date.parse(key?.lastUsedAt ?? '') - Date.now()) < 60_000)
})
