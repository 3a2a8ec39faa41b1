import assert from 'node:assert/strict'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { NewNumber } from '../../lib/resources/document-numbers.ts'
import type { InvoiceRecord } from '../../lib/resources/invoices.ts'
import type { ProposalRecord } from '../../lib/resources/proposals.ts'
import type { KeyReservation, NumberedOutcome } from '../../lib/writes/creation.ts'
import { type EventRecord, toEventRecord } from '../../lib/writes/event-envelope.ts'
import { placeholder } from '../../lib/writes/placeholders.ts'
import { newEntry } from './audit-entry.ts'
import { dataOf, invoiceItem, verbs } from './changing.ts'
import { createPublisher, deliveriesOf } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { itemsOf, kinds } from './kinds.ts'
import { claim, createTenant, ids, type Tenant, WEEK_MS } from './tenant.ts'

/** Tests the numbers of invoices and proposals, either the next of a gapless series or given by the host. */
export function testNumbers(harness: StoreHarness): void {
  for (const numbered of [invoices, proposals]) {
    testSeries(harness, numbered)
    testUnused(harness, numbered)
    testGiven(harness, numbered)
    testRepeats(harness, numbered)
    testReplays(harness, numbered)
    testRaces(harness, numbered)
    testSearch(harness, numbered)
  }
  testKinds(harness)
}

interface Numbered {
  readonly name: string
  readonly kind: typeof kinds.invoices
  /** Prepares a creation that can be sent several times. */
  prepare(tenant: Tenant, number: NewNumber, changes?: Changes): Creation
}

interface Changes {
  readonly idempotency?: KeyReservation | null
  readonly events?: readonly EventRecord[]
  /** If `true`, the record violates a rule of the table. */
  readonly isBroken?: boolean
}

interface Creation {
  readonly id: string
  send(store?: BusinessApiStore): Promise<NumberedOutcome>
}

const invoices: Numbered = {
  name: 'invoices',
  kind: kinds.invoices,
  prepare(tenant, number, { idempotency = null, events = [], isBroken = false }: Changes = {}) {
    const total = isBroken ? '1250.0001' : '1250.000'
    const made: InvoiceRecord = { ...invoiceItem('draft'), number, total }
    const creation = { organizationId: tenant.id, record: made, events, idempotency }
    return { id: made.id, send: (store = tenant.store) => store.invoices.create(creation) }
  },
}

const proposals: Numbered = {
  name: 'proposals',
  kind: kinds.proposals,
  prepare(tenant, number, { idempotency = null, events = [], isBroken = false }: Changes = {}) {
    const total = isBroken ? Number.NaN : 10
    const made: ProposalRecord = { ...(verbs.proposal.item('draft') as ProposalRecord), number, total }
    const creation = { organizationId: tenant.id, record: made, events, idempotency }
    return { id: made.id, send: (store = tenant.store) => store.proposals.create(creation) }
  },
}

const SERIES = { series: 'INV-2026' }

/** Returns `INV-2026-0001` and so on. */
function nth(count: number, series = 'INV-2026'): string {
  return `${series}-${String(count).padStart(4, '0')}`
}

async function create(
  { prepare }: Numbered,
  tenant: Tenant,
  number: NewNumber = SERIES,
  changes?: Changes,
): Promise<NumberedOutcome> {
  return prepare(tenant, number, changes).send()
}

function created(number: string): NumberedOutcome {
  return { outcome: 'created', number }
}

/** Returns the numbers of the organization's records, oldest first. */
async function numbersOf({ kind }: Numbered, tenant: Tenant): Promise<readonly string[]> {
  const items = await itemsOf(kind, tenant)
  return items.map((item) => String(Reflect.get(item, 'number'))).toReversed()
}

function eventWithNumber(): EventRecord {
  const data = { number: placeholder('number'), text: '"\\u0000number" é 🏺' }
  return toEventRecord(ids('evt'), 'proposal.created', data, Date.UTC(2026, 2, 14))
}

