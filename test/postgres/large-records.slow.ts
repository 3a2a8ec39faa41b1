import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ISql, Sql } from 'postgres'
import type { Admissions } from '../../lib/postgres/admission/admission.ts'
import { createBusinessRecordStore } from '../../lib/postgres/businesses.ts'
import { createClientStore } from '../../lib/postgres/clients.ts'
import type { RecordDatabase } from '../../lib/postgres/connection/database.ts'
import { createInvoiceStore } from '../../lib/postgres/invoices.ts'
import { createLeadStore } from '../../lib/postgres/leads.ts'
import { createPlainStores } from '../../lib/postgres/plain-records.ts'
import { createProposalStore } from '../../lib/postgres/proposals.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// The host's reads cost as much in large tables as in small ones, because no plan scans records that don't match a
// filter. The wanted records are the oldest of an organization in which they're rare, while the table statistics are
// from a larger organization and say that they're frequent. Use RECORDS=1000000 to change the number of records per
// organization and table.

const SIZE = Number(process.env.RECORDS ?? 100_000)
const ORGANIZATION = 'org_rare'
const FREQUENT = 'org_frequent'

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  await turnAutovacuumOff(sql)
  await fill(sql)
})
after(() => database.drop())

/** Makes sure that only tests update the statistics. */
async function turnAutovacuumOff(sql: Sql): Promise<void> {
  for (const table of ['businesses', 'leads', 'invoices', 'payments', 'proposals', 'projects']) {
    await sql`alter table ${sql(`business_api.${table}`)} set (autovacuum_enabled = false)`
  }
}

/** Fills all tables without updating the statistics. */
async function fill(sql: Sql): Promise<void> {
  const rare = (state: string, usual: string) =>
    sql`case when organization_id = ${FREQUENT}::text or i <= 40 then ${state}::text else ${usual}::text end`
  const rows = sql`
    (values (${ORGANIZATION}::text), (${FREQUENT}::text)) as organization (organization_id),
    generate_series(1, ${SIZE}::int) as i`
  const id = (kind: string) => sql`${kind}::text || lpad(i::text, 12, '0')`
  await sql`
    insert into business_api.businesses
      (organization_id, id, name, client_id, client_status, total_revenue, monthly_revenue, converted_at)
    select organization_id, ${id('biz_')}, 'Atlas', ${id('cli_')}, ${rare('inactive', 'active')}, 0, 0, now() from ${rows}`
  await sql`
    insert into business_api.leads (organization_id, id, business_id, stage, created_at)
    select
      organization_id, ${id('lead_')}, case when i <= 60 then 'biz_000000000007' else ${id('biz_')} end,
      ${rare('new', 'won')}, now()
    from ${rows}`
  await sql`
    insert into business_api.invoices
      (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
    select
      organization_id, ${id('inv_')}, ${id('')},
      case when i % 2 = 0 then ${rare('issued', 'paid')} else ${rare('overdue', 'paid')} end,
      'TND', 3, now(), now() + i * interval '1 minute', 10, 0
    from ${rows}`
  await sql`
    insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
    select organization_id, ${id('pay_')}, case when i <= 60 then 'inv_000000000007' else ${id('inv_')} end, 1, now() from ${rows}`
  await sql`
    insert into business_api.proposals
      (organization_id, id, number, title, status, version, total, monthly_total, currency)
    select organization_id, ${id('prop_')}, ${id('')}, 'Website', ${rare('sent', 'accepted')}, 1, 1, 1, 'TND' from ${rows}`
  await sql`
    insert into business_api.projects (organization_id, id, name, status, billing_type, value)
    select organization_id, ${id('proj_')}, 'Relaunch', ${rare('active', 'completed')}, 'fixed', 1 from ${rows}`
}

interface Reading {
  readonly sequentialScans: number
  /** Rows and index entries. */
  readonly rows: number
}

/** How much this transaction has read from all tables. */
async function readCounters(tx: ISql): Promise<Reading> {
  const [counters] = await tx<Reading[]>`
    select
      sum(pg_stat_get_xact_numscans(large.oid))::int as "sequentialScans",
      sum(
        pg_stat_get_xact_tuples_returned(large.oid) + (
          select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0) from pg_index where indrelid = large.oid
        )
      )::int as rows
    from pg_class large where large.relnamespace = 'business_api'::regnamespace and large.relkind = 'r'`
  assert.ok(counters)
  return counters
}

type Read = (store: ReturnType<typeof storeOf>) => Promise<readonly unknown[] | object | null>

const NO_ADMISSIONS = {} as Admissions

function storeOf(recordDatabase: RecordDatabase) {
  return {
    businesses: createBusinessRecordStore(recordDatabase, NO_ADMISSIONS),
    clients: createClientStore(recordDatabase, NO_ADMISSIONS),
    leads: createLeadStore(recordDatabase, NO_ADMISSIONS),
    invoices: createInvoiceStore(recordDatabase, NO_ADMISSIONS),
    proposals: createProposalStore(recordDatabase, NO_ADMISSIONS),
    ...createPlainStores(recordDatabase, NO_ADMISSIONS),
  }
}

async function measure(
  read: Read,
  mode: string,
  session = sql,
): Promise<Reading & { readonly found: number }> {
  return session.begin(async (tx) => {
    await tx`select set_config('plan_cache_mode', ${mode}, true)`
    const store = storeOf({
      async rowFor(_share, build) {
        return (await tx`${build(tx, tx`'x'::text`)}`.values())[0] as string[]
      },
      bytesFor: () => assert.fail(),
      wakeUp: { signal() {} },
    })
    // The first call includes reads by the planner.
    await read(store)
    const begun = await readCounters(tx)
    const found = await read(store)
    const done = await readCounters(tx)
    return {
      sequentialScans: done.sequentialScans - begun.sequentialScans,
      rows: done.rows - begun.rows,
      found: Array.isArray(found) ? found.length : Number(found !== null),
    }
  })
}

