import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import type { Delivery, DeliveryFilter } from '../../lib/webhooks/deliveries.ts'
import {
  capacityFor,
  claim,
  createPublisher,
  deliveriesOf,
  failure,
  getDelivery,
  lastFailure,
  success,
  writeResults,
} from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { ids, type Tenant } from './tenant.ts'

/** Tests the delivery log. */
export function testDeliveries(harness: StoreHarness): void {
  testPages(harness)
  testFilters(harness)
}

function testPages(harness: StoreHarness): void {
  harness.test(
    'deliveries.list() returns the newest first, up to limit, and continues after the last of a page',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      await tenant.insertEndpoint()
      await tenant.insertEndpoint()
      for (let event = 0; event < 5; event++) await tenant.publish()
      const all = await deliveriesOf(tenant)
      assert.equal(all.length, 10)
      assert.deepEqual(all.map(idOf), all.map(idOf).toSorted().toReversed())

      const pages: (readonly Delivery[])[] = []
      for (let before: string | null = null; pages.length < 4; before = pages.at(-1)?.at(-1)?.id ?? null) {
        pages.push(await tenant.secondStore.deliveries.list(tenant.id, {}, 4, before))
        // A delivery created in the meantime isn't on a later page.
        await tenant.publish()
        if (pages.at(-1)?.length === 0) break
      }
      assert.deepEqual(
        pages.map((page) => page.length),
        [4, 4, 2, 0],
      )
      assert.deepEqual(pages.flat(), all)
    },
  )

  harness.test(
    'deliveries.list() of an endpoint pages through deliveries of all states in one order',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      for (let round = 0; round < 2; round++) {
        for (let event = 0; event < 6; event++) await tenant.publish()
        const { deliveries } = await claim(tenant, { limit: 6 })
        const [delivered, failed, backingOff, due] = deliveries
        assert.ok(delivered && failed && backingOff && due, 'a delivery in each state')
        await writeResults(tenant, [
          success(delivered),
          lastFailure(failed),
          failure(backingOff, { delayMs: 60_000 }),
          failure(due, { delayMs: 0 }),
        ])
        await tenant.publish()
      }
      const all = await deliveriesOf(tenant)
      assert.equal(all.length, 14)
      const states = new Set(all.map(({ state }) => state))
      assert.deepEqual([...states].toSorted(), ['delivered', 'failed', 'pending', 'sending'])
      assert.deepEqual(all.map(idOf), all.map(idOf).toSorted().toReversed())
      for (const filter of [{}, { endpointId }, { endpointId, states: ['pending', 'delivered'] as const }]) {
        const paged: Delivery[] = []
        for (let page: readonly Delivery[] = []; paged.length === 0 || page.length > 0; paged.push(...page))
          page = await tenant.store.deliveries.list(tenant.id, filter, 3, paged.at(-1)?.id ?? null)
        const wanted: readonly string[] = filter.states ?? [...states]
        assert.deepEqual(
          paged,
          all.filter(({ state }) => wanted.includes(state)),
        )
      }
    },
  )

  harness.test('deliveries.list() is empty for an organization without deliveries', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.publish()
    assert.deepEqual(await deliveriesOf(tenant), [])
  })

  harness.test('deliveries.get() returns null for an unknown id', async (t) => {
    const tenant = await createPublisher(harness, t)
    await tenant.insertEndpoint()
    const { id: eventId } = await tenant.publish()
    for (const id of [ids('dlv'), eventId, '', "' or true --", 'constructor']) {
      assert.equal(await tenant.store.deliveries.get(tenant.id, id), null)
    }
  })
}

function idOf({ id }: Delivery): string {
  return id
}