function testSeries(harness: StoreHarness, numbered: Numbered): void {
  const { name } = numbered

  harness.test(
    `${name}.create() uses the next number of its series, starting at 1 for each organization and series`,
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      for (const tenant of [ours, theirs]) {
        for (const count of [1, 2]) assert.deepEqual(await create(numbered, tenant), created(nth(count)))
      }
      const other = { series: 'INV-2027' }
      assert.deepEqual(await create(numbered, ours, other), created(nth(1, 'INV-2027')))
      assert.deepEqual(await create(numbered, ours), created(nth(3)))
      assert.deepEqual(await numbersOf(numbered, ours), [nth(1), nth(2), nth(1, 'INV-2027'), nth(3)])
      assert.deepEqual(await numbersOf(numbered, theirs), [nth(1), nth(2)])
    },
  )

  harness.test(`${name}.create() only adds the number to the events and the reply of the key`, async () => {
    const tenant = await createTenant(harness)
    const reply = JSON.stringify({ number: placeholder('number'), text: '"\\u0000number"' })
    const idempotency = claim({ reply })
    const events = [eventWithNumber(), eventWithNumber()]
    await create(numbered, tenant, SERIES, { events, idempotency })
    for (const event of await tenant.events()) {
      assert.deepEqual(dataOf(event), { number: nth(1), text: '"\\u0000number" é 🏺' })
    }
    const replay = await create(numbered, tenant, SERIES, { idempotency })
    assert.equal(replay.outcome, 'replayed')
    const said = 'reply' in replay && JSON.parse(replay.reply)
    assert.deepEqual(said, { number: nth(1), text: '"\\u0000number"' })
  })
}

function testUnused(harness: StoreHarness, numbered: Numbered): void {
  const { name } = numbered

  harness.test(`${name}.create() uses no number if it is rejected, a mismatch or a replay`, async () => {
    const tenant = await createTenant(harness)
    const idempotency = claim()
    assert.deepEqual(await create(numbered, tenant, SERIES, { idempotency }), created(nth(1)))
    await assert.rejects(create(numbered, tenant, SERIES, { isBroken: true }), { code: 'invalid_input' })
    const mismatch = { ...idempotency, fingerprint: '0'.repeat(64) }
    assert.equal((await create(numbered, tenant, SERIES, { idempotency: mismatch })).outcome, 'mismatch')
    assert.equal((await create(numbered, tenant, SERIES, { idempotency })).outcome, 'replayed')
    await assert.rejects(create(numbered, tenant, nth(1)), { code: 'already_exists' })
    assert.deepEqual(await create(numbered, tenant), created(nth(2)))
  })

  harness.test(`${name}.create() with an expired key creates a record with a new number`, async () => {
    const tenant = await createTenant(harness)
    const idempotency = claim()
    assert.deepEqual(await create(numbered, tenant, SERIES, { idempotency }), created(nth(1)))
    await tenant.letTimePass(WEEK_MS + 1)
    assert.deepEqual(await create(numbered, tenant, SERIES, { idempotency }), created(nth(2)))
  })
}

