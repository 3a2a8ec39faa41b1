import assert from 'node:assert/strict'
import type { DeliveryFilter } from '../../lib/webhooks/deliveries.ts'
import type { EndpointState } from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import {
  type Claimed,
  claim,
  claimOne,
  createPublisher,
  deliveriesOf,
  failure,
  getDelivery,
  LEASE_MS,
  lastFailure,
  onlyDelivery,
  onlyEndpoint,
  refOf,
  storeTime,
  success,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** Tests how deliveries in a final state are recovered. */
export function testRecoveries(harness: StoreHarness): void {
  testRound(harness)
  testWhich(harness)
  testFilters(harness)
  testEndpointStates(harness)
  testOfEvents(harness)
}

function recover(
  { store, id }: Tenant,
  deliveryIds: readonly string[],
  filter: DeliveryFilter = {},
): Promise<readonly string[]> {
  return store.deliveries.recover({
    organizationId: id,
    ids: deliveryIds,
    filter,
    limit: 100,
    entry: newEntry(),
  })
}

/** Recovers all deliveries that match the filter. */
async function recoverAll(tenant: Tenant, filter: DeliveryFilter = {}): Promise<readonly string[]> {
  const all = await deliveriesOf(tenant)
  return recover(
    tenant,
    all.map(({ id }) => id),
    filter,
  )
}

/** Publishes a number of events and delivers each immediately. Returns the deliveries, oldest first. */
async function deliver(tenant: Tenant, events: number): Promise<readonly Claimed[]> {
  const delivered: Claimed[] = []
  for (let event = 0; event < events; event++) {
    await tenant.publish()
    delivered.push(...(await claim(tenant)).deliveries)
  }
  await writeResults(
    tenant,
    delivered.map((delivery) => success(delivery)),
  )
  // Deliveries of the same millisecond may have been created in any order.
  return delivered.toSorted((one, other) => (one.id < other.id ? -1 : 1))
}

function testRound(harness: StoreHarness): void {
  harness.test(
    'recover() makes a delivery due now with the same event in a new round, and its log continues',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      const event = await tenant.publish()
      await writeResults(tenant, [failure(await claimOne(tenant))])
      const { id } = await claimOne(tenant)
      await tenant.letTimePass(LEASE_MS + 1)
      await claim(tenant, { maxAttempts: 2 })
      const { reason, finishedAt, ...before } = await onlyDelivery(tenant)
      assert.deepEqual([before.state, before.attempts, reason], ['failed', 2, 'interrupted'])
      assert.ok(finishedAt, 'not finished')

      assert.deepEqual(await recover(tenant, [id]), [id])
      const { dueAt, ...after } = await onlyDelivery(tenant)
      assert.deepEqual(after, { ...withoutDueAt(before), state: 'pending', reason: null, finishedAt: null })
      assert.ok(Math.abs((await storeTime(tenant)) - Date.parse(dueAt ?? '')) < 10_000, `due at ${dueAt}`)

      const again = await claimOne(tenant)
      assert.deepEqual([again.eventId, again.body, again.attempt], [event.id, event.body, 1])
      await writeResults(tenant, [success(again)])
      const { attempts, state, attemptLog } = await onlyDelivery(tenant)
      assert.deepEqual([attempts, state], [3, 'delivered'])
      assert.deepEqual(
        attemptLog.map(({ number, status, error }) => [number, status, error]),
        [
          [1, 500, null],
          [2, null, 'interrupted'],
          [3, 204, null],
        ],
      )
    },
  )

  harness.test('a new round has the full number of attempts', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    await tenant.publish()
    for (let round = 1; round <= 3; round++) {
      for (let attempt = 1; attempt <= 2; attempt++) {
        assert.equal((await claimOne(tenant, { maxAttempts: 2 })).attempt, attempt)
        await tenant.letTimePass(LEASE_MS + 1)
      }
      assert.deepEqual((await claim(tenant, { maxAttempts: 2 })).eventIds, [])
      const { id, state, attempts } = await onlyDelivery(tenant)
      assert.deepEqual([state, attempts], ['failed', round * 2])
      await recover(tenant, [id])
    }
  })

  harness.test('a claim released in a new round uncounts an attempt of the new round', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [delivered] = await deliver(tenant, 1)
    assert.ok(delivered, 'no delivery was delivered')
    await recover(tenant, [delivered.id])
    const claimed = await claimOne(tenant)
    await tenant.store.deliveries.release([refOf(claimed)])
    assert.equal((await onlyDelivery(tenant)).attempts, 1)
    assert.equal((await claimOne(tenant)).attempt, 1)
  })

  harness.test('a result of an earlier round is dropped', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [delivered] = await deliver(tenant, 1)
    assert.ok(delivered, 'no delivery was delivered')
    await recover(tenant, [delivered.id])
    const before = await onlyDelivery(tenant)
    await writeResults(tenant, [lastFailure(delivered)])
    assert.deepEqual(await onlyDelivery(tenant), before)
    assert.equal((await onlyEndpoint(tenant)).failures, 0)
  })
}

