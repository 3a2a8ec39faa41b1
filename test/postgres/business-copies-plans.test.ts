import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import type { Admissions } from '../../lib/postgres/admission.ts'
import { createClientStore } from '../../lib/postgres/clients.ts'
import type { RecordDatabase } from '../../lib/postgres/connection/database.ts'
import type { ListStatements } from '../../lib/postgres/statements/list.ts'
import { arrayOf, type FixedStatement, type Value } from '../../lib/postgres/statements/statement.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// A list of clients reads no business as long as no business of the organization was changed by SQL, and else the businesses of the page:
// with and without statistics, for custom and for generic plans, under row level security. RECORDS=1000000 sets another number of
// records for each organization.

const SIZE = Number(process.env.RECORDS ?? 3000)
const ORGANIZATIONS = ['org_one', 'org_two', 'org_three']
const LIMIT = 50
const ROLE = `business_api_reader_${process.pid}_${Date.now()}`

let database: TestDatabase
let sql: Sql
const digests = new Map<string, string>()

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  const store = createPostgresStore(database.url)
  const { apiKeys } = createDeveloperSettings(store)
  for (const organizationId of ORGANIZATIONS) {
    const { key } = await apiKeys.create(organizationId, { name: 'Plans', scopes: ['clients:read'] })
    digests.set(organizationId, digestApiKey(key))
  }
  await store.close()
  for (const table of ['businesses', 'clients']) {
    await sql`alter table ${sql(`business_api.${table}`)} set (autovacuum_enabled = false)`
    await sql.unsafe(`
      alter table business_api.${table} enable row level security;
      create policy one_organization on business_api.${table}
        using (organization_id = current_setting('business_api.organization', true))`)
  }
  await sql.unsafe(`
    create role ${ROLE};
    grant usage on schema business_api to ${ROLE};
    grant select on all tables in schema business_api to ${ROLE};
    grant execute on all functions in schema business_api to ${ROLE}`)
})
after(async () => {
  await sql.unsafe(`drop owned by ${ROLE}; drop role ${ROLE}`)
  await database.drop()
})

/** Inserts businesses and clients as the library leaves them. */
async function fill(organizationId: string, from: number, to: number): Promise<void> {
  await sql`
    insert into business_api.businesses (organization_id, id, name, copied)
    select ${organizationId}, 'biz_' || lpad(n::text, 9, '0'), 'Atlas',
      business_api.business_representation('biz_' || lpad(n::text, 9, '0'), 'Atlas', null, null, null, null)
    from generate_series(${from}::int, ${to}::int) as n`
  await sql`
    insert into business_api.clients
      (
        organization_id, id, business_id, status, total_revenue, monthly_revenue, converted_at, business_copy, copy_of
      )
    select organization_id, 'cli_' || substr(id, 5), id, 'active', 0, 0, now(), copied,
      business_api.copy_key(organization_id, id)
    from business_api.businesses
    where organization_id = ${organizationId}
      and id between 'biz_' || lpad(${from}::text, 9, '0') and 'biz_' || lpad(${to}::text, 9, '0')`
}

/** Reads the statements of the list of clients. */
function readStatements(): ListStatements {
  let found: ListStatements | undefined
  const admissions = {
    admitToPage(_request: unknown, statements: ListStatements) {
      found = statements
      return Promise.resolve()
    },
  }
  const store = createClientStore({} as RecordDatabase, admissions as unknown as Admissions)
  void store.admitAndList({ keyDigest: '', scope: 'clients:read', rateLimits: null }, { limit: LIMIT })
  assert.ok(found)
  return found
}

const LIST = readStatements()

type AnyStatement = Pick<FixedStatement<unknown, string>, 'text'> &
  Record<'parameters' | 'columns', readonly string[]>

/** The lists, each with the values of a page in the middle or of the first page. */
const LISTS: Readonly<
  Record<
    string,
    readonly [Readonly<Record<'alone' | 'together', AnyStatement>>, Readonly<Record<string, Value>>]
  >
> = {
  newest: [LIST.newest.read, {}],
  older: [LIST.older.read, { before: 'cli_000001000' }],
  'by transaction': [LIST.changes.read, { xid: '0', id: '', floor: null, ceiling: null }],
  'by time': [
    LIST.times.read,
    { time: '2020-01-01T00:00:00.000Z', id: '', floor: null, tableIdentity: null },
  ],
}

interface Reading {
  /** Index entries and rows of businesses. */
  readonly businesses: number
  /** Index entries and rows of clients. */
  readonly clients: number
  readonly sequentialScans: number
  /** Descents of the index of outdated businesses. */
  readonly scans: number
}

async function readCounters(tx: TransactionSql): Promise<Reading> {
  const rows = (table: string) => `(
    pg_stat_get_xact_tuples_returned('business_api.${table}'::regclass) + (
      select sum(pg_stat_get_xact_tuples_returned(indexrelid)) from pg_index
      where indrelid = 'business_api.${table}'::regclass
    )
  )::int as ${table}`
  const [counters] = await tx.unsafe<Reading[]>(`
    select ${rows('businesses')}, ${rows('clients')},
      pg_stat_get_xact_numscans('business_api.businesses_organization_id_idx'::regclass)::int as scans,
      (
        pg_stat_get_xact_numscans('business_api.businesses'::regclass)
        + pg_stat_get_xact_numscans('business_api.clients'::regclass)
      )::int as "sequentialScans"`)
  assert.ok(counters)
  return counters
}

