import assert from 'node:assert/strict'
import { createIds } from '../../lib/base/ids.ts'
import { BACKFILL_TYPES, type BackfillType, backfillTemplate } from '../../lib/resources/backfill.ts'
import { newBusiness } from '../../lib/resources/businesses.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { newLead } from '../../lib/resources/leads.ts'
import { proposalEvents } from '../../lib/resources/proposals.ts'
import type { BackfillOutcome, BackfillRequest } from '../../lib/webhooks/backfill.ts'
import { buildEvent, type EventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from './audit-entry.ts'
import {
  beforeAllOf,
  capacityFor,
  claim,
  createPublisher,
  deliveriesOf,
  failure,
  getDelivery,
  lastFailure,
  storeTime,
  success,
  TIMESTAMP,
  writeResults,
} from './delivering.ts'
import type { ContractTest, StoreHarness } from './harness.ts'
import { callAtOnce, ids, type Tenant } from './tenant.ts'

/** Tests events for records that existed before an endpoint. */
export function testBackfills(harness: StoreHarness): void {
  testEvents(harness)
  testRepeatedBackfills(harness)
  testRefusals(harness)
  testTurns(harness)
}

interface Records {
  readonly tenant: Tenant
  /** The events that were published when the records were created, by type. */
  readonly created: Readonly<Record<string, readonly EventRecord[]>>
}

/** Creates an organization with two clients, another business, a lead and a proposal, but no endpoint. */
async function createRecords(harness: StoreHarness, t: ContractTest): Promise<Records> {
  const tenant = await createPublisher(harness, t)
  await addRecords(tenant)
  return { tenant, created: byType(await tenant.events()) }
}

function byType(events: readonly EventRecord[]): Readonly<Record<string, readonly EventRecord[]>> {
  return Object.fromEntries(
    BACKFILL_TYPES.map((type) => [type, events.filter((event) => event.type === type)]),
  )
}

/** @param aheadMs how far the clock of the process is ahead, in ms */
async function addRecords({ id: organizationId, store }: Tenant, aheadMs = 0): Promise<void> {
  const now = Date.now() + aheadMs
  const ids = createIds(() => now)
  const context = { ids, now }
  const common = { organizationId, idempotency: null }
  for (const input of [{ name: 'Atlas "&" Söhne \\ 🏺', city: 'Tunis' }, { name: 'Brise' }]) {
    const { record, events } = newClient(input, context)
    await store.clients.create({ ...common, record, events })
  }
  const business = newBusiness({ name: 'Cèdre', email: 'c@cedre.example' }, context)
  await store.businesses.create({ ...common, record: business.record, events: business.events })
  const lead = newLead({ businessId: business.record.id, leadScore: 61.5 }, context)
  await store.leads.create({ ...common, record: lead.record, events: lead.events })
  const id = ids('prop')
  const proposal = {
    id,
    number: `PROP-${id}`,
    title: 'Website',
    status: 'draft',
    version: 1,
    total: 4800.5,
    monthlyTotal: 0,
    currency: 'TND',
  }
  const { number, version, status } = proposal
  const data = { proposalId: id, number, version, status, proposal }
  const events = [buildEvent(proposalEvents, 'proposal.created', data, context)]
  await store.proposals.create({ ...common, record: proposal, events })
}

function backfill(
  { id, store }: Tenant,
  endpointId: string,
  type: BackfillType,
  changes: Partial<BackfillRequest> = {},
): Promise<BackfillOutcome | null> {
  return store.backfills.backfill({
    organizationId: id,
    endpointId,
    type,
    template: backfillTemplate(type),
    after: null,
    limit: 100,
    entry: newEntry({ action: 'endpoint.backfilled', subjectId: endpointId }),
    ...changes,
  })
}

async function backfillAll(tenant: Tenant, endpointId: string): Promise<number> {
  let events = 0
  for (const type of BACKFILL_TYPES) {
    const part = await backfill(tenant, endpointId, type)
    assert.ok(part?.outcome === 'done', `${part?.outcome}`)
    events += part.events
  }
  return events
}

/** Returns the organization's backfilled events. */
async function backfilled(tenant: Tenant): Promise<EventRecord[]> {
  return (await tenant.events()).filter(({ id }) => id.startsWith('evt_backfill_'))
}

function testEvents(harness: StoreHarness): void {
  harness.test(
    'backfill() creates the same event for each record as its creation did, with a new id and time',
    async (t) => {
      const { tenant, created } = await createRecords(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      assert.equal(await backfillAll(tenant, endpointId), 7)
      const made = byType(await backfilled(tenant))
      assert.deepEqual(
        BACKFILL_TYPES.map((type) => made[type]?.length),
        [3, 2, 1, 1],
      )
      for (const type of BACKFILL_TYPES) {
        const withoutEnvelope = (events: readonly EventRecord[] = []): string[] =>
          events.map(({ body }) => body.slice(body.indexOf('"data":'))).sort()
        assert.deepEqual(withoutEnvelope(made[type]), withoutEnvelope(created[type]))
      }
      const now = await storeTime(tenant)
      for (const { id, type, body } of Object.values(made).flat()) {
        const { createdAt } = JSON.parse(body)
        assert.match(id, /^evt_backfill_[0-9a-f]{32}$/)
        assert.match(createdAt, TIMESTAMP)
        assert.ok(body.startsWith(JSON.stringify({ id, type, createdAt }).slice(0, -1)), body)
        assert.ok(Math.abs(Date.parse(createdAt) - now) < 60_000, `created at ${createdAt}`)
      }
    },
  )

  harness.test('backfill() only sends to one endpoint, with the current record', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const [{ id: endpointId }] = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
    const [lead] = (await tenant.events()).filter(({ type }) => type === 'lead.created')
    await tenant.store.leads.change({
      organizationId: tenant.id,
      id: ids('chg'),
      recordId: JSON.parse(lead?.body ?? '').data.leadId,
      from: null,
      set: { stage: 'qualified' },
      events: [],
      idempotency: null,
    })
    const before = (await deliveriesOf(tenant)).length
    await backfill(tenant, endpointId, 'lead.created')
    const deliveries = await deliveriesOf(tenant)
    assert.equal(deliveries.length, before + 1)
    const [delivery] = deliveries
    assert.deepEqual([delivery?.endpointId, delivery?.state, delivery?.attempts], [endpointId, 'pending', 0])
    const { body } = await getDelivery(tenant, delivery?.id ?? '')
    const { leadId: subjectId, lead: shown } = JSON.parse(body).data
    assert.equal(shown.stage, 'qualified')
    assert.equal((await deliveriesOf(tenant, { subjectId, endpointId })).length, 1)
  })

  harness.test('backfill() works in parts and returns where the next one starts', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint()
    const entry = newEntry({ action: 'endpoint.backfilled', subjectId: endpointId })
    const counts: number[] = []
    let after: string | null = null
    do {
      const part = await backfill(tenant, endpointId, 'business.created', { after, limit: 2, entry })
      assert.ok(part?.outcome === 'done', `${part?.outcome}`)
      counts.push(part.examined, part.events)
      after = part.next
    } while (after !== null)
    assert.deepEqual(counts, [2, 2, 1, 1])
    const [left] = await tenant.store.audit.list(tenant.id, { action: 'endpoint.backfilled' }, 10, null)
    assert.deepEqual(left?.details, { events: 3 })
  })

  harness.test('count() counts the records of a type up to a maximum', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const { backfills } = tenant.store
    const counts = await Promise.all(BACKFILL_TYPES.map((type) => backfills.count(tenant.id, type, 100)))
    assert.deepEqual(counts, [3, 2, 1, 1])
    assert.equal(await backfills.count(tenant.id, 'business.created', 2), 2)
  })
}

