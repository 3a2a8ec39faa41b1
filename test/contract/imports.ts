import assert from 'node:assert/strict'
import { RESOURCES } from '../../lib/access/scopes.ts'
import type { ImportedRecord, ImportOutcome, ImportState } from '../../lib/resources/imports.ts'
import { PLAIN_RESOURCES } from '../../lib/resources/records.ts'
import { businessOf } from '../_business.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

type RecordOf<Kind extends ImportedRecord['kind']> = Extract<
  ImportedRecord,
  { readonly kind: Kind }
>['record']

const MOMENT = '2019-03-14T09:26:53.589Z'

function business(changes: Partial<RecordOf<'business'>> = {}): ImportedRecord {
  const plain = businessOf({ id: ids('biz'), city: 'Tunis', phone: '' })
  return { kind: 'business', record: { ...plain, ...changes } }
}

function client(businessId: string, changes: Partial<RecordOf<'client'>> = {}): ImportedRecord {
  const money = { totalRevenue: 18_250.5, monthlyRevenue: 0.001 }
  const plain = { id: ids('cli'), status: 'inactive', ...money, convertedAt: MOMENT, businessId }
  return { kind: 'client', record: { ...plain, ...changes } }
}

function lead(businessId: string, changes: Partial<RecordOf<'lead'>> = {}): ImportedRecord {
  const score = { leadScore: 41, scoreBand: 'warm', expectedValue: null }
  const plain = { id: ids('lead'), stage: 'won', ...score, createdAt: MOMENT, businessId }
  return { kind: 'lead', record: { ...plain, ...changes } }
}

function proposal(changes: Partial<RecordOf<'proposal'>> = {}): ImportedRecord {
  const id = ids('prop')
  const price = { total: 4800.5, monthlyTotal: 0, currency: 'TND', minorUnits: 3 }
  const signature = { signedBy: 'Amel', signedAt: MOMENT }
  const plain = { id, number: id, title: 'Website', status: 'accepted', version: 3, ...price, ...signature }
  return { kind: 'proposal', record: { ...plain, place: null, ...changes } }
}

function invoice(changes: Partial<RecordOf<'invoice'>> = {}): ImportedRecord {
  const id = ids('inv')
  const money = { currency: 'TND', total: '1250.000', amountPaid: '250.000', amountDue: '1000.000' }
  const dates = { issueDate: MOMENT, dueDate: '2019-04-14T00:00:00.000Z' }
  const plain = { id, number: id, status: 'partially_paid', ...money, ...dates, minorUnits: 3 }
  return { kind: 'invoice', record: { ...plain, place: null, ...changes } }
}

function payment(invoiceId: string, changes: Partial<RecordOf<'payment'>> = {}): ImportedRecord {
  return {
    kind: 'payment',
    record: { id: ids('pay'), amount: '100.00', receivedAt: MOMENT, invoiceId, ...changes },
  }
}

function project(changes: Partial<RecordOf<'project'>> = {}): ImportedRecord {
  const plain = { id: ids('proj'), name: 'Relaunch', status: 'completed', billingType: 'fixed', value: 10.5 }
  return { kind: 'project', record: { ...plain, ...changes } }
}

/** Returns a record of each plain kind. */
export function plainRecords(): readonly ImportedRecord[] {
  return Object.entries(PLAIN_RESOURCES).map(([resource, { kind, idKind }]) => {
    const [example] = kinds[resource as keyof typeof PLAIN_RESOURCES].examples
    return { kind, record: { ...example, id: ids(idKind) } } as object as ImportedRecord
  })
}

/** Returns a record of each kind, in an order in which the store can't write them. */
function oneOfEach(): readonly ImportedRecord[] {
  const own = business()
  const billed = invoice()
  const { id } = own.record
  return [payment(billed.record.id), lead(id), client(id), billed, proposal(), ...plainRecords(), own]
}

function find<Kind extends ImportedRecord['kind']>(
  records: readonly ImportedRecord[],
  kind: Kind,
): RecordOf<Kind> {
  const found = records.find((imported) => imported.kind === kind)
  assert.ok(found, `no ${kind}`)
  return found.record as RecordOf<Kind>
}