/** Measures the second run of a statement in a transaction, because the first also reads for the planner. */
async function measure(
  tx: TransactionSql,
  run: () => Promise<readonly unknown[]>,
): Promise<Reading & { readonly found: number }> {
  await run()
  const begun = await readCounters(tx)
  const pages = await run()
  const done = await readCounters(tx)
  return {
    businesses: done.businesses - begun.businesses,
    clients: done.clients - begun.clients,
    sequentialScans: done.sequentialScans - begun.sequentialScans,
    scans: done.scans - begun.scans,
    found: pages.flatMap((page) => JSON.parse(String(page))).length,
  }
}

const ROLLBACK = new Error('The test has seen enough')

const FORMS = ['alone', 'together'] as const
const MODES = ['force_custom_plan', 'force_generic_plan']

/** Runs a statement for organizations, as the key of each, and returns the pages. */
async function readPages(
  tx: TransactionSql,
  { text, parameters, columns }: AnyStatement,
  readValue: (name: string) => Value,
): Promise<readonly unknown[]> {
  const answers = await tx.unsafe(text, [...parameters.map(readValue), ''], { prepare: true }).values()
  return answers.map((answer) => answer[columns.indexOf('page')])
}

/** Measures every list of an organization, in both forms, under every kind of plan. */
async function* readings(role: string | null) {
  const organizationId = 'org_two'
  for (const [name, [statement, given]] of Object.entries(LISTS)) {
    for (const [form, mode] of FORMS.flatMap((form) => MODES.map((mode) => [form, mode] as const))) {
      const reading = await sql.begin(async (tx) => {
        await tx`
          select set_config('plan_cache_mode', ${mode}, true),
            set_config('business_api.organization', ${organizationId}, true)`
        const [row] = await tx`select business_api.table_identity('business_api.clients') as identity`
        if (role !== null) await tx.unsafe(`set local role ${role}`)
        const values: Readonly<Record<string, Value>> = {
          organizationId,
          keyDigest: digests.get(organizationId) ?? null,
          scope: 'clients:read',
          limit: LIMIT,
          tableIdentity: row?.identity,
          ...given,
        }
        const valueFor = (parameter: string): Value => values[parameter] ?? null
        return measure(tx, () =>
          readPages(tx, statement[form], (parameter) =>
            form === 'alone' ? valueFor(parameter) : arrayOf([valueFor(parameter)]),
          ),
        )
      })
      yield { name: `${name}, ${form}, ${mode}, ${role ?? 'owner'}: ${JSON.stringify(reading)}`, reading }
    }
  }
}

/** The entries and rows of clients that a page may read: the clients, and the query for a further client. */
const CLIENTS_MAX = 2 * (LIMIT + 1)
/** For each client of the page an entry and a row, and the outdated business. */
const BUSINESSES_MAX = 2 * (LIMIT + 1)

async function assertReadings(areOutdated: boolean): Promise<void> {
  for (const role of [null, ROLE]) {
    for await (const { name, reading } of readings(role)) {
      assert.equal(reading.found, LIMIT, name)
      assert.equal(reading.sequentialScans, 0, name)
      assert.equal(reading.scans, 1, name)
      assert.ok(reading.clients <= CLIENTS_MAX, name)
      assert.ok(reading.businesses <= (areOutdated ? BUSINESSES_MAX : 0), name)
      if (areOutdated) assert.ok(reading.businesses >= LIMIT, name)
    }
  }
}

test('is_outdated() makes every plan without the index of outdated businesses seem to cost more than a statement', async () => {
  await sql
    .begin(async (tx) => {
      await tx`drop index business_api.businesses_organization_id_idx`
      const [row] = await tx`
        explain (format json) select 1 from business_api.businesses
        where organization_id = 'org_one' and business_api.is_outdated(representation, copied)`
      assert.ok(row?.['QUERY PLAN'][0].Plan['Total Cost'] > 1000)
      throw ROLLBACK
    })
    .catch((error) => assert.equal(error, ROLLBACK))
})

describe('a list of clients', () => {
  test('reads no business, also before the tables have statistics', async () => {
    await fill('org_one', 1, 5)
    await sql`analyze business_api.businesses, business_api.clients`
    for (const organizationId of ORGANIZATIONS) await fill(organizationId, 10, SIZE)
    await assertReadings(false)
    await sql`vacuum analyze business_api.businesses, business_api.clients`
    await assertReadings(false)
  })

  test('queries changed businesses once for each organization, also in a statement of several organizations', async () => {
    const values: Readonly<Record<string, readonly Value[]>> = {
      organizationId: ORGANIZATIONS,
      keyDigest: ORGANIZATIONS.map((organizationId) => digests.get(organizationId) ?? null),
      scope: ORGANIZATIONS.map(() => 'clients:read'),
      limit: ORGANIZATIONS.map(() => LIMIT),
    }
    for (const mode of MODES) {
      const reading = await sql.begin(async (tx) => {
        await tx`select set_config('plan_cache_mode', ${mode}, true)`
        return measure(tx, () =>
          readPages(tx, LIST.newest.read.together, (parameter) => arrayOf(values[parameter] ?? [])),
        )
      })
      assert.equal(reading.found, LIMIT * ORGANIZATIONS.length)
      assert.equal(reading.scans, ORGANIZATIONS.length, mode)
      assert.equal(reading.businesses, 0, mode)
    }
  })

  test('looks up the businesses of the page, if SQL has changed businesses of the organization', async () => {
    await sql`
      update business_api.businesses set name = 'Changed' where organization_id = 'org_two' and id > 'biz_000000500'`
    await assertReadings(true)
    await sql`vacuum analyze business_api.businesses, business_api.clients`
    await assertReadings(true)
  })

  test('reads no business again after the copies are renewed, found by the index', async () => {
    await sql`
      select business_api.renew_copy(organization_id, id) from business_api.businesses
      where organization_id = 'org_two' and business_api.is_outdated(representation, copied)`
    await sql`vacuum business_api.businesses`
    await assertReadings(false)
  })
})