function testRepeatedBackfills(harness: StoreHarness): void {
  harness.test(
    'backfill() repeats nothing for the same endpoint, and creates new events for another one',
    async (t) => {
      const { tenant } = await createRecords(harness, t)
      const [one, other] = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
      assert.equal(await backfillAll(tenant, one.id), 7)
      const claimed = await claim(tenant)
      await writeResults(
        tenant,
        claimed.deliveries.map((delivery) => lastFailure(delivery)),
      )
      assert.equal(await backfillAll(tenant, one.id), 0, 'also after the first was given up')
      assert.equal(await backfillAll(tenant, other.id), 7)
      assert.equal(new Set((await backfilled(tenant)).map(({ id }) => id)).size, 14)
      const entries = await tenant.store.audit.list(tenant.id, { subjectId: one.id }, 100, null)
      assert.equal(entries.length, 4, 'no entry of a part without an event')
    },
  )

  harness.test('ten concurrent calls of backfill() create each event once', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint()
    const parts = await callAtOnce(tenant, (store) =>
      backfill({ ...tenant, store }, endpointId, 'business.created'),
    )
    const made = parts.map((part) => (part?.outcome === 'done' ? part.events : assert.fail()))
    assert.equal(
      made.reduce((sum, count) => sum + count, 0),
      3,
    )
    assert.equal((await deliveriesOf(tenant)).length, 3)
  })

  harness.test(
    'backfill() omits a record if the endpoint has already received its creation, and only then',
    async (t) => {
      const { tenant } = await createRecords(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      await addRecords(tenant)
      assert.equal(await backfillAll(tenant, endpointId), 7, 'the records from before the endpoint')
      const claimed = await claim(tenant, { limit: 7 })
      assert.ok(
        claimed.eventIds.every((id) => !id.startsWith('evt_backfill_')),
        'an event of the backfill was claimed',
      )
      const [first = assert.fail(), ...others] = claimed.deliveries
      await writeResults(tenant, [lastFailure(first), ...others.map((delivery) => success(delivery))])
      assert.equal(await backfillAll(tenant, endpointId), 1, 'the one that was given up')
    },
  )

  for (const days of [-40, 40]) {
    harness.test(`backfill() omits records of a process whose clock is off by ${days} days`, async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      await addRecords(tenant, days * 86_400_000)
      assert.equal(await backfillAll(tenant, endpointId), 0)
    })
  }

  harness.test('backfill() ignores events of the type that have no record', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const { id: endpointId } = await tenant.insertEndpoint()
    await tenant.publish({ type: 'client.created', body: '{"type":"client.created","data":{}}' })
    assert.equal(await backfillAll(tenant, endpointId), 7)
  })
}

