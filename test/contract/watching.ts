import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import { newEntry } from './audit-entry.ts'
import { claim, claimOne, createPublisher, refOf, success, writeResults } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { events } from './tenant.ts'

/** Tests watchers for new work. */
export function testWatching(harness: StoreHarness): void {
  /** Asserts that a watcher was called. Calls without new work count as well. */
  async function assertTold(calls: () => number, work: () => Promise<unknown>, what: string): Promise<void> {
    const before = calls()
    await work()
    const endsAt = performance.now() + 1000
    while (calls() === before && performance.now() < endsAt) await setTimeout(2)
    assert.ok(calls() > before, `no watcher was called after ${what}`)
  }

  harness.test('watch() reports soon after deliveries were recorded or became due again', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { store, id: organizationId } = tenant
    const { id } = await tenant.insertEndpoint()
    let count = 0
    const { end: unwatch } = store.deliveries.watch(() => count++)
    t.after(unwatch)
    const calls = () => count

    await assertTold(calls, () => tenant.publish(), 'an event')
    const delivery = await claimOne(tenant)
    await writeResults(tenant, [success(delivery)])
    await assertTold(
      calls,
      () =>
        store.deliveries.recover({
          organizationId,
          ids: [delivery.id],
          filter: {},
          limit: 1,
          entry: newEntry(),
        }),
      'a replay',
    )
    for (const kind of Object.values(kinds)) {
      await assertTold(calls, () => kind.create(tenant, { events: events(1) }), `an event of ${kind.name}`)
    }
    for (const state of ['paused', 'disabled'] as const) {
      await store.endpoints.setState({
        organizationId,
        endpointId: id,
        state,
        from: ['enabled'],
        entry: newEntry(),
      })
      const enable = () =>
        store.endpoints.setState({
          organizationId,
          endpointId: id,
          state: 'enabled',
          from: [state],
          entry: newEntry(),
        })
      await assertTold(calls, enable, `an endpoint that is no longer ${state}`)
    }
    const claimed = (await claim(tenant, { limit: 1 })).deliveries
    await assertTold(calls, () => store.deliveries.release(claimed.map(refOf)), 'claims that were given back')
  })

  harness.test('watch() calls all watchers until they end', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const calls = { first: 0, second: 0 }
    const countFirst = () => {
      calls.first++
    }
    const { end: unwatchFirst } = tenant.store.deliveries.watch(countFirst)
    const { end: unwatchTwin } = tenant.store.deliveries.watch(countFirst)
    const { end: unwatchSecond } = tenant.store.deliveries.watch(() => calls.second++)
    t.after(unwatchSecond)
    await assertTold(
      () => calls.first,
      () => tenant.publish(),
      'an event',
    )
    unwatchTwin()
    unwatchTwin()
    await assertTold(
      () => calls.first,
      () => tenant.publish(),
      'an event, as the same watcher still watches',
    )

    unwatchFirst()
    const { first } = calls
    await assertTold(
      () => calls.second,
      () => tenant.publish(),
      'an event',
    )
    assert.equal(calls.first, first, 'it had ended it')
  })

  harness.test('a watcher that throws does not affect the method or other watchers', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    t.after(
      tenant.store.deliveries.watch(() => {
        throw new Error('a watcher that throws')
      }).end,
    )
    let count = 0
    t.after(tenant.store.deliveries.watch(() => count++).end)
    const event = await tenant.publish()
    assert.deepEqual(await tenant.events(), [event])
    await assertTold(
      () => count,
      () => tenant.publish(),
      'an event',
    )
  })
}
