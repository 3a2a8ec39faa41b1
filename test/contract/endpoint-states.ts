import assert from 'node:assert/strict'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { EndpointState } from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import {
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  lastFailure,
  onlyDelivery,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { callAtOnce, ids } from './tenant.ts'

/** Tests that an endpoint is enabled, paused or disabled. */
export function testStates(harness: StoreHarness): void {
  const all: readonly EndpointState[] = ['enabled', 'paused', 'disabled']

  harness.test(
    'endpoints.setState() only changes an endpoint that is in one of the given states',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { store, id: organizationId } = tenant
      for (const present of all) {
        for (const target of all) {
          const { id } = await tenant.insertEndpoint()
          await store.endpoints.setState({
            organizationId,
            endpointId: id,
            state: present,
            from: all,
            entry: newEntry(),
          })
          const others = all.filter((state) => state !== present)
          const kept = await store.endpoints.setState({
            organizationId,
            endpointId: id,
            state: target,
            from: others,
            entry: newEntry(),
          })
          assert.equal(kept?.state, present, `${present} to ${target} from ${others}`)
          assert.equal(
            (
              await store.endpoints.setState({
                organizationId,
                endpointId: id,
                state: target,
                from: [],
                entry: newEntry(),
              })
            )?.state,
            present,
          )
          const moved = await store.endpoints.setState({
            organizationId,
            endpointId: id,
            state: target,
            from: [present],
            entry: newEntry(),
          })
          assert.equal(moved?.state, target, `${present} to ${target}`)
          assert.equal(moved.disabledReason, target === 'disabled' ? 'administrator' : null)
          const listed = await tenant.secondStore.endpoints.list(organizationId)
          assert.deepEqual(
            listed.find((endpoint) => endpoint.id === id),
            moved,
          )
        }
      }
    },
  )

  harness.test(
    'endpoints.setState() called ten times concurrently by two processes returns the endpoint in its new state to all',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint()
      const pause = ({ endpoints }: BusinessApiStore) =>
        endpoints.setState({
          organizationId: tenant.id,
          endpointId: id,
          state: 'paused',
          from: ['enabled'],
          entry: newEntry(),
        })
      for (const endpoint of await callAtOnce(tenant, pause)) assert.equal(endpoint?.state, 'paused')
    },
  )

  harness.test('endpoints.setState() resets the failures of an endpoint only when enabling it', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { store, id: organizationId } = tenant
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [failure(await claimOne(tenant))])
    const kept = await store.endpoints.setState({
      organizationId,
      endpointId: id,
      state: 'enabled',
      from: ['paused'],
      entry: newEntry(),
    })
    assert.equal(kept?.failures, 1, 'it was enabled all the time')

    const paused = await store.endpoints.setState({
      organizationId,
      endpointId: id,
      state: 'paused',
      from: ['enabled'],
      entry: newEntry(),
    })
    assert.equal(paused?.failures, 1)
    assert.match(paused.failingSince ?? '', TIMESTAMP)
    const enabled = await store.endpoints.setState({
      organizationId,
      endpointId: id,
      state: 'enabled',
      from: ['paused'],
      entry: newEntry(),
    })
    assert.deepEqual([enabled?.failures, enabled?.failingSince], [0, null])
  })

  harness.test('endpoints.setState() keeps the reason if the endpoint is already disabled', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [
      lastFailure(await claimOne(tenant), { isGone: true, reason: 'gone', status: 410 }),
    ])
    const endpoint = await tenant.store.endpoints.setState({
      organizationId: tenant.id,
      endpointId: id,
      state: 'disabled',
      from: all,
      entry: newEntry(),
    })
    assert.deepEqual([endpoint?.state, endpoint?.disabledReason], ['disabled', 'gone'])
  })
}

