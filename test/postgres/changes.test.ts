import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import type { RecordStore } from '../../lib/business-store.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { formatNumber, type NewNumber } from '../../lib/resources/document-numbers.ts'
import type { Invoice } from '../../lib/resources/invoices.ts'
import { businessOf } from '../_business.ts'
import type { TestDatabase } from '../_database.ts'
import { useDatabase } from '../_use-database.ts'
import {
  changeClaim,
  conversion,
  createItem,
  eventTemplate,
  invoiceItem,
  listed,
  type Outcome,
  settlement,
  type Verb,
  verbs,
} from '../contract/changing.ts'
import { itemsOf, kinds } from '../contract/kinds.ts'
import { createTenant, ids, type Tenant } from '../contract/tenant.ts'

// Cases for a real database only, where a change or creation encounters another call's uncommitted write.

let database: TestDatabase
let sql: Sql
let store: PostgresStore
useDatabase((used) => {
  ;({ database, sql, store } = used)
})

function newTenant(): Promise<Tenant> {
  return createTenant({
    store: () => store,
    secondStore: () => store,
    events: async (id) => {
      return sql`select id, type, body from business_api.events where organization_id = ${id} order by id`
    },
    letTimePass: () => {},
  })
}

/** Runs `first` in a transaction, starts `second`, and commits once `second` is waiting for the transaction. */
async function whileUncommitted<T>(
  first: (records: RecordStore, transaction: TransactionSql) => Promise<unknown>,
  second: () => Promise<T>,
): Promise<T> {
  return sql
    .begin(async (transaction) => {
      await first(store.using(transaction), transaction)
      const answer = second()
      // The call may fail before we await it.
      answer.catch(() => {})
      await somebodyWaits(transaction)
      return { answer }
    })
    .then(({ answer }) => answer)
}

async function somebodyWaits(transaction: TransactionSql): Promise<void> {
  const deadline = performance.now() + 5000
  for (;;) {
    const [waiting] = await transaction`
      select from pg_stat_activity where datname = current_database() and pg_backend_pid() = any (pg_blocking_pids(pid))`
    if (waiting) return
    assert.ok(performance.now() < deadline, 'no session waits')
  }
}

for (const verb of Object.values(verbs)) {
  for (const [how, claim] of Object.entries({ with: changeClaim, without: () => null })) {
    test(`${verb.name} ${how} a key happens once if it's retried before its first attempt has committed`, async () => {
      const tenant = await newTenant()
      const item = await createItem(tenant, verb)
      const options = { from: ['open'], events: [eventTemplate(verb, item)], idempotency: claim() }
      const change = verb.prepare(tenant, item.id, options)
      const answer = await whileUncommitted(
        (records) => change.send({ ...store, ...records }),
        () => change.send(),
      )
      assert.deepEqual('representation' in answer && verb.shown(answer.representation), verb.after(item))
      await assertOnce(tenant, verb, verb.after(item))
    })
  }
}

async function assertOnce(tenant: Tenant, verb: Verb, item: { readonly id: string }): Promise<void> {
  assert.deepEqual(
    (await itemsOf(verb.kind, tenant)).find(({ id }) => id === item.id),
    item,
  )
  assert.equal((await tenant.events()).length, 1)
}

test("leads.convert() makes one client if it's retried before the first attempt has committed", async () => {
  const tenant = await newTenant()
  const { change, clientId } = await prepareConversion(tenant)
  const answer = await whileUncommitted(
    (records) => records.leads.convert(change),
    () => store.leads.convert(change),
  )
  assert.equal(answer.outcome === 'changed' && answer.representation.client.id, clientId)
  assert.equal((await itemsOf(kinds.clients, tenant)).length, 1)
})

async function prepareConversion(tenant: Tenant) {
  const business = businessOf({ id: ids('biz') })
  const plain = { organizationId: tenant.id, events: [], idempotency: null }
  await store.businesses.create({ ...plain, record: business })
  const lead = {
    id: ids('lead'),
    stage: 'open',
    leadScore: null,
    scoreBand: null,
    expectedValue: null,
    createdAt: '2026-03-14T09:26:53.589Z',
  }
  await store.leads.create({ ...plain, record: { ...lead, businessId: business.id } })
  const set = conversion()
  const change = { ...plain, id: ids('chg'), recordId: lead.id, from: null, set }
  return { change, clientId: set.client.id }
}