function testRefusals(harness: StoreHarness): void {
  for (const state of ['paused', 'disabled'] as const) {
    harness.test(`backfill() sends nothing to an endpoint that is ${state}`, async (t) => {
      const { tenant } = await createRecords(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      const move = {
        organizationId: tenant.id,
        endpointId,
        state,
        from: ['enabled'],
        entry: newEntry(),
      } as const
      await tenant.store.endpoints.setState(move)
      assert.deepEqual(await backfill(tenant, endpointId, 'client.created'), { outcome: 'not_enabled' })
      assert.deepEqual(await backfilled(tenant), [])
    })
  }

  harness.test(
    'backfill() sends no type that the endpoint does not want, and nothing to an unknown or removed endpoint',
    async (t) => {
      const { tenant } = await createRecords(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint({ types: ['lead.created'] })
      assert.deepEqual(await backfill(tenant, endpointId, 'client.created'), { outcome: 'not_wanted' })
      assert.equal(await backfill(tenant, 'we_unknown', 'lead.created'), null)
      await tenant.store.endpoints.remove({ organizationId: tenant.id, endpointId, entry: newEntry() })
      assert.equal(await backfill(tenant, endpointId, 'lead.created'), null)
      assert.deepEqual(await backfilled(tenant), [])
    },
  )

  harness.test('backfill() only reads records of its organization', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const stranger = await createPublisher(harness, t)
    const { id: endpointId } = await stranger.insertEndpoint()
    assert.equal(await backfillAll(stranger, endpointId), 0)
    assert.equal(await backfill(tenant, endpointId, 'client.created'), null)
  })
}

function testTurns(harness: StoreHarness): void {
  harness.test(
    'claim() returns the deliveries of a backfill after all others of the organization, including retries',
    async (t) => {
      const { tenant } = await createRecords(harness, t)
      const [one, other] = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
      await backfillAll(tenant, one.id)
      await tenant.letTimePass(1000)
      const { id: first } = await tenant.publish()
      const both = await claim(tenant, { limit: 2 })
      assert.deepEqual(both.eventIds, [first, first])
      await writeResults(
        tenant,
        both.deliveries.map((delivery) => failure(delivery, { endedAgoMs: 0 })),
      )
      const { id: second } = await tenant.publish()
      for (const cursor of [null, { organizationId: tenant.id, endpointId: one.id }]) {
        const claimed = await claim(tenant, { ...(cursor && { cursor }), limit: 5 })
        assert.deepEqual(claimed.eventIds.slice(0, 4).sort(), [first, first, second, second].sort())
        assert.match(claimed.eventIds[4] ?? '', /^evt_backfill_/)
        await tenant.store.deliveries.release(
          claimed.deliveries.map(({ id, token }) => ({ organizationId: tenant.id, deliveryId: id, token })),
        )
      }
      const counts = await claim(tenant, {
        capacity: capacityFor(tenant, { endpoint: 3, organizations: { [tenant.id]: 5 } }),
      })
      const ofOne = counts.deliveries.filter(({ endpointId }) => endpointId === one.id)
      assert.deepEqual([ofOne.length, counts.deliveries.length], [3, 5], 'within the capacity that is left')
      assert.ok(
        counts.deliveries.some(({ endpointId }) => endpointId === other.id),
        'no delivery of the other endpoint',
      )
    },
  )

  harness.test('claim() only uses the capacity left by other endpoints for a backfill', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const [one, two, three] = [
      await tenant.insertEndpoint(),
      await tenant.insertEndpoint(),
      await tenant.insertEndpoint(),
    ]
    await backfillAll(tenant, one.id)
    for (const type of ['client.created', 'lead.created'] as const) await tenant.publish({ type })
    const capacity = capacityFor(tenant, { endpoint: 4, organizations: { [tenant.id]: 7 } })
    const { deliveries } = await claim(tenant, { capacity, cursor: beforeAllOf(tenant) })
    const countOf = ({ id }: { readonly id: string }) =>
      deliveries.filter(({ endpointId }) => endpointId === id).length
    assert.deepEqual([one, two, three].map(countOf), [3, 2, 2], 'two events each, and one of the backfill')
    const [{ eventId = '' } = {}] = deliveries.slice(-1)
    assert.match(eventId, /^evt_backfill_/)
  })

  harness.test('claim() lets several backfills take turns', async (t) => {
    const { tenant } = await createRecords(harness, t)
    const endpoints = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
    for (const { id } of endpoints) await backfillAll(tenant, id)
    const served: string[] = []
    let cursor = beforeAllOf(tenant)
    for (let n = 0; n < 4; n++) {
      const { deliveries, next } = await claim(tenant, { limit: 1, cursor })
      served.push(...deliveries.map(({ endpointId }) => endpointId))
      assert.ok(next, 'more is left')
      cursor = next
    }
    const [one, other] = endpoints.map(({ id }) => id)
    assert.deepEqual(served, [one, other, one, other])
  })

  harness.test(
    'claim() continues a backfill where the previous claim stopped, and skips one for a disabled endpoint',
    async (t) => {
      const { tenant } = await createRecords(harness, t)
      const [one, other] = [await tenant.insertEndpoint(), await tenant.insertEndpoint()]
      for (const { id } of [one, other]) await backfillAll(tenant, id)
      const first = await claim(tenant, { limit: 1, cursor: beforeAllOf(tenant) })
      assert.equal(first.deliveries[0]?.endpointId, one.id)
      assert.deepEqual(first.next, { organizationId: tenant.id, endpointId: one.id })
      const second = await claim(tenant, { limit: 1, cursor: first.next })
      assert.equal(second.deliveries[0]?.endpointId, other.id)
      await tenant.store.endpoints.setState({
        organizationId: tenant.id,
        endpointId: one.id,
        state: 'disabled',
        from: ['enabled'],
        entry: newEntry(),
      })
      const third = await claim(tenant)
      assert.deepEqual(new Set(third.deliveries.map(({ endpointId }) => endpointId)), new Set([other.id]))
      const skipped = await deliveriesOf(tenant, { endpointId: one.id, states: ['skipped'] })
      assert.equal(skipped.length, 6)
    },
  )

  harness.test(
    'countQueue() counts the deliveries of a backfill as due, but ignores their age',
    async (t) => {
      const { tenant } = await createRecords(harness, t)
      const { id: endpointId } = await tenant.insertEndpoint()
      await backfillAll(tenant, endpointId)
      await tenant.letTimePass(100_000)
      const { due, oldestDueMs } = await tenant.store.deliveries.countQueue(null)
      assert.deepEqual([due, oldestDueMs], [7, 0])
    },
  )
}
