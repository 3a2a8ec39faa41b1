import assert from 'node:assert/strict'
import { newClient } from '../../lib/resources/clients.ts'
import { newLead } from '../../lib/resources/leads.ts'
import { newEntry } from './audit-entry.ts'
import type { StoreHarness } from './harness.ts'
import { idsOf, itemsOf, type Kind, kinds } from './kinds.ts'
import { claim, createTenant, events, ids } from './tenant.ts'

/** Tests that a create writes the record and the events together, once. */
export function testCreations(harness: StoreHarness): void {
  for (const kind of Object.values(kinds)) testCreate(harness, kind)
  for (const kind of [kinds.invoices, kinds.proposals]) testTakenNumber(harness, kind)
  testAmounts(harness)
  testClients(harness)
  testLeads(harness)
  for (const kind of [kinds.clients, kinds.leads]) testApiKey(harness, kind)
}

/** Between a request's admission and its creation, the key may be revoked or the organization deleted. */
function testApiKey(harness: StoreHarness, kind: Kind): void {
  const create = `${kind.name}.create()`

  harness.test(`${create} for an active API key writes the record`, async () => {
    const tenant = await createTenant(harness)
    const { id, outcome } = await kind.create(tenant, { apiKeyId: tenant.key.id })
    assert.deepEqual([outcome, await idsOf(kind, tenant)], [{ outcome: 'created' }, [id]])
  })

  for (const key of ['with', 'without']) {
    harness.test(
      `${create} ${key} an idempotency key writes and replays nothing if the API key is revoked, expired or belongs to another organization`,
      async () => {
        const tenant = await createTenant(harness)
        const reserve = () => (key === 'with' ? { idempotency: claim() } : {})
        const known = reserve()
        const first = await kind.create(tenant, known)
        const revoked = await tenant.insertKey()
        await tenant.secondStore.apiKeys.revoke({
          organizationId: tenant.id,
          keyId: revoked.id,
          entry: newEntry(),
        })
        const expired = await tenant.insertKey({ expiresAt: '2020-01-01T00:00:00.000Z' })
        const foreign = (await createTenant(harness)).key
        for (const { id: apiKeyId } of [revoked, expired, foreign]) {
          for (const reservation of [reserve(), known]) {
            const { outcome } = await kind.create(tenant, { apiKeyId, events: events(1), ...reservation })
            assert.deepEqual(outcome, { outcome: 'unauthenticated' })
          }
        }
        assert.deepEqual(await idsOf(kind, tenant), [first.id])
        assert.deepEqual(await tenant.events(), [])
      },
    )
  }
}

function testCreate(harness: StoreHarness, kind: Kind): void {
  const create = `${kind.name}.create()`

  harness.test(`${create} writes the record and the events in order, byte for byte`, async () => {
    const tenant = await createTenant(harness)
    const published = events(3)
    const { id, outcome } = await kind.create(tenant, { events: published })
    assert.deepEqual(outcome, { outcome: 'created' })
    assert.deepEqual(await idsOf(kind, tenant), [id])
    assert.deepEqual(await tenant.events(), published)
  })

  harness.test(`${create} without an idempotency key creates a record for every new id`, async () => {
    const tenant = await createTenant(harness)
    const [one, other] = [await kind.create(tenant), await kind.create(tenant)]
    assert.deepEqual([one.outcome, other.outcome], [{ outcome: 'created' }, { outcome: 'created' }])
    assert.deepEqual(await idsOf(kind, tenant), [other.id, one.id])
  })

  for (const key of ['with', 'without']) {
    harness.test(
      `${create} ${key} an idempotency key, sent again after a lost result, succeeds and duplicates nothing`,
      async () => {
        const tenant = await createTenant(harness)
        const published = events(2)
        const { id, again } = await kind.create(tenant, {
          events: published,
          ...(key === 'with' && { idempotency: claim() }),
        })
        assert.deepEqual(await again(), { outcome: 'created' })
        assert.deepEqual(await again(tenant.secondStore), { outcome: 'created' })
        assert.deepEqual(await idsOf(kind, tenant), [id])
        assert.deepEqual(await tenant.events(), published)
      },
    )
  }

  harness.test(`${create} keeps an existing event with the same id, if a host chose the id`, async () => {
    const tenant = await createTenant(harness)
    const published = events(2).map((event, index) => ({ ...event, id: `evt_of-the-host-${index}` }))
    await kind.create(tenant, { events: published.slice(0, 1) })
    const changed = published.map((event) => ({ ...event, body: `${event.body} ` }))
    await kind.create(tenant, { events: changed })
    assert.deepEqual(await tenant.events(), [published[0], changed[1]])
  })
}