test("a payment is added once if it's retried before the first attempt and another payment have committed", async () => {
  const tenant = await newTenant()
  const item = invoiceItem('issued')
  await kinds.invoices.create(tenant, { item })
  const payment = (amount: string) => ({
    organizationId: tenant.id,
    id: ids('chg'),
    recordId: item.id,
    from: null,
    set: settlement(amount),
    events: [],
    idempotency: null,
  })
  const [lost, others] = [payment('1'), Array.from({ length: 15 }, () => payment('10'))]
  const answer = await whileUncommitted(
    async ({ invoices }) => {
      // More changes than a record remembers.
      for (const one of [lost, ...others]) await invoices.pay(one)
    },
    () => store.invoices.pay(lost),
  )
  assert.equal(answer.outcome === 'changed' && answer.representation.invoice.amountPaid, '401.000')
})

test('a record keeps the ids of its last ten changes, latest first', async () => {
  const tenant = await newTenant()
  const item = await createItem(tenant, verbs.project)
  const sent: string[] = []
  for (let count = 1; count <= 12; count++) {
    const change = verbs.project.prepare(tenant, item.id)
    await change.send()
    sent.unshift(change.id)
    const [row] = await sql`select latest_changes from business_api.projects where id = ${item.id}`
    assert.deepEqual(row?.latest_changes, sent.slice(0, 10))
  }
})

// --- Idempotency keys ---

test('a change whose key is held by another call the whole time is in progress and writes nothing', async () => {
  const tenant = await newTenant()
  const [item, other] = [await createItem(tenant, verbs.project), await createItem(tenant, verbs.project)]
  const idempotency = changeClaim({ waitMs: 50 })
  await sql.begin(async (transaction) => {
    const records = { ...store, ...store.using(transaction) }
    await verbs.project.prepare(tenant, item.id, { idempotency }).send(records)
    const answer = await verbs.project.prepare(tenant, other.id, { idempotency }).send()
    assert.deepEqual(answer, { outcome: 'in_progress' })
  })
  assert.deepEqual(await listed(tenant, verbs.project, other.id), other)
  const answer = await verbs.project.prepare(tenant, other.id, { idempotency }).send()
  assert.equal(answer.outcome, 'replayed')
})

for (const end of ['committed', 'rolled back']) {
  test(`a change under the key of a change that was ${end} ${end === 'committed' ? 'is replayed' : 'is executed'}`, async () => {
    const tenant = await newTenant()
    const verb = verbs.proposal
    const item = await createItem(tenant, verb)
    const prepared = { from: ['open'], idempotency: changeClaim(), events: [eventTemplate(verb, item)] }
    let answer: Promise<Outcome> = Promise.resolve({ outcome: 'in_progress' })
    const transaction = sql.begin(async (tx) => {
      await verb.prepare(tenant, item.id, prepared).send({ ...store, ...store.using(tx) })
      answer = verb.prepare(tenant, item.id, { ...prepared, events: [eventTemplate(verb, item)] }).send()
      await somebodyWaits(tx)
      if (end !== 'committed') throw new Error('rolled back')
    })
    await Promise.allSettled([transaction])
    assert.equal((await answer).outcome, end === 'committed' ? 'replayed' : 'changed')
    await assertOnce(tenant, verb, verb.after(item))
  })
}

// --- Numbers ---

const SERIES = { series: 'INV-2026' }

function create(
  { id: organizationId }: Tenant,
  number: NewNumber,
  { invoices }: RecordStore = store,
  record: Invoice = invoiceItem('draft'),
) {
  return invoices.create({ organizationId, record: { ...record, number }, events: [], idempotency: null })
}

test('a series skips a number that another creation assigns explicitly at the same time', async () => {
  const tenant = await newTenant()
  const answer = await whileUncommitted(
    (records) => create(tenant, 'INV-2026-0001', records),
    () => create(tenant, SERIES),
  )
  assert.deepEqual(answer, { outcome: 'created', number: 'INV-2026-0002' })
})