function withoutDueAt<T extends { readonly dueAt: unknown }>({ dueAt: _, ...rest }: T): Omit<T, 'dueAt'> {
  return rest
}

function testWhich(harness: StoreHarness): void {
  harness.test(
    'recover() recovers deliveries in any final state, but not those still to be sent',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      await tenant.store.endpoints.setState({
        organizationId: tenant.id,
        endpointId,
        state: 'disabled',
        from: ['enabled'],
        entry: newEntry(),
      })
      await tenant.publish()
      await tenant.store.endpoints.setState({
        organizationId: tenant.id,
        endpointId,
        state: 'enabled',
        from: ['disabled'],
        entry: newEntry(),
      })
      for (let event = 0; event < 4; event++) await tenant.publish()
      const [one, other, retried] = (await claim(tenant, { limit: 4 })).deliveries
      assert.ok(one && other && retried, 'one, other or retried is missing')
      await writeResults(tenant, [success(one), lastFailure(other), failure(retried, { delayMs: 60_000 })])
      const all = await deliveriesOf(tenant)
      const [final, open] = [all.filter(isFinal), all.filter((delivery) => !isFinal(delivery))]
      assert.deepEqual(new Set(final.map(({ state }) => state)), new Set(['skipped', 'delivered', 'failed']))
      assert.deepEqual(new Set(open.map(({ state }) => state)), new Set(['pending', 'sending']))

      const recovered = await recover(
        tenant,
        all.map(({ id }) => id),
      )
      assert.deepEqual(recovered.toSorted(), final.map(({ id }) => id).toSorted())
      for (const { id } of final) assert.equal((await getDelivery(tenant, id)).state, 'pending')
      const after = await deliveriesOf(tenant)
      assert.deepEqual(
        after.filter(({ id }) => open.some((delivery) => delivery.id === id)),
        open,
      )
    },
  )

  harness.test(
    'recover() makes a delivery that is backing off due now in a new round if the filter names pending',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.publish()
      await writeResults(tenant, [failure(await claimOne(tenant), { delayMs: 60_000 })])
      const { id } = await onlyDelivery(tenant)
      const request = {
        organizationId: tenant.id,
        ids: [id],
        filter: { states: ['pending'] },
        limit: 1,
        entry: { ...newEntry(), subjectId: id },
      } as const
      assert.deepEqual(await recover(tenant, [id]), [])
      assert.deepEqual(await tenant.store.deliveries.recover(request), [id])
      // Due already.
      assert.deepEqual(await recover(tenant, [id], request.filter), [])
      const { state, dueAt, attempts } = await onlyDelivery(tenant)
      assert.deepEqual([state, attempts], ['pending', 1])
      assert.ok(Date.parse(dueAt ?? '') <= (await storeTime(tenant)), `due at ${dueAt}`)

      const again = await claimOne(tenant)
      assert.deepEqual([again.id, again.attempt], [id, 1])
      assert.deepEqual(await recover(tenant, [id], { states: ['pending', 'sending'] }), [])
      await writeResults(tenant, [failure(again, { delayMs: 60_000 })])
      // A repeated call whose response was lost doesn't skip the next delay.
      assert.deepEqual(await tenant.secondStore.deliveries.recover(request), [id])
      assert.deepEqual((await claim(tenant)).deliveries, [])
      const audit = await tenant.store.audit.list(tenant.id, { subjectId: id }, 10, null)
      assert.deepEqual(
        audit.map(({ details }) => details.recovered),
        [1],
      )

      const endpointId = again.endpointId
      const setState = (from: EndpointState, state: 'paused' | 'enabled') =>
        tenant.store.endpoints.setState({
          ...{ organizationId: tenant.id, endpointId, state, from: [from], entry: newEntry() },
        })
      await setState('enabled', 'paused')
      assert.deepEqual(await recover(tenant, [id], { states: ['pending'] }), [id])
      assert.deepEqual((await claim(tenant)).deliveries, [])
      await setState('paused', 'enabled')
      await writeResults(tenant, [failure(await claimOne(tenant), { delayMs: 60_000 })])
      await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId, entry: newEntry() })
      assert.deepEqual(await recover(tenant, [id], { states: ['pending'] }), [])
    },
  )

  harness.test('recover() only recovers the given ids, each once, and ignores unknown ids', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [one, other, third] = await deliver(tenant, 3)
    assert.ok(one && other && third, 'one, other or third is missing')
    const given = [third.id, ids('dlv'), one.id, third.id, '', "' or true --"]
    assert.deepEqual((await recover(tenant, given)).toSorted(), [one.id, third.id])
    assert.equal((await getDelivery(tenant, other.id)).state, 'delivered')
    assert.deepEqual(await recover(tenant, []), [])
  })

  harness.test('recover() of the same ids again has no effect', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [delivered] = await deliver(tenant, 1)
    assert.ok(delivered, 'no delivery was delivered')
    await recover(tenant, [delivered.id])
    const before = await onlyDelivery(tenant)
    assert.deepEqual(
      await tenant.secondStore.deliveries.recover({
        organizationId: tenant.id,
        ids: [delivered.id],
        filter: {},
        limit: 1,
        entry: newEntry(),
      }),
      [],
    )
    assert.deepEqual(await onlyDelivery(tenant), before)
  })

  harness.test('a recovery made ten times concurrently by two processes starts a single round', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const deliveries = await deliver(tenant, 5)
    const deliveryIds = deliveries.map(({ id }) => id)
    const stores = [tenant.store, tenant.secondStore]
    const calls = Array.from({ length: 10 }, (_, index) =>
      (stores[index % 2] ?? tenant.store).deliveries.recover({
        organizationId: tenant.id,
        ids: deliveryIds,
        filter: {},
        limit: 100,
        entry: newEntry(),
      }),
    )
    assert.deepEqual((await Promise.all(calls)).flat().toSorted(), deliveryIds)
    assert.equal((await claim(tenant)).deliveries.length, 5)
    for (const { attempts } of await deliveriesOf(tenant)) assert.equal(attempts, 2)
  })
}