function testFilters(harness: StoreHarness): void {
  /** Creates three endpoints with deliveries for two event types each, in four states. */
  async function createLog(tenant: Tenant): Promise<readonly Delivery[]> {
    for (let endpoint = 0; endpoint < 3; endpoint++) await tenant.insertEndpoint()
    for (const type of ['client.created', 'lead.created', 'client.created']) {
      await tenant.publish({ type })
      // Each event needs a different time because the assertions distinguish events by time.
      await setTimeout(3)
    }
    const { deliveries } = await claim(tenant, { capacity: capacityFor(tenant, { endpoint: 2 }) })
    const [first, second, third] = deliveries
    assert.ok(first && second && third, 'first, second or third is missing')
    await writeResults(tenant, [success(first), lastFailure(second), success(third)])
    return deliveriesOf(tenant)
  }

  harness.test('deliveries.list() supports each field of the filter and all of them combined', async (t) => {
    const tenant = await createPublisher(harness, t)
    const all = await createLog(tenant)
    assert.equal(new Set(all.map(({ state }) => state)).size, 4)
    const times = [...new Set(all.map(({ createdAt }) => createdAt))].toSorted()
    const [, since = '', until = ''] = times
    const endpointId = all[4]?.endpointId ?? ''
    const filters: readonly [DeliveryFilter, (delivery: Delivery) => boolean][] = [
      [{}, () => true],
      [{ endpointId }, (delivery) => delivery.endpointId === endpointId],
      [{ eventId: all[2]?.eventId ?? '' }, ({ eventId }) => eventId === all[2]?.eventId],
      [{ type: 'lead.created' }, ({ type }) => type === 'lead.created'],
      [{ states: ['pending'] }, ({ state }) => state === 'pending'],
      [{ states: ['delivered', 'sending'] }, ({ state }) => state === 'delivered' || state === 'sending'],
      [{ since }, ({ createdAt }) => createdAt >= since],
      [{ until }, ({ createdAt }) => createdAt < until],
      [{ since, until }, ({ createdAt }) => createdAt >= since && createdAt < until],
      [
        {
          endpointId,
          type: 'client.created',
          states: ['pending', 'sending', 'delivered'],
          since,
          until: '9999-12-31T23:59:59.999Z',
        },
        (delivery) =>
          delivery.endpointId === endpointId &&
          delivery.type === 'client.created' &&
          delivery.state !== 'failed' &&
          delivery.createdAt >= since,
      ],
    ]
    for (const [filter, isLetThrough] of filters) {
      const expected = all.filter(isLetThrough)
      assert.ok(expected.length > 0, 'no delivery matches')
      assert.deepEqual(await deliveriesOf(tenant, filter), expected, JSON.stringify(filter))
      assert.equal(await tenant.store.deliveries.count(tenant.id, filter, 100), expected.length)
    }
  })

  harness.test(
    'deliveries.list() finds the deliveries of a record in all states, page by page',
    async (t) => {
      const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
      for (const { insertEndpoint } of [tenant, tenant, other]) await insertEndpoint()
      const subjectId = 'inv_é 🏺"'
      const about: string[] = []
      for (const type of ['client.created', 'invoice.paid', 'lead.created']) {
        about.push((await tenant.publish({ subjectId, type })).id)
        await tenant.publish({ subjectId: `${subjectId}2`, type })
        await tenant.publish({ type })
        await other.publish({ subjectId, type })
      }
      const { deliveries: claimed } = await claim(tenant, { limit: 5 })
      await writeResults(
        tenant,
        claimed.slice(1).map((delivery) => success(delivery)),
      )
      const all = await deliveriesOf(tenant)
      // Open and finished deliveries of three events of each record, to two endpoints, and what a single delivery shows.
      for (const [wanted, count] of [
        [subjectId, 6],
        [`${subjectId}2`, 6],
        [null, 6],
      ] as const) {
        const ofRecord = all.filter((delivery) => delivery.subjectId === wanted)
        assert.equal(ofRecord.length, count, `deliveries of ${wanted}`)
        assert.equal((await getDelivery(tenant, ofRecord[0]?.id ?? '')).subjectId, wanted)
      }
      const list = tenant.store.deliveries.list
      for (const filter of [
        {},
        { type: 'invoice.paid' },
        { states: ['pending'] },
        { endpointId: all[0]?.endpointId },
      ] as const) {
        const expected = all.filter(
          ({ eventId, type, state, endpointId }) =>
            about.includes(eventId) &&
            (!('type' in filter) || type === filter.type) &&
            (!('states' in filter) || state === 'pending') &&
            (!('endpointId' in filter) || endpointId === filter.endpointId),
        )
        assert.ok(expected.length > 1, 'too few deliveries match')
        assert.deepEqual(await deliveriesOf(tenant, { ...filter, subjectId }), expected)
        assert.equal(
          await tenant.store.deliveries.count(tenant.id, { ...filter, subjectId }, 100),
          expected.length,
        )
        const paged: Delivery[] = []
        let page: readonly Delivery[]
        do {
          page = await list(tenant.id, { ...filter, subjectId }, 1, paged.at(-1)?.id ?? null)
          paged.push(...page)
        } while (page.length > 0)
        assert.deepEqual(paged, expected)
      }
      const [newest] = about.toReversed()
      const ofOne = all.filter(({ eventId }) => eventId === newest)
      assert.deepEqual(await deliveriesOf(tenant, { subjectId, eventId: newest }), ofOne)
      const since = ofOne[0]?.createdAt ?? ''
      assert.deepEqual(
        await deliveriesOf(tenant, { subjectId, since }),
        all.filter(({ eventId, createdAt }) => about.includes(eventId) && createdAt >= since),
      )
      assert.deepEqual(await deliveriesOf(tenant, { subjectId: 'inv_' }), [])
    },
  )

  harness.test('deliveries.count() counts up to a maximum', async (t) => {
    const tenant = await createPublisher(harness, t)
    assert.equal(await tenant.store.deliveries.count(tenant.id, {}, 5), 0)
    await createLog(tenant)
    assert.equal(await tenant.store.deliveries.count(tenant.id, {}, 5), 5)
  })

  harness.test('deliveries.list() returns the status or error of the last attempt', async (t) => {
    const tenant = await createPublisher(harness, t)
    const all = await createLog(tenant)
    const seen = new Set(all.map(({ state, lastStatus, lastError }) => `${state} ${lastStatus} ${lastError}`))
    const { attemptLog, lastStatus } = await getDelivery(
      tenant,
      all.find(({ state }) => state === 'failed')?.id ?? '',
    )
    assert.ok(lastStatus !== null && lastStatus === attemptLog.at(-1)?.status, `lastStatus ${lastStatus}`)
    assert.ok(seen.has('delivered 204 null') && seen.has('pending null null'), [...seen].join())
  })

  harness.test('deliveries.listAttempts() returns the same attempts as deliveries.get()', async (t) => {
    const tenant = await createPublisher(harness, t)
    const all = await createLog(tenant)
    const details = await Promise.all(all.map(({ id }) => getDelivery(tenant, id)))
    const expected = details.flatMap(({ id, attemptLog }) =>
      attemptLog.length > 0 ? [[id, attemptLog] as const] : [],
    )
    assert.ok(expected.length > 2 && expected.length < all.length, `${expected.length} of ${all.length}`)
    const { deliveries } = tenant.secondStore
    const wanted = [...all.map(({ id }) => id), ids('dlv'), '', 'constructor']
    assert.deepEqual(new Map(await deliveries.listAttempts(tenant.id, wanted)), new Map(expected))
    assert.equal((await deliveries.listAttempts(tenant.id, [])).size, 0)
  })

  harness.test('deliveries.list() returns an empty page if nothing matches the filter', async (t) => {
    const tenant = await createPublisher(harness, t)
    const [newest] = await createLog(tenant)
    for (const filter of [
      { endpointId: ids('we') },
      { type: 'invoice.paid' },
      { type: "' or true --" },
      { states: [] },
      { states: ['cancelled'] },
      { since: '9999-12-31T23:59:59.999Z' },
      { until: '1970-01-01T00:00:00.000Z' },
    ] as const) {
      assert.deepEqual(await deliveriesOf(tenant, filter), [], JSON.stringify(filter))
    }
    assert.ok(newest, 'no delivery')
  })

  harness.test(
    'deliveries.list() can continue after a delivery that does not match the filter',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const all = await createLog(tenant)
      const { id = '', type } = all[4] ?? {}
      const filter = { type: type === 'lead.created' ? 'client.created' : 'lead.created' }
      const page = await tenant.store.deliveries.list(tenant.id, filter, 100, id)
      assert.deepEqual(
        page,
        all.filter((delivery) => delivery.type === filter.type && delivery.id < id),
      )
    },
  )
}