test('an explicit number is taken if another creation takes it first', async () => {
  const tenant = await newTenant()
  const attempt = whileUncommitted(
    (records) => create(tenant, SERIES, records),
    () => create(tenant, 'INV-2026-0001'),
  )
  await assert.rejects(attempt, { code: 'already_exists' })
  assert.equal((await itemsOf(kinds.invoices, tenant)).length, 1)
})

test('in the host’s transaction, the transaction itself fails and accepts no more statements', async () => {
  const tenant = await newTenant()
  const other = sql.begin((transaction) => {
    return whileUncommitted(
      (records) => create(tenant, 'A', records),
      () => create(tenant, 'A', store.using(transaction)),
    )
  })
  await assert.rejects(other, { code: 'store_unavailable' })
  await assert.rejects(
    sql.begin((transaction) => create(tenant, 'A', store.using(transaction))),
    { code: 'already_exists' },
    'when it is tried again',
  )
})

test('a series continues beyond four digits', async () => {
  const tenant = await newTenant()
  await create(tenant, SERIES)
  await sql`update business_api.number_series set last = 9998 where organization_id = ${tenant.id}`
  for (const number of ['INV-2026-9999', 'INV-2026-10000', 'INV-2026-10001']) {
    assert.deepEqual(await create(tenant, SERIES), { outcome: 'created', number })
  }
  assert.deepEqual(
    [1, 9999, 10_000, 12_345_678].map((count) => formatNumber(SERIES, count)),
    ['INV-2026-0001', 'INV-2026-9999', 'INV-2026-10000', 'INV-2026-12345678'],
    'in memory, too',
  )
})

test('a number that is rolled back goes to the next creation', async () => {
  const tenant = await newTenant()
  const rolledBack = whileUncommittedThenRolledBack(tenant)
  assert.deepEqual(await rolledBack, { outcome: 'created', number: 'INV-2026-0001' })
})

async function whileUncommittedThenRolledBack(tenant: Tenant): Promise<unknown> {
  let answer: Promise<unknown> = Promise.resolve()
  const isRolledBack = new Error('rolled back')
  const transaction = sql.begin(async (tx) => {
    await create(tenant, SERIES, store.using(tx))
    answer = create(tenant, SERIES)
    await somebodyWaits(tx)
    throw isRolledBack
  })
  await assert.rejects(transaction, isRolledBack)
  return answer
}

for (const number of [SERIES, 'by hand']) {
  const whose = typeof number === 'string' ? 'of a number by hand' : 'of a series'
  test(`a creation ${whose} happens once if it's retried before its first attempt has committed`, async () => {
    const tenant = await newTenant()
    const record = invoiceItem('draft')
    const first = typeof number === 'string' ? number : 'INV-2026-0001'
    const answer = await whileUncommitted(
      (records) => create(tenant, number, records, record),
      () => create(tenant, number, store, record),
    )
    assert.deepEqual(answer, { outcome: 'created', number: first })
    assert.equal((await itemsOf(kinds.invoices, tenant)).length, 1)
  })
}

test('the next number comes after 30,000 numbers assigned by the host, in a session that has planned for an empty table', async () => {
  const session = await database.sql({ max: 1 }).reserve()
  const next = async (organizationId: string) => {
    const [row] = await session`
      select business_api.next_number(${organizationId}, 'INV-2026', 'business_api.invoices', 'inv_new') as number`
    return row?.number
  }
  for (let call = 1; call <= 8; call++) assert.equal(await next('org_empty'), `INV-2026-000${call}`)
  await session`
    insert into business_api.invoices
      (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
    select 'org_given', 'inv_' || n, business_api.format_number('INV-2026', n), 'draft', 'TND', 3, now(), now(), 1, 0
    from generate_series(1, 30000) n`
  // Reading all of the organization's invoices would take minutes.
  await session`set statement_timeout = '20s'`
  assert.equal(await next('org_given'), 'INV-2026-30001')
})