function testTakenNumber(harness: StoreHarness, kind: Kind): void {
  harness.test(`${kind.name}.create() of a number already in use throws and writes nothing`, async () => {
    const tenant = await createTenant(harness)
    const [example] = kind.examples
    assert.ok(example, 'no example')
    await kind.create(tenant, { item: example })
    const idempotency = claim()
    const attempt = { item: { ...example, id: ids('inv') }, events: events(2), idempotency }
    await assert.rejects(kind.create(tenant, attempt), { code: 'already_exists' })
    assert.deepEqual(await idsOf(kind, tenant), [example.id])
    assert.deepEqual(await tenant.events(), [])

    const { id, outcome } = await kind.create(tenant, { idempotency })
    assert.deepEqual(outcome, { outcome: 'created' }, 'the idempotency key is free')
    assert.deepEqual(await idsOf(kind, tenant), [example.id, id].sort().reverse())
  })
}

function testAmounts(harness: StoreHarness): void {
  const moment = '2026-03-14T09:26:53.589Z'
  const example = { status: 'issued', issueDate: moment, dueDate: moment }
  const { invoices, projects } = kinds

  harness.test(
    'invoices.create() stores amounts with the decimals of the currency and calculates the amount due',
    async () => {
      const tenant = await createTenant(harness)
      const item = {
        ...example,
        id: ids('inv'),
        number: 'A',
        currency: 'TND',
        total: '1250',
        amountPaid: '250.5',
      }
      const wrong = { ...item, amountDue: '7' }
      await invoices.create(tenant, { item: wrong })
      const [listed] = await itemsOf(invoices, tenant)
      assert.deepEqual(listed, { ...item, total: '1250.000', amountPaid: '250.500', amountDue: '999.500' })
    },
  )

  for (const [what, money] of [
    ['finer than the minor unit', { currency: 'TND', total: '1.0005', amountPaid: '0.000' }],
    ['of JPY with decimals', { currency: 'JPY', total: '900.5', amountPaid: '0' }],
    ['overpaid', { currency: 'EUR', total: '10.00', amountPaid: '11.00' }],
    ['below zero', { currency: 'EUR', total: '-1.00', amountPaid: '-1.00' }],
  ] as const) {
    harness.test(`invoices.create() rejects an amount ${what} and writes nothing`, async () => {
      const tenant = await createTenant(harness)
      const item = { ...example, ...money, id: ids('inv'), number: 'A', amountDue: money.total }
      await assert.rejects(invoices.create(tenant, { item }), { code: 'invalid_input' })
      assert.deepEqual(await itemsOf(invoices, tenant), [])
    })
  }

  harness.test('projects.create() rejects NaN as a value', async () => {
    const tenant = await createTenant(harness)
    const item = {
      id: ids('proj'),
      name: 'Relaunch',
      status: 'active',
      billingType: 'fixed',
      value: Number.NaN,
    }
    await assert.rejects(projects.create(tenant, { item }), { code: 'invalid_input' })
  })
}

function testClients(harness: StoreHarness): void {
  harness.test('clients.create() also writes the business, which can have leads', async () => {
    const tenant = await createTenant(harness)
    const client = newClient({ name: 'Atlas' }, { ids, now: Date.now() })
    const plain = { organizationId: tenant.id, idempotency: null }
    await tenant.store.clients.create({ ...plain, ...client })
    const { record, events } = newLead({ businessId: client.record.business.id }, { ids, now: Date.now() })
    assert.deepEqual(await tenant.store.leads.create({ ...plain, record, events }), { outcome: 'created' })
    assert.deepEqual(
      (await tenant.events()).map(({ type }) => type),
      ['business.created', 'client.created', 'lead.created'],
    )
  })
}

function testLeads(harness: StoreHarness): void {
  // NUL and lone surrogates aren't included because stores only receive strings that can be stored.
  const strangers = {
    'an unknown id': ids('biz'),
    'an empty text': '',
    'a very long text': 'x'.repeat(10_000),
  }
  for (const [what, businessId] of Object.entries(strangers)) {
    harness.test(`leads.create() of ${what} as business returns no_business and writes nothing`, async () => {
      const tenant = await createTenant(harness)
      const { record, events } = newLead({ businessId }, { ids, now: Date.now() })
      const creation = { organizationId: tenant.id, record, events, idempotency: null }
      assert.deepEqual(await tenant.store.leads.create(creation), { outcome: 'no_business' })
      assert.deepEqual(await idsOf(kinds.leads, tenant), [])
      assert.deepEqual(await tenant.events(), [])
    })
  }

  harness.test('leads.create() can create many leads for the same business', async () => {
    const tenant = await createTenant(harness)
    const businessId = await tenant.insertBusiness()
    for (let lead = 0; lead < 3; lead++) {
      const { record, events } = newLead({ businessId }, { ids, now: Date.now() })
      await tenant.store.leads.create({ organizationId: tenant.id, record, events, idempotency: null })
    }
    assert.equal((await idsOf(kinds.leads, tenant)).length, 3)
  })
}