function write(
  tenant: Tenant,
  records: readonly ImportedRecord[],
  store = tenant.store,
): Promise<ImportOutcome> {
  return store.imports.write(tenant.id, records)
}

function imported(...states: readonly ImportState[]): ImportOutcome {
  return { outcome: 'imported', states }
}

/** Returns everything that the host's reads show of the records, except when they were written. */
async function shown({ id: organizationId, store }: Tenant): Promise<object> {
  const lists = (['businesses', ...RESOURCES] as const).map(async (name) => {
    const records: readonly object[] = await store[name].list(organizationId, {}, 200, null)
    const fields = records.map((record) => Object.entries(record).filter(([field]) => field !== 'updatedAt'))
    return [name, fields.map((some) => Object.fromEntries(some))]
  })
  return Object.fromEntries(await Promise.all(lists))
}

/** Defines the tests of imports. */
export function testImports(harness: StoreHarness): void {
  testWrites(harness)
  testStates(harness)
  testRefusals(harness)
  testSeries(harness)
  testRaces(harness)
}

function testWrites(harness: StoreHarness): void {
  harness.test('imports.write() writes all kinds with all values, and no events', async () => {
    const tenant = await createTenant(harness)
    const records = oneOfEach()
    assert.deepEqual(await write(tenant, records), imported(...records.map(() => 'added' as const)))
    const { businessId: _, ...ownClient } = find(records, 'client')
    const { minorUnits: _m, place: _p, signedBy, signedAt, ...ownProposal } = find(records, 'proposal')
    const { minorUnits: _n, place: _q, ...ownInvoice } = find(records, 'invoice')
    const ownBusiness = find(records, 'business')
    assert.deepEqual(await shown(tenant), {
      businesses: [ownBusiness],
      clients: [{ ...ownClient, business: ownBusiness }],
      leads: [find(records, 'lead')],
      proposals: [{ ...ownProposal, signature: { signedBy, signedAt } }],
      invoices: [ownInvoice],
      ...Object.fromEntries(
        Object.entries(PLAIN_RESOURCES).map(([resource, { kind }]) => [
          resource,
          [find(records, kind as ImportedRecord['kind'])],
        ]),
      ),
    })
    const kept = await tenant.store.invoices.listPayments(tenant.id, ownInvoice.id, 10, null)
    assert.deepEqual(kept, [{ id: find(records, 'payment').id, amount: '100.000', receivedAt: MOMENT }])
    assert.deepEqual(await tenant.events(), [])
  })

  harness.test('imports.write() writes records that later calls can change like any others', async () => {
    const tenant = await createTenant(harness)
    const records = oneOfEach()
    await write(tenant, records)
    const { id: invoiceId } = find(records, 'invoice')
    const payment = { id: ids('pay'), amount: '1000', receivedAt: MOMENT }
    const set = { payment, settledStatus: 'paid', unsettledStatus: {}, settledEvents: [] }
    const change = { organizationId: tenant.id, id: ids('chg'), recordId: invoiceId, from: null, events: [] }
    const outcome = await tenant.store.invoices.pay({ ...change, idempotency: null, set })
    assert.equal(outcome.outcome, 'changed')
    const paid = await tenant.store.invoices.get(tenant.id, invoiceId)
    assert.deepEqual([paid?.status, paid?.amountDue], ['paid', '0.000'])
  })

  harness.test('imports.write() only writes to one organization, whatever ids another one has', async () => {
    const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
    const records = oneOfEach()
    await write(ours, records)
    const before = await shown(ours)
    assert.equal((await write(theirs, records.slice(0, 1))).outcome, 'refused')
    const states = records.map(() => 'added' as const)
    assert.deepEqual(await write(theirs, records), imported(...states))
    assert.deepEqual(await shown(theirs), before)
  })
}