function isFinal({ state }: { readonly state: string }): boolean {
  return state !== 'pending' && state !== 'sending'
}

function testFilters(harness: StoreHarness): void {
  harness.test('recover() of all ids recovers exactly the deliveries that match the filter', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint()
    await tenant.insertEndpoint()
    await tenant.publish({ type: 'client.created' })
    await tenant.publish({ type: 'lead.created' })
    const { deliveries } = await claim(tenant)
    await writeResults(
      tenant,
      deliveries.map((delivery) =>
        delivery.type === 'lead.created' ? lastFailure(delivery) : success(delivery),
      ),
    )
    const all = await deliveriesOf(tenant)
    const expected = all.filter(
      (delivery) => delivery.endpointId === endpointId && delivery.state === 'failed',
    )
    assert.equal(expected.length, 1)
    const filter = { endpointId, states: ['failed'] } as const
    assert.deepEqual(await recoverAll(tenant, { ...filter, type: 'client.created' }), [])
    assert.deepEqual(await recoverAll(tenant, { ...filter, until: '2000-01-01T00:00:00.000Z' }), [])
    assert.deepEqual(
      await recoverAll(tenant, { ...filter, type: 'lead.created', since: '2000-01-01T00:00:00.000Z' }),
      [expected[0]?.id],
    )
    const states = (await deliveriesOf(tenant)).map(({ state }) => state)
    assert.deepEqual(states.toSorted(), ['delivered', 'delivered', 'failed', 'pending'])
  })

  harness.test('recover() and countRecoverable() support the deliveries of a record', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    for (const subjectId of ['inv_1', 'inv_2', 'inv_1']) await tenant.publish({ subjectId })
    await tenant.publish()
    const { deliveries } = await claim(tenant)
    await writeResults(
      tenant,
      deliveries.map((delivery) => lastFailure(delivery)),
    )
    const filter = { subjectId: 'inv_1', states: ['failed'] } as const
    const expected = (await deliveriesOf(tenant, filter)).map(({ id }) => id)
    assert.equal(await tenant.store.deliveries.countRecoverable(tenant.id, filter, 100), 2)
    assert.deepEqual(await recoverAll(tenant, { ...filter, subjectId: 'inv_3' }), [])
    assert.deepEqual((await recoverAll(tenant, filter)).toSorted(), expected.toSorted())
    assert.equal((await deliveriesOf(tenant, { states: ['failed'] })).length, 2)
  })

  harness.test(
    'countRecoverable() counts what recover() recovers, and nothing of removed endpoints',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      const { id: removed } = await tenant.insertEndpoint()
      await deliver(tenant, 2)
      await tenant.publish()
      const count = (filter: object, max = 10) =>
        tenant.store.deliveries.countRecoverable(tenant.id, { states: ['delivered'], ...filter }, max)
      assert.deepEqual([await count({}), await count({ endpointId: removed }), await count({}, 3)], [4, 2, 3])
      await tenant.store.endpoints.remove({
        organizationId: tenant.id,
        endpointId: removed,
        entry: newEntry(),
      })
      assert.deepEqual([await count({}), await count({ endpointId: removed })], [2, 0])
      assert.equal((await recoverAll(tenant, { states: ['delivered'] })).length, 2)
      assert.equal(await count({ endpointId }), 0)
    },
  )

  harness.test('recover() only recovers ids that match the filter', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const [one, other] = await deliver(tenant, 2)
    assert.ok(one && other, 'one or other is missing')
    assert.deepEqual(await recover(tenant, [one.id, other.id], { states: ['failed'] }), [])
    assert.deepEqual(await recover(tenant, [one.id], { states: ['delivered'] }), [one.id])
    assert.equal((await getDelivery(tenant, other.id)).state, 'delivered')
  })
}