/** Tests that a removed endpoint keeps its delivery log. */
export function testRemove(harness: StoreHarness): void {
  harness.test('endpoints.remove() makes an endpoint indistinguishable from an unknown one', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { endpoints } = tenant.store
    const endpoint = await tenant.insertEndpoint()
    assert.equal(
      await tenant.secondStore.endpoints.remove({
        organizationId: tenant.id,
        endpointId: endpoint.id,
        entry: newEntry(),
      }),
      true,
    )
    for (const id of [endpoint.id, ids('we'), '', 'constructor']) {
      assert.equal(
        await endpoints.remove({ organizationId: tenant.id, endpointId: id, entry: newEntry() }),
        false,
      )
      assert.equal(await endpoints.getTarget(tenant.id, id), null)
      assert.equal(
        await endpoints.update({
          organizationId: tenant.id,
          endpointId: id,
          changes: { description: 'Shop' },
          entry: newEntry(),
        }),
        null,
      )
      assert.equal(
        await endpoints.setState({
          organizationId: tenant.id,
          endpointId: id,
          state: 'paused',
          from: ['enabled', 'disabled'],
          entry: newEntry(),
        }),
        null,
      )
      assert.equal(
        await endpoints.rotateSecret({
          organizationId: tenant.id,
          changeId: ids('chg'),
          endpointId: id,
          sealedSecret: 'second',
          overlapMs: 60_000,
          entry: newEntry(),
        }),
        null,
      )
    }
    await endpoints.insert({ organizationId: tenant.id, limit: 1000, endpoint, entry: newEntry() })
    assert.deepEqual(await endpoints.list(tenant.id), [], 'the same id again changes nothing')
  })

  harness.test('endpoints.listRemoved() returns removed endpoints in pages, without secrets', async (t) => {
    const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
    const remove = ({ id, store }: typeof tenant, endpointId: string) =>
      store.endpoints.remove({ organizationId: id, endpointId, entry: newEntry() })
    const removed: string[] = []
    for (const url of ['https://a.example/?q=%20"', 'https://b.example/', 'https://c.example/']) {
      const types = ['client.created'] as const
      const { id, createdAt } = await tenant.insertEndpoint({
        url,
        types,
        description: 'Shop',
        headerNames: ['X-A'],
      })
      assert.equal((await tenant.store.endpoints.listRemoved(tenant.id, 9, null)).length, removed.length)
      await remove(tenant, id)
      removed.push(id)
      const [newest] = await tenant.secondStore.endpoints.listRemoved(tenant.id, 1, null)
      assert.deepEqual(newest, { id, url, description: 'Shop', types: ['client.created'], createdAt })
    }
    await tenant.insertEndpoint()
    await remove(other, (await other.insertEndpoint()).id)
    const list = async (limit: number, before: string | null) =>
      (await tenant.store.endpoints.listRemoved(tenant.id, limit, before)).map(({ id }) => id)
    const [first = '', second = '', third = ''] = removed.toSorted().toReversed()
    assert.deepEqual(await list(2, null), [first, second])
    assert.deepEqual(await list(2, second), [third])
    assert.deepEqual(await list(2, third), [])
  })

  harness.test('endpoints.remove() keeps the delivery log and skips waiting deliveries', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint()
    await tenant.publish()
    await writeResults(tenant, [success(await claimOne(tenant))])
    await tenant.publish()
    const [waiting, delivered] = await deliveriesOf(tenant)
    await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId: id, entry: newEntry() })
    assert.deepEqual((await claim(tenant)).eventIds, [])
    const [skipped, ...rest] = await deliveriesOf(tenant)
    assert.deepEqual([skipped?.id, skipped?.state, skipped?.dueAt], [waiting?.id, 'skipped', null])
    assert.ok(skipped?.reason, 'no reason')
    assert.match(skipped.finishedAt ?? '', TIMESTAMP)
    assert.deepEqual(rest, [delivered])
  })

  harness.test(
    'if an endpoint is removed during an attempt, the attempt is recorded and there are no more',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint()
      await tenant.publish()
      const delivery = await claimOne(tenant)
      await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId: id, entry: newEntry() })
      assert.deepEqual(await writeResults(tenant, [lastFailure(delivery)], { failures: 1, failingMs: 0 }), [])
      const { state, attemptLog } = await onlyDelivery(tenant)
      assert.deepEqual([state, attemptLog.length], ['failed', 1])
    },
  )
}