function testStates(harness: StoreHarness): void {
  harness.test('imports.write() of known records changes nothing, through any store', async () => {
    const tenant = await createTenant(harness)
    const records = oneOfEach()
    await write(tenant, records)
    const before = await shown(tenant)
    for (const store of [tenant.store, tenant.secondStore]) {
      assert.deepEqual(await write(tenant, records, store), imported(...records.map(() => 'known' as const)))
    }
    assert.deepEqual(await shown(tenant), before)
  })

  harness.test(
    'imports.write() does not change a different record, and writes the others in the batch',
    async () => {
      const tenant = await createTenant(harness)
      const [owner, other] = [business(), business()]
      const businessId = owner.record.id
      const later = '2020-01-01T00:00:00.000Z'
      const money = { id: 'inv_1', number: 'I' }
      const pairs = [
        [owner, business({ id: businessId, phone: null })],
        [client(businessId, { id: 'cli_1' }), client(businessId, { id: 'cli_1', convertedAt: later })],
        [lead(businessId, { id: 'lead_1' }), lead(other.record.id, { id: 'lead_1' })],
        [
          proposal({ id: 'prop_1', number: 'P' }),
          proposal({ id: 'prop_1', number: 'P', signedBy: 'Amel', signedAt: later }),
        ],
        [project({ id: 'proj_1' }), project({ id: 'proj_1', value: 10.501 })],
        [invoice(money), invoice({ ...money, dueDate: later })],
      ] as const
      await write(tenant, [other, ...pairs.map(([first]) => first)])
      const before = await shown(tenant)
      const added = project()
      assert.deepEqual(
        await write(tenant, [...pairs.map(([, second]) => second), added]),
        imported(...pairs.map(() => 'different' as const), 'added'),
      )
      const { projects, ...rest } = (await shown(tenant)) as { projects: readonly unknown[] }
      assert.deepEqual(
        { ...rest, projects: projects.filter((one) => Object(one).id !== added.record.id) },
        before,
      )
    },
  )

  harness.test('imports.write() omits a new payment if its invoice is different', async () => {
    const tenant = await createTenant(harness)
    const first = invoice()
    const { id, number } = find([first], 'invoice')
    const paid = payment(id)
    await write(tenant, [first, paid])
    const other = invoice({ id, number, total: '2000.000', amountDue: '1750.000' })
    assert.deepEqual(
      await write(tenant, [payment(id), paid, other]),
      imported('different', 'known', 'different'),
    )
    const moved = payment(id, { ...find([paid], 'payment'), receivedAt: '2020-01-01T00:00:00.000Z' })
    assert.deepEqual(await write(tenant, [moved]), imported('different'))
    assert.deepEqual(
      await write(tenant, [payment(id, { amount: '150' })]),
      imported('added'),
      'of a later batch',
    )
  })
}

function testRefusals(harness: StoreHarness): void {
  harness.test('imports.write() rejects all records that cannot be written, and writes nothing', async () => {
    const tenant = await createTenant(harness)
    const owner = business()
    const kept = invoice({ number: 'I' })
    const { id: invoiceId } = kept.record
    await write(tenant, [owner, client(owner.record.id), proposal({ number: 'P' }), kept, payment(invoiceId)])
    const before = await shown(tenant)
    const outcome = await write(tenant, [
      project(),
      client(ids('biz')),
      lead(ids('biz')),
      client(owner.record.id),
      proposal({ number: 'P' }),
      invoice({ number: 'I' }),
      payment(ids('inv')),
      payment(invoiceId, { amount: '0.0001' }),
      payment(invoiceId, { amount: '149.9' }),
      business(),
    ])
    assert.deepEqual(outcome, {
      outcome: 'refused',
      refusals: [
        { index: 1, reason: 'no_business' },
        { index: 2, reason: 'no_business' },
        { index: 3, reason: 'business_taken' },
        { index: 4, reason: 'number_taken' },
        { index: 5, reason: 'number_taken' },
        { index: 6, reason: 'no_invoice' },
        { index: 7, reason: 'too_fine' },
      ],
    })
    const overpaid = await write(tenant, [payment(invoiceId, { amount: '100' }), payment(invoiceId)])
    assert.deepEqual(overpaid, {
      outcome: 'refused',
      refusals: [
        { index: 0, reason: 'overpaid' },
        { index: 1, reason: 'overpaid' },
      ],
    })
    assert.deepEqual(await shown(tenant), before)
  })
}