function testEndpointStates(harness: StoreHarness): void {
  async function createDelivered(
    t: ContractTest,
  ): Promise<{ tenant: Tenant; endpointId: string; id: string }> {
    const tenant = await createPublisher(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint()
    const [delivered] = await deliver(tenant, 1)
    return { tenant, endpointId, id: delivered?.id ?? '' }
  }

  harness.test('recover() skips deliveries of a removed endpoint', async (t) => {
    const { tenant, endpointId, id } = await createDelivered(t)
    await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId, entry: newEntry() })
    const before = await onlyDelivery(tenant)
    assert.deepEqual(await recover(tenant, [id]), [])
    assert.deepEqual(await recoverAll(tenant), [])
    assert.deepEqual(await onlyDelivery(tenant), before)
  })

  harness.test(
    'a recovered delivery waits for a paused endpoint, and is skipped again for a disabled one',
    async (t) => {
      const { tenant, endpointId, id } = await createDelivered(t)
      const move = (state: EndpointState, from: EndpointState) => {
        const request = { organizationId: tenant.id, endpointId, entry: newEntry() }
        return tenant.store.endpoints.setState({ ...request, state, from: [from] })
      }
      await move('paused', 'enabled')
      assert.deepEqual(await recover(tenant, [id]), [id])
      assert.deepEqual((await claim(tenant)).eventIds, [])
      assert.equal((await onlyDelivery(tenant)).state, 'pending')

      await move('disabled', 'paused')
      await claim(tenant)
      assert.equal((await onlyDelivery(tenant)).state, 'skipped')
      assert.deepEqual(await recover(tenant, [id]), [id])
      await claim(tenant)
      assert.equal((await onlyDelivery(tenant)).state, 'skipped')

      await move('enabled', 'disabled')
      await recover(tenant, [id])
      assert.equal((await claimOne(tenant)).id, id)
    },
  )
}

