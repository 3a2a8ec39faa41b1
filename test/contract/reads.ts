import assert from 'node:assert/strict'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { Business } from '../../lib/resources/businesses.ts'
import type { Client } from '../../lib/resources/clients.ts'
import type { RecordReads } from '../../lib/resources/record-reads.ts'
import { businessOf } from '../_business.ts'
import { createItem, type Verb, verbs } from './changing.ts'
import type { StoreHarness } from './harness.ts'
import { kinds } from './kinds.ts'
import { createTenant, ids, type Tenant } from './tenant.ts'

// Tests the reads used by the host's own code, with the common rules of all resources and the filters by state.

/** A resource with its reads. */
interface Readable {
  readonly verb: Verb
  /** The name of the filter by state. */
  readonly states: 'statuses' | 'stages'
  reads(store: BusinessApiStore): RecordReads<{ readonly id: string }, object>
  /** The fields that only the host sees. */
  readonly ownFields: readonly string[]
}

const readables: readonly Readable[] = [
  { verb: verbs.client, states: 'statuses', reads: ({ clients }) => clients, ownFields: ['updatedAt'] },
  { verb: verbs.lead, states: 'stages', reads: ({ leads }) => leads, ownFields: ['businessId', 'updatedAt'] },
  { verb: verbs.invoice, states: 'statuses', reads: ({ invoices }) => invoices, ownFields: ['updatedAt'] },
  {
    verb: verbs.proposal,
    states: 'statuses',
    reads: ({ proposals }) => proposals,
    ownFields: ['signature', 'updatedAt'],
  },
  { verb: verbs.project, states: 'statuses', reads: ({ projects }) => projects, ownFields: ['updatedAt'] },
]

/** Defines the tests of the common rules. */
export function testReads(harness: StoreHarness): void {
  for (const readable of readables) {
    testList(harness, readable)
    testPages(harness, readable)
    testStates(harness, readable)
    testGet(harness, readable)
    testUpdatedAt(harness, readable)
  }
  testBusinesses(harness)
  testClientOfBusiness(harness)
}

/** Returns a record without the fields that only the host sees. */
function shown({ ownFields }: Readable, record: object | null): object | null {
  return record && Object.fromEntries(Object.entries(record).filter(([name]) => !ownFields.includes(name)))
}

async function walk(
  reads: RecordReads<{ readonly id: string }, object>,
  { id }: Pick<Tenant, 'id'>,
  filter: object,
  limit: number,
): Promise<readonly string[]> {
  const met: string[] = []
  for (let before: string | null = null; ; ) {
    const page: readonly { readonly id: string }[] = await reads.list(id, filter, limit, before)
    assert.ok(page.length <= limit, `a page of ${page.length}`)
    met.push(...page.map((record) => record.id))
    before = page.at(-1)?.id ?? null
    if (before === null) return met
  }
}

function testList(harness: StoreHarness, readable: Readable): void {
  const { verb, reads } = readable
  const { kind } = verb

  harness.test(`${kind.name}.list() returns nothing for an organization without records`, async () => {
    const tenant = await createTenant(harness)
    assert.deepEqual(await reads(tenant.store).list(tenant.id, {}, 50, null), [])
  })

  harness.test(
    `${kind.name}.list() and get() return all fields as created, including those that only the host sees`,
    async () => {
      const tenant = await createTenant(harness)
      for (const item of kind.examples) await kind.create(tenant, { item })
      const list = await reads(tenant.store).list(tenant.id, {}, 200, null)
      // The businesses of leads are created with their own clients.
      const wanted = list.filter(({ id }) => kind.examples.some((item) => item.id === id))
      assert.deepEqual(
        wanted.map((record) => shown(readable, record)),
        kind.examples.toReversed(),
      )
      for (const record of wanted) {
        assert.deepEqual(await reads(tenant.store).get(tenant.id, record.id), record)
        for (const field of readable.ownFields) assert.ok(Object.hasOwn(record, field), field)
      }
    },
  )

  harness.test(
    `${kind.name}.list() and get() return a record that was just written or changed by another store`,
    async () => {
      const tenant = await createTenant(harness)
      const item = verb.item()
      await kind.create(tenant, { item, store: tenant.secondStore })
      await verb.prepare(tenant, item.id).send(tenant.secondStore)
      const record = await reads(tenant.store).get(tenant.id, item.id)
      assert.deepEqual(shown(readable, record), verb.after(item))
      assert.deepEqual((await reads(tenant.store).list(tenant.id, {}, 1, null))[0], record)
    },
  )

  harness.test(
    `${kind.name}.list() and get() return records that the caller can modify without affecting the store`,
    async () => {
      const tenant = await createTenant(harness)
      const { id } = await createItem(tenant, verb)
      for (const take of [
        async () => (await reads(tenant.store).list(tenant.id, {}, 1, null))[0],
        async () => reads(tenant.store).get(tenant.id, id),
      ]) {
        const taken = Object(await take())
        const before = structuredClone(taken)
        Object.assign(taken, { id: 'changed', status: 'changed', stage: 'changed' })
        if (typeof taken.business === 'object') taken.business.name = 'changed'
        assert.deepEqual(await take(), before)
      }
    },
  )
}