function testSeries(harness: StoreHarness): void {
  const number = (count: number, series: string): string => `${series}-${String(count).padStart(4, '0')}`
  const kinds = [
    ['invoices', 'INV-2019', (count: number) => numberedInvoice(count)],
    ['proposals', 'PROP-2019', (count: number) => numberedProposal(count)],
  ] as const

  function numberedInvoice(count: number): ImportedRecord {
    const series = 'INV-2019'
    return invoice({ number: number(count, series), place: { series, count } })
  }

  function numberedProposal(count: number): ImportedRecord {
    const series = 'PROP-2019'
    return proposal({ number: number(count, series), place: { series, count } })
  }

  async function next(tenant: Tenant, name: 'invoices' | 'proposals', series: string): Promise<unknown> {
    const creation = { organizationId: tenant.id, events: [], idempotency: null }
    const place = { number: { series } }
    const [made, other] = [invoice(), proposal()]
    assert.ok(made.kind === 'invoice' && other.kind === 'proposal', `${made.kind} and ${other.kind}`)
    const outcome =
      name === 'invoices'
        ? await tenant.store.invoices.create({ ...creation, record: { ...made.record, ...place } })
        : await tenant.store.proposals.create({ ...creation, record: { ...other.record, ...place } })
    return 'number' in outcome ? outcome.number : outcome
  }

  for (const [name, series, numbered] of kinds) {
    harness.test(`${name} of a series continue after the highest imported number`, async () => {
      const tenant = await createTenant(harness)
      assert.equal(await next(tenant, name, series), number(1, series))
      await write(tenant, [numbered(12_345), numbered(7)])
      assert.equal(await next(tenant, name, series), number(12_346, series))
      await write(tenant, [numbered(9)])
      assert.equal(await next(tenant, name, series), number(12_347, series), 'a smaller number moves nothing')
    })

    harness.test(`a rejected import does not change any series of ${name}`, async () => {
      const tenant = await createTenant(harness)
      assert.equal((await write(tenant, [numbered(5), lead(ids('biz'))])).outcome, 'refused')
      assert.equal(await next(tenant, name, series), number(1, series))
    })
  }
}

function testRaces(harness: StoreHarness): void {
  harness.test(
    'of 10 concurrent imports.write() of the same records in two processes, one adds them',
    async () => {
      const tenant = await createTenant(harness)
      const records = oneOfEach()
      const { store, secondStore } = tenant
      const outcomes = await Promise.all(
        Array.from({ length: 10 }, (_, index) => write(tenant, records, index % 2 ? store : secondStore)),
      )
      const states = outcomes.flatMap((outcome) => (outcome.outcome === 'imported' ? [outcome.states] : []))
      const added = states.flat().filter((state) => state === 'added')
      assert.equal(states.length, 10)
      assert.equal(added.length, records.length)
      assert.ok(!states.flat().includes('different'), states.flat().join())
    },
  )

  harness.test(
    'concurrent imports of numbers and creations in the same series never use a number twice',
    async () => {
      const tenant = await createTenant(harness)
      const { store, secondStore } = tenant
      const series = 'INV-2019'
      const base = invoice()
      assert.ok(base.kind === 'invoice', base.kind)
      const { record } = base
      const create = (through: typeof store) =>
        through.invoices.create({
          organizationId: tenant.id,
          record: { ...record, id: ids('inv'), number: { series } },
          events: [],
          idempotency: null,
        })
      const outcomes = await Promise.allSettled(
        Array.from({ length: 20 }, (_, index) => {
          const count = index + 1
          const own = { number: `${series}-${String(count).padStart(4, '0')}`, place: { series, count } }
          return index % 2 ? create(store) : write(tenant, [invoice(own)], secondStore)
        }),
      )
      for (const outcome of outcomes) assert.equal(outcome.status, 'fulfilled')
      const list = await store.invoices.list(tenant.id, {}, 200, null)
      assert.equal(new Set(list.map(({ number }) => number)).size, list.length)
      assert.ok(list.length >= 10, `${list.length} in the list`)
    },
  )
}
