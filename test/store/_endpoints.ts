import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointState, WebhookEndpoint } from '../../lib/endpoints.ts'
import type { BusinessStore } from '../../lib/store.ts'
import { newEntry } from '../_audit.ts'
import type { StoreHarness } from './_contract.ts'
import {
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  lastFailure,
  onlyDelivery,
  onlyEndpoint,
  record,
  shown,
  storeTime,
  success,
  TIMESTAMP,
} from './_delivering.ts'
import { callAtOnce, ids, newEndpoint } from './_tenant.ts'

/** What is kept of endpoints, and what becomes of them. */
export function testEndpoints(harness: StoreHarness): void {
  testList(harness)
  testTarget(harness)
  testUpdate(harness)
  testStates(harness)
  testRemove(harness)
}

function testList(harness: StoreHarness): void {
  test('endpoints.list() gives every endpoint newest first, each field as it was inserted, and nothing secret', async (t) => {
    const tenant = await createPublisher(harness, t)
    const plain = newEndpoint({ createdAt: '2019-01-01T00:00:00.000Z' })
    const odd = newEndpoint({
      url: 'https://münchen.example:8443/hook?q=%20"\'&x=🏺#{}',
      description: 'O\'Brien "🏺" \\ \n 株式会社 \u0001\u2028',
      types: ['support.ticket_created', 'client.created'],
      headers: { 'X-Tenant': 'a\'b "c" \\ é', Authorization: 'Basic eDp5', constructor: '' },
      createdAt: '2020-02-29T23:59:59.010Z',
      sealedSecret: 'v1.abc.\'"\\é🏺',
    })
    await tenant.store.endpoints.insert(tenant.id, odd, newEntry())
    await tenant.store.endpoints.insert(tenant.id, plain, newEntry())
    const endpoints = await tenant.store.endpoints.list(tenant.id)
    assert.deepEqual(endpoints, [shown(odd), shown(plain)].sort(byIdBackwards))
    assert.equal(JSON.stringify(endpoints).includes('v1.abc'), false)

    const event = await tenant.publish({ type: 'support.ticket_created' })
    const { deliveries } = await claim(tenant)
    const delivery = deliveries.find(({ endpointId }) => endpointId === odd.id)
    assert.equal(delivery?.eventId, event.id)
    assert.deepEqual(delivery.sealedSecrets, [odd.sealedSecret])
    assert.deepEqual([delivery.url, delivery.headers], [odd.url, odd.headers])
  })

  test('endpoints.list() is empty for an organization without endpoints', async () => {
    const id = 'org_contract_without_endpoints'
    assert.deepEqual(await (await harness.store(id)).endpoints.list(id), [])
  })

  test('endpoints.insert() of an id that exists changes nothing', async (t) => {
    const tenant = await createPublisher(harness, t)
    const endpoint = await tenant.insertEndpoint({ types: ['client.created'] })
    await tenant.store.endpoints.setState(tenant.id, endpoint.id, 'paused', ['enabled'], newEntry())
    const before = await tenant.store.endpoints.list(tenant.id)
    await tenant.secondStore.endpoints.insert(tenant.id, endpoint, newEntry())
    await tenant.insertEndpoint({ id: endpoint.id, description: 'Another' })
    assert.deepEqual(await tenant.store.endpoints.list(tenant.id), before)
  })
}

function byIdBackwards(one: WebhookEndpoint, other: WebhookEndpoint): number {
  return one.id < other.id ? 1 : -1
}