function testPages(harness: StoreHarness, { verb, reads }: Readable): void {
  const { kind } = verb
  harness.test(
    `${kind.name}.list() returns each record once, newest first, in pages of any size, while records are added`,
    async () => {
      const tenant = await createTenant(harness)
      const created: string[] = []
      for (let index = 0; index < 7; index++) created.push((await createItem(tenant, verb)).id)
      const slice = reads(tenant.store)
      const all = await walk(slice, tenant, {}, 200)
      assert.deepEqual(
        all.filter((id) => created.includes(id)),
        created.toReversed(),
      )
      for (const limit of [1, 2, 3, 7, 8, 300]) assert.deepEqual(await walk(slice, tenant, {}, limit), all)
      const [first] = await slice.list(tenant.id, {}, 1, null)
      await createItem(tenant, verb)
      const rest = await slice.list(tenant.id, {}, 200, first?.id ?? null)
      assert.deepEqual(
        rest.map(({ id }) => id),
        all.slice(1),
      )
      assert.deepEqual(await slice.list(tenant.id, {}, 50, all.at(-1) ?? null), [])
    },
  )
}

function testStates(harness: StoreHarness, { verb, states, reads }: Readable): void {
  const { kind } = verb
  harness.test(
    `${kind.name}.list() by ${states} returns records with any of them, even in pages, and none for an empty list`,
    async () => {
      const tenant = await createTenant(harness)
      const odd = 'it\'s "odd" \\ é'
      const written = ['open', 'closed', odd, 'open', 'closed', 'open', 'elsewhere', odd]
      const created: { readonly id: string; readonly state: string }[] = []
      for (const state of written) {
        const item = verb.item(state)
        await createItem(tenant, verb, item)
        created.push({ id: item.id, state })
      }
      const slice = reads(tenant.store)
      for (const wanted of [
        ['open'],
        [odd],
        ['closed', 'open'],
        [odd, 'elsewhere', 'open', 'open'],
        ['none'],
        [],
      ]) {
        const expected = created.filter(({ state }) => wanted.includes(state)).map(({ id }) => id)
        for (const limit of [1, 2, 100]) {
          assert.deepEqual(await walk(slice, tenant, { [states]: wanted }, limit), expected.toReversed())
        }
      }
    },
  )

  harness.test(`${kind.name}.list() by ${states} reflects a change`, async () => {
    const tenant = await createTenant(harness)
    const item = await createItem(tenant, verb)
    const state = Reflect.get(item, states === 'stages' ? 'stage' : 'status')
    const after = Reflect.get(verb.after(item), states === 'stages' ? 'stage' : 'status')
    const slice = reads(tenant.store)
    assert.deepEqual(await walk(slice, tenant, { [states]: [state] }, 10), [item.id])
    await verb.prepare(tenant, item.id).send()
    assert.deepEqual(await walk(slice, tenant, { [states]: [state] }, 10), state === after ? [item.id] : [])
    assert.deepEqual(await walk(slice, tenant, { [states]: [after] }, 10), [item.id])
  })
}