function testGiven(harness: StoreHarness, numbered: Numbered): void {
  const { name } = numbered

  harness.test(`${name}.create() skips numbers that the host has used`, async () => {
    const tenant = await createTenant(harness)
    for (const number of [nth(2), nth(3), 'another']) {
      assert.deepEqual(await create(numbered, tenant, number), created(number))
    }
    const numbers = []
    for (let count = 0; count < 3; count++) numbers.push(await create(numbered, tenant))
    assert.deepEqual(numbers, [nth(1), nth(4), nth(5)].map(created))
    await assert.rejects(create(numbered, tenant, nth(4)), { code: 'already_exists' })
  })

  harness.test(
    `${name}.create() fills all gaps left by numbers of the host, and ignores other formats`,
    async () => {
      const tenant = await createTenant(harness)
      const { series } = SERIES
      for (const number of [
        nth(1),
        nth(2),
        nth(4),
        nth(7),
        `${series}-00003`,
        `${series}-3`,
        `${series}-0003x`,
        'x',
      ]) {
        await create(numbered, tenant, number)
      }
      const numbers = []
      for (let count = 0; count < 5; count++) numbers.push(await create(numbered, tenant))
      assert.deepEqual(numbers, [nth(3), nth(5), nth(6), nth(8), nth(9)].map(created))
    },
  )

  harness.test(
    `${name}.create() of a number in use writes no event and no key, while another organization can use the number`,
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      await create(numbered, ours, 'A')
      const changes = { events: [eventWithNumber()], idempotency: claim() }
      await assert.rejects(create(numbered, ours, 'A', changes), { code: 'already_exists' })
      assert.deepEqual(await ours.events(), [])
      assert.deepEqual(await create(numbered, theirs, 'A'), created('A'))
      assert.deepEqual(await create(numbered, ours, 'B', changes), created('B'), 'the key is free')
    },
  )
}

function testRepeats(harness: StoreHarness, numbered: Numbered): void {
  const { name } = numbered

  for (const how of ['with', 'without']) {
    harness.test(
      `${name}.create() ${how} a key, sent again after a lost result, keeps its number and uses no other`,
      async () => {
        const tenant = await createTenant(harness)
        const events = [eventWithNumber()]
        const creation = numbered.prepare(tenant, SERIES, {
          events,
          ...(how === 'with' && { idempotency: claim() }),
        })
        assert.deepEqual(await creation.send(), created(nth(1)))
        await create(numbered, tenant)
        for (const store of [tenant.store, tenant.secondStore]) {
          assert.deepEqual(await creation.send(store), created(nth(1)))
        }
        assert.deepEqual(await create(numbered, tenant), created(nth(3)))
        assert.equal((await tenant.events()).length, 1)
      },
    )
  }

  harness.test(`${name}.create() of a given number, sent again after a lost result, succeeds`, async () => {
    const tenant = await createTenant(harness)
    const creation = numbered.prepare(tenant, 'by hand')
    for (const store of [tenant.store, tenant.secondStore, tenant.store]) {
      assert.deepEqual(await creation.send(store), created('by hand'))
    }
    assert.deepEqual(await numbersOf(numbered, tenant), ['by hand'])
  })
}

function testReplays(harness: StoreHarness, numbered: Numbered): void {
  harness.test(
    `20 concurrent ${numbered.name}.create() with one key in two processes use a single number`,
    async () => {
      const tenant = await createTenant(harness)
      const idempotency = claim({ reply: JSON.stringify({ number: placeholder('number') }) })
      const { store, secondStore } = tenant
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          numbered.prepare(tenant, SERIES, { idempotency }).send(index % 2 === 0 ? store : secondStore),
        ),
      )
      const replayed = outcomes.filter(({ outcome }) => outcome === 'replayed')
      assert.equal(replayed.length, 19)
      for (const outcome of replayed) {
        assert.deepEqual('reply' in outcome && JSON.parse(outcome.reply), { number: nth(1) })
      }
      assert.deepEqual(await create(numbered, tenant), created(nth(2)))
    },
  )
}