function testTarget(harness: StoreHarness): void {
  test('endpoints.getTarget() gives what an endpoint is sent to with, in whatever state it is', async (t) => {
    const tenant = await createPublisher(harness, t)
    const types = ['support.ticket_created', 'client.created'] as const
    const { id, url, headers, sealedSecret } = await tenant.insertEndpoint({
      url: 'https://münchen.example:8443/hook?q=%20"\'&x=🏺#{}',
      headers: { 'X-Tenant': 'a\'b "c" \\ é' },
      types,
    })
    for (const state of ['enabled', 'paused', 'disabled'] as const) {
      await tenant.store.endpoints.setState(tenant.id, id, state, ['enabled', 'paused'], newEntry())
      const target = await tenant.secondStore.endpoints.getTarget(tenant.id, id)
      const { storeTime: now = 0, ...rest } = target ?? {}
      assert.deepEqual(rest, { url, types, headers, sealedSecrets: [sealedSecret] })
      assert.ok(Math.abs(now - (await storeTime(tenant))) < 10_000)
    }
  })
}

function testUpdate(harness: StoreHarness): void {
  test('endpoints.update() changes what is given, nothing else, and gives the endpoint as it is then', async (t) => {
    const tenant = await createPublisher(harness, t)
    const other = await tenant.insertEndpoint()
    const endpoint = await tenant.insertEndpoint({ description: 'Shop', headers: { 'X-A': '1' } })
    const { id } = endpoint
    let expected = shown(endpoint)
    for (const changes of [
      { url: 'https://elsewhere.example/"é"' },
      { description: '' },
      { types: ['client.created', 'invoice.paid'] },
      { headers: { 'X-B': "o'h \\" } },
      { types: null, headers: {} },
      {},
    ] as const) {
      expected = { ...expected, ...changes }
      assert.deepEqual(await tenant.store.endpoints.update(tenant.id, id, changes, newEntry()), expected)
      assert.deepEqual(await tenant.secondStore.endpoints.list(tenant.id), [expected, shown(other)])
    }
  })

  test('endpoints.update() counts from the next claim and from the next event on', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    const event = await tenant.publish({ type: 'client.created' })
    await tenant.store.endpoints.update(
      tenant.id,
      id,
      {
        url: 'https://new.example/',
        headers: { 'X-New': '1' },
        types: ['lead.created'],
      },
      newEntry(),
    )
    await tenant.publish({ type: 'client.created' })
    const { url, headers, eventId } = await claimOne(tenant)
    assert.deepEqual([url, headers, eventId], ['https://new.example/', { 'X-New': '1' }, event.id])
  })

  test('endpoints.update() leaves the state, the failures and the secrets alone', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.store.endpoints.rotateSecret(tenant.id, id, 'second', 60_000, newEntry())
    await tenant.publish()
    await record(tenant, [failure(await claimOne(tenant))])
    await tenant.store.endpoints.setState(tenant.id, id, 'disabled', ['enabled'], newEntry())
    const before = await onlyEndpoint(tenant)
    const after = await tenant.store.endpoints.update(tenant.id, id, { description: 'Shop' }, newEntry())
    assert.deepEqual(after, { ...before, description: 'Shop' })
    assert.deepEqual([before.state, before.failures], ['disabled', 1])
  })
}