function testGet(harness: StoreHarness, { verb, reads, states }: Readable): void {
  const { kind } = verb
  harness.test(
    `${kind.name}.get() returns null for a record of another organization or an unknown id, and list() returns none`,
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const item = await createItem(theirs, verb)
      assert.notEqual(await reads(theirs.store).get(theirs.id, item.id), null)
      for (const id of [item.id, 'none', '', item.id.toLowerCase()]) {
        assert.equal(await reads(ours.store).get(ours.id, id), null)
      }
      const all = await walk(reads(ours.store), ours, {}, 100)
      assert.ok(!all.includes(item.id), `${item.id} is listed`)
      const state = Reflect.get(item, states === 'stages' ? 'stage' : 'status')
      assert.deepEqual(await walk(reads(ours.store), ours, { [states]: [state] }, 100), [])
    },
  )
}

/** Longer than the precision of `updatedAt`, in ms. */
const MOMENT_MS = 5

const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, MOMENT_MS))

async function updatedAtOf(reads: RecordReads<object, object>, tenant: Tenant, id: string): Promise<string> {
  const record = await reads.get(tenant.id, id)
  assert.ok(record && 'updatedAt' in record && typeof record.updatedAt === 'string', 'no updatedAt')
  assert.equal(new Date(record.updatedAt).toISOString(), record.updatedAt)
  return record.updatedAt
}

function testUpdatedAt(harness: StoreHarness, { verb, reads }: Readable): void {
  const { kind } = verb
  harness.test(`${kind.name}.get() and list() return the time of the last change`, async () => {
    const tenant = await createTenant(harness)
    const [changed, other] = [await createItem(tenant, verb), await createItem(tenant, verb)]
    const slice = reads(tenant.store)
    const [before, ofOther] = [
      await updatedAtOf(slice, tenant, changed.id),
      await updatedAtOf(slice, tenant, other.id),
    ]
    await moment()
    await verb.prepare(tenant, changed.id).send()
    const after = await updatedAtOf(slice, tenant, changed.id)
    assert.ok(after > before, `${after} is later than ${before}`)
    assert.equal(await updatedAtOf(slice, tenant, other.id), ofOther)
    const listed = (await slice.list(tenant.id, {}, 200, null)).find(({ id }) => id === changed.id)
    assert.equal(listed && Reflect.get(listed, 'updatedAt'), after)
  })
}

function testClientOfBusiness(harness: StoreHarness): void {
  harness.test('clients.get() returns a later time after a change to the business', async () => {
    const tenant = await createTenant(harness)
    const client = await createItem(tenant, verbs.client)
    const before = await updatedAtOf(tenant.store.clients, tenant, client.id)
    const businessId = (await tenant.store.clients.get(tenant.id, client.id))?.business.id ?? ''
    await moment()
    const change = { id: ids('chg'), recordId: businessId, from: null, set: { city: 'Sfax' }, events: [] }
    await tenant.store.businesses.change({ organizationId: tenant.id, ...change, idempotency: null })
    const after = await updatedAtOf(tenant.store.clients, tenant, client.id)
    assert.ok(after > before, `${after} is later than ${before}`)
  })
}

function testBusinesses(harness: StoreHarness): void {
  const newBusiness = (name: string): Business => {
    return businessOf({ id: ids('biz'), name, city: 'Tunis "é"', email: '' })
  }

  const create = ({ id: organizationId, store }: Tenant, record: Business) =>
    store.businesses.create({ organizationId, record, events: [], idempotency: null })

  harness.test(
    'businesses.list() and get() return businesses with and without a client, newest first, in pages',
    async () => {
      const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
      const alone = newBusiness('Alone')
      await create(ours, alone)
      const { id } = await kinds.clients.create(ours)
      const client: Client | null = await ours.store.clients.get(ours.id, id)
      const last = newBusiness('Last')
      await create(ours, last)
      const expected = [alone, client?.business ?? assert.fail(), last].sort((one, other) =>
        one.id < other.id ? 1 : -1,
      )
      assert.deepEqual(await ours.store.businesses.list(ours.id, {}, 10, null), expected)
      for (const limit of [1, 2]) {
        const met = await walk(ours.store.businesses, ours, {}, limit)
        assert.deepEqual(
          met,
          expected.map((business) => business.id),
        )
      }
      for (const business of expected) {
        assert.deepEqual(await ours.store.businesses.get(ours.id, business.id), business)
        assert.equal(await theirs.store.businesses.get(theirs.id, business.id), null)
      }
      assert.deepEqual(await theirs.store.businesses.list(theirs.id, {}, 10, null), [])
    },
  )
}