function testRaces(harness: StoreHarness, numbered: Numbered): void {
  harness.test(
    `50 concurrent ${numbered.name}.create() in two processes use 1 to 50 without a gap`,
    async () => {
      const tenant = await createTenant(harness)
      const { store, secondStore } = tenant
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          numbered
            .prepare(tenant, SERIES, { events: [eventWithNumber()] })
            .send(index % 2 === 0 ? store : secondStore),
        ),
      )
      const numbers = outcomes.map((outcome) => ('number' in outcome ? outcome.number : ''))
      const expected = Array.from({ length: 50 }, (_, index) => nth(index + 1))
      assert.deepEqual(numbers.toSorted(), expected)
      assert.deepEqual((await numbersOf(numbered, tenant)).toSorted(), expected)
      const told = (await tenant.events()).map((event) => dataOf(event).number)
      assert.deepEqual(told.toSorted(), expected)
    },
  )

  harness.test(
    `${numbered.name}.create() concurrently in a series and with given numbers of it uses each number once`,
    async () => {
      const tenant = await createTenant(harness)
      const { store, secondStore } = tenant
      const outcomes = await Promise.allSettled(
        Array.from({ length: 20 }, (_, index) =>
          index % 2 === 0
            ? numbered.prepare(tenant, SERIES).send(store)
            : numbered.prepare(tenant, nth(index)).send(secondStore),
        ),
      )
      for (const [index, outcome] of outcomes.entries()) {
        if (outcome.status === 'fulfilled') continue
        assert.equal(index % 2, 1, 'the series finds a free number')
        assert.equal(outcome.reason.code, 'already_exists')
      }
      const made = outcomes.flatMap((outcome) => {
        return outcome.status === 'fulfilled' && 'number' in outcome.value ? [outcome.value.number] : []
      })
      assert.deepEqual((await numbersOf(numbered, tenant)).toSorted(), made.toSorted())
      assert.equal(new Set(made).size, made.length)
    },
  )
}

function testSearch(harness: StoreHarness, numbered: Numbered): void {
  harness.test(`the logs find the events of ${numbered.name} by number`, async (t) => {
    const [tenant, other] = [await createPublisher(harness, t), await createPublisher(harness, t)]
    const number = 'INV/é 🏺'
    const { id, send } = numbered.prepare(tenant, number)
    await send()
    await create(numbered, tenant, `${number}2`)
    await create(numbered, other, number)
    await tenant.insertEndpoint()
    const about = await tenant.publish({ subjectId: id })
    await tenant.publish({ subjectId: `${number}2` })
    // The host may use the number as the ID of a record of its own.
    const own = await tenant.publish({ subjectId: number })
    for (const filter of [{ subjectId: number }, { subjectId: number, type: own.type }]) {
      const { events } = await tenant.store.eventLog.list(tenant.id, filter, 10, null)
      assert.deepEqual(new Set(events.map((event) => event.id)), new Set([own.id, about.id]))
      const deliveries = await deliveriesOf(tenant, filter)
      assert.deepEqual(new Set(deliveries.map(({ eventId }) => eventId)), new Set([own.id, about.id]))
      assert.equal(await tenant.store.deliveries.count(tenant.id, filter, 10), 2)
    }
    const ids = (await deliveriesOf(tenant)).map((delivery) => delivery.id)
    for (const deliveryId of ids)
      await tenant.store.deliveries.cancel({ organizationId: tenant.id, deliveryId, entry: newEntry() })
    const recovery = { organizationId: tenant.id, ids, filter: { subjectId: number }, limit: 10 }
    const recovered = await tenant.store.deliveries.recover({ ...recovery, entry: newEntry() })
    const found = (await deliveriesOf(tenant, { subjectId: number })).map((delivery) => delivery.id)
    assert.deepEqual([found.length, recovered.toSorted()], [2, found.toSorted()])
    const theirs = await other.store.eventLog.list(other.id, { subjectId: number }, 10, null)
    assert.deepEqual(theirs.events, [])
  })
}

function testKinds(harness: StoreHarness): void {
  harness.test(
    'invoices and proposals can have the same numbers, whether given or from series with the same name',
    async () => {
      const tenant = await createTenant(harness)
      for (const numbered of [invoices, proposals]) {
        assert.deepEqual(await create(numbered, tenant, 'A'), created('A'))
      }
      assert.deepEqual(await create(invoices, tenant, { series: 'INV-2026' }), created(nth(1)))
      assert.deepEqual(await create(proposals, tenant, { series: 'PROP-2026' }), created(nth(1, 'PROP-2026')))
    },
  )
}