function testStates(harness: StoreHarness): void {
  const all: readonly EndpointState[] = ['enabled', 'paused', 'disabled']

  test('endpoints.setState() moves an endpoint that is in one of the given states, and no other', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { store, id: organizationId } = tenant
    for (const present of all) {
      for (const target of all) {
        const { id } = await tenant.insertEndpoint()
        await store.endpoints.setState(organizationId, id, present, all, newEntry())
        const others = all.filter((state) => state !== present)
        const kept = await store.endpoints.setState(organizationId, id, target, others, newEntry())
        assert.equal(kept?.state, present, `${present} to ${target} from ${others}`)
        assert.equal(
          (await store.endpoints.setState(organizationId, id, target, [], newEntry()))?.state,
          present,
        )
        const moved = await store.endpoints.setState(organizationId, id, target, [present], newEntry())
        assert.equal(moved?.state, target, `${present} to ${target}`)
        assert.equal(moved.disabledReason, target === 'disabled' ? 'administrator' : null)
        const listed = await tenant.secondStore.endpoints.list(organizationId)
        assert.deepEqual(
          listed.find((endpoint) => endpoint.id === id),
          moved,
        )
      }
    }
  })

  test('endpoints.setState() made ten times at once, in two processes, gives everybody the endpoint in its new state', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    const pause = ({ endpoints }: BusinessStore) =>
      endpoints.setState(tenant.id, id, 'paused', ['enabled'], newEntry())
    for (const endpoint of await callAtOnce(tenant, pause)) assert.equal(endpoint?.state, 'paused')
  })

  test('endpoints.setState() forgets the failures of an endpoint when it enables it, and not before', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { store, id: organizationId } = tenant
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await record(tenant, [failure(await claimOne(tenant))])
    const kept = await store.endpoints.setState(organizationId, id, 'enabled', ['paused'], newEntry())
    assert.equal(kept?.failures, 1, 'it was enabled all the time')

    const paused = await store.endpoints.setState(organizationId, id, 'paused', ['enabled'], newEntry())
    assert.equal(paused?.failures, 1)
    assert.match(paused.failingSince ?? '', TIMESTAMP)
    const enabled = await store.endpoints.setState(organizationId, id, 'enabled', ['paused'], newEntry())
    assert.deepEqual([enabled?.failures, enabled?.failingSince], [0, null])
  })

  test('endpoints.setState() of an endpoint that is disabled already keeps the reason', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await record(tenant, [lastFailure(await claimOne(tenant), { isGone: true, reason: 'gone', status: 410 })])
    const endpoint = await tenant.store.endpoints.setState(tenant.id, id, 'disabled', all, newEntry())
    assert.deepEqual([endpoint?.state, endpoint?.disabledReason], ['disabled', 'gone'])
  })
}

function testRemove(harness: StoreHarness): void {
  test('endpoints.remove() makes an endpoint as absent as one that never was', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { endpoints } = tenant.store
    const endpoint = await tenant.insertEndpoint()
    assert.equal(await tenant.secondStore.endpoints.remove(tenant.id, endpoint.id, newEntry()), true)
    for (const id of [endpoint.id, ids('we'), '', 'constructor']) {
      assert.equal(await endpoints.remove(tenant.id, id, newEntry()), false)
      assert.equal(await endpoints.getTarget(tenant.id, id), null)
      assert.equal(await endpoints.update(tenant.id, id, { description: 'Shop' }, newEntry()), null)
      assert.equal(
        await endpoints.setState(tenant.id, id, 'paused', ['enabled', 'disabled'], newEntry()),
        null,
      )
      assert.equal(await endpoints.rotateSecret(tenant.id, id, 'second', 60_000, newEntry()), null)
    }
    await endpoints.insert(tenant.id, endpoint, newEntry())
    assert.deepEqual(await endpoints.list(tenant.id), [], 'the same id again changes nothing')
  })

  test('endpoints.remove() keeps the delivery log, and skips what was waiting', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await record(tenant, [success(await claimOne(tenant))])
    await tenant.publish()
    const [waiting, delivered] = await deliveriesOf(tenant)
    await tenant.store.endpoints.remove(tenant.id, id, newEntry())
    assert.deepEqual((await claim(tenant)).eventIds, [])
    const [skipped, ...rest] = await deliveriesOf(tenant)
    assert.deepEqual([skipped?.id, skipped?.state, skipped?.dueAt], [waiting?.id, 'skipped', null])
    assert.ok(skipped?.reason)
    assert.match(skipped.finishedAt ?? '', TIMESTAMP)
    assert.deepEqual(rest, [delivered])
  })

  test('an attempt in flight when its endpoint is removed is still recorded, and the endpoint is told of no more', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    const delivery = await claimOne(tenant)
    await tenant.store.endpoints.remove(tenant.id, id, newEntry())
    assert.deepEqual(await record(tenant, [lastFailure(delivery)], { failures: 1, failingMs: 0 }), [])
    const { state, attemptLog } = await onlyDelivery(tenant)
    assert.deepEqual([state, attemptLog.length], ['dead_lettered', 1])
  })
}