function testOfEvents(harness: StoreHarness): void {
  function redeliver({ store, id }: Tenant, eventId: string, endpointId: string, entry = newEntry()) {
    return store.deliveries.redeliverEvent({ organizationId: id, eventId, endpointId, entry })
  }

  harness.test(
    'redeliverEvent() sends an event to an endpoint that was registered later, and to no other endpoint',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const first = await tenant.insertEndpoint()
      const event = await tenant.publish()
      await writeResults(tenant, [success(await claimOne(tenant))])
      const late = await tenant.insertEndpoint({ types: ['invoice.paid'] })
      const entry = newEntry()
      const sent = await redeliver(tenant, event.id, late.id, entry)
      assert.equal(sent.outcome, 'sent')
      assert.deepEqual(await redeliver(tenant, event.id, late.id, entry), sent, 'the same call again')
      assert.equal((await redeliver(tenant, event.id, late.id)).outcome, 'open')
      const claimed = await claimOne(tenant)
      assert.deepEqual(
        [claimed.endpointId, claimed.eventId, claimed.body, claimed.attempt],
        [late.id, event.id, event.body, 1],
      )
      await writeResults(tenant, [success(claimed)])
      const deliveries = await deliveriesOf(tenant, { eventId: event.id })
      assert.deepEqual(
        new Map(deliveries.map(({ endpointId, state }) => [endpointId, state])),
        new Map([
          [first.id, 'delivered'],
          [late.id, 'delivered'],
        ]),
      )
      assert.deepEqual(
        await redeliver(tenant, event.id, late.id, entry),
        sent,
        'after the delivery has ended',
      )
      assert.equal((await deliveriesOf(tenant, { states: ['pending'] })).length, 0)
      const [audited] = await tenant.store.audit.list(tenant.id, { subjectId: claimed.id }, 10, null)
      assert.deepEqual([audited?.id, audited?.details.recovered], [entry.id, 1])
    },
  )

  harness.test('redeliverEvent() starts a new round of an existing delivery', async (t) => {
    const tenant = await createPublisher(harness, t)
    const endpoint = await tenant.insertEndpoint()
    const event = await tenant.publish()
    assert.equal((await redeliver(tenant, event.id, endpoint.id)).outcome, 'open')
    await writeResults(tenant, [lastFailure(await claimOne(tenant))])
    const { id } = await onlyDelivery(tenant)
    assert.deepEqual(await redeliver(tenant, event.id, endpoint.id), { outcome: 'sent', deliveryId: id })
    assert.equal((await claimOne(tenant)).id, id)
    assert.equal((await redeliver(tenant, event.id, endpoint.id)).outcome, 'open')
  })

  harness.test(
    'redeliverEvent() called ten times concurrently by two processes creates one delivery',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const event = await tenant.publish()
      const endpoint = await tenant.insertEndpoint()
      const outcomes = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          redeliver(
            { ...tenant, store: index % 2 === 0 ? tenant.store : tenant.secondStore },
            event.id,
            endpoint.id,
          ),
        ),
      )
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'sent').length, 1)
      assert.equal((await deliveriesOf(tenant)).length, 1)
    },
  )

  harness.test(
    'redeliverEvent() returns what the organization does not have, and writes nothing',
    async (t) => {
      const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
      const event = await tenant.publish()
      const endpoint = await tenant.insertEndpoint()
      const theirs = { event: await other.publish(), endpoint: await other.insertEndpoint() }
      assert.deepEqual(await redeliver(tenant, theirs.event.id, endpoint.id), {
        outcome: 'no event',
        deliveryId: null,
      })
      assert.deepEqual(await redeliver(tenant, event.id, theirs.endpoint.id), {
        outcome: 'no endpoint',
        deliveryId: null,
      })
      const removal = { organizationId: tenant.id, endpointId: endpoint.id, entry: newEntry() }
      await tenant.store.endpoints.remove(removal)
      assert.deepEqual(await redeliver(tenant, event.id, endpoint.id), {
        outcome: 'no endpoint',
        deliveryId: null,
      })
      assert.deepEqual([await deliveriesOf(tenant), await deliveriesOf(other)], [[], []])
    },
  )
}