const AT = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toISOString()
const idOf = (kind: string, index: number): string => `${kind}_${String(index).padStart(12, '0')}`
const MIDDLE = Math.floor(SIZE / 2)

/** The reads, with the number of records found for a limit of 51. */
const READS: Readonly<Record<string, readonly [found: number, read: Read]>> = {
  'businesses, newest': [51, ({ businesses }) => businesses.list(ORGANIZATION, {}, 51, null)],
  'businesses, from the middle': [
    51,
    ({ businesses }) => businesses.list(ORGANIZATION, {}, 51, idOf('biz', MIDDLE)),
  ],
  'clients of a rare status': [
    40,
    ({ clients }) => clients.list(ORGANIZATION, { statuses: ['inactive'] }, 51, null),
  ],
  'clients of a frequent status, from the middle': [
    51,
    ({ clients }) => clients.list(ORGANIZATION, { statuses: ['active'] }, 51, idOf('cli', MIDDLE)),
  ],
  'clients of an unknown status': [
    0,
    ({ clients }) => clients.list(ORGANIZATION, { statuses: ['none'] }, 51, null),
  ],
  'the client of a business': [
    1,
    ({ clients }) => clients.list(ORGANIZATION, { businessId: idOf('biz', 3) }, 51, null),
  ],
  'leads of rare stages': [
    40,
    ({ leads }) => leads.list(ORGANIZATION, { stages: ['new', 'contacted', 'lost'] }, 51, null),
  ],
  'leads of a frequent and a rare stage': [
    51,
    ({ leads }) => leads.list(ORGANIZATION, { stages: ['won', 'new'] }, 51, idOf('lead', MIDDLE)),
  ],
  'leads of a business': [
    51,
    ({ leads }) => leads.list(ORGANIZATION, { businessId: idOf('biz', 7) }, 51, null),
  ],
  'leads of a business and a stage': [
    40,
    ({ leads }) => leads.list(ORGANIZATION, { businessId: idOf('biz', 7), stages: ['new'] }, 51, null),
  ],
  'invoices of a rare status': [
    20,
    ({ invoices }) => invoices.list(ORGANIZATION, { statuses: ['issued'] }, 51, null),
  ],
  'an invoice by number': [
    1,
    ({ invoices }) => invoices.list(ORGANIZATION, { number: '000000000009' }, 51, null),
  ],
  'invoices due before': [
    40,
    ({ invoices }) => invoices.list(ORGANIZATION, { dueBefore: AT(SIZE) }, 51, null),
  ],
  'invoices due after': [0, ({ invoices }) => invoices.list(ORGANIZATION, { dueAfter: AT(90) }, 51, null)],
  'invoices due in a period where many are, from the middle': [
    51,
    ({ invoices }) =>
      invoices.list(FREQUENT, { dueAfter: AT(-100), dueBefore: AT(SIZE) }, 51, idOf('inv', MIDDLE)),
  ],
  'payments of an invoice': [
    51,
    ({ invoices }) => invoices.listPayments(ORGANIZATION, idOf('inv', 7), 51, null),
  ],
  'proposals of a rare status': [
    40,
    ({ proposals }) => proposals.list(ORGANIZATION, { statuses: ['sent', 'draft'] }, 51, null),
  ],
  'a proposal by number': [
    1,
    ({ proposals }) => proposals.list(ORGANIZATION, { number: '000000000009' }, 51, null),
  ],
  'projects of a rare status': [
    40,
    ({ projects }) => projects.list(ORGANIZATION, { statuses: ['active'] }, 51, null),
  ],
  'one record': [1, ({ invoices }) => invoices.get(ORGANIZATION, idOf('inv', MIDDLE))],
}

/** Number of calls after which PostgreSQL keeps a generic plan. */
const KEPT_AFTER_CALLS = 6

/**
 * How many rows and index entries a page of 51 may read: the records, their businesses, and the entries
 * leading to both.
 */
const ROWS_MAX = 600

for (const statistics of [false, true]) {
  test(`every read reads little of large tables, ${statistics ? 'with' : 'without'} statistics`, async () => {
    if (statistics) await sql`vacuum analyze`
    for (const [name, [found, read]] of Object.entries(READS)) {
      for (const mode of ['force_custom_plan', 'force_generic_plan']) {
        const reading = await measure(read, mode)
        const text = `${name}, ${mode}: ${JSON.stringify(reading)}`
        assert.equal(reading.found, found, text)
        assert.equal(reading.sequentialScans, 0, text)
        assert.ok(reading.rows <= ROWS_MAX, text)
      }
    }
  })
}

test('every read reads little of tables that were empty and analyzed when the session made its plans', async (t) => {
  const another = await createTestDatabase()
  t.after(() => another.drop())
  // Same as in the store's sessions. Behind a pooler without sessions, autovacuum discards such plans.
  const session = another.sql({ max: 1, connection: { enable_seqscan: 'off' } as object })
  await turnAutovacuumOff(session)
  await session`vacuum analyze`
  for (const [, read] of Object.values(READS)) {
    for (let call = 0; call < KEPT_AFTER_CALLS; call++) await measure(read, 'auto', session)
  }
  await fill(another.sql({ max: 1 }))
  for (const [name, [found, read]] of Object.entries(READS)) {
    const reading = await measure(read, 'auto', session)
    const text = `${name}: ${JSON.stringify(reading)}`
    assert.equal(reading.found, found, text)
    assert.equal(reading.sequentialScans, 0, text)
    assert.ok(reading.rows <= ROWS_MAX, text)
  }
})
