import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Options, Sql } from 'postgres'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { RESOURCES, SCOPES } from '../../lib/access/scopes.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertRepresentations, computePage, rowsOf, STORED_FIELDS } from './_representations.ts'

// Every record is stored with its representation. Here we write rows of every kind with SQL, using all kinds of session
// settings. test/store and test/platform compare what the store's methods leave behind.

const ids = createIds()
const TEXTS = [
  'Atlas',
  '',
  'null',
  `O'Brien & "Söhne" <b>株式会社</b> \\ / 🏺`,
  'a\nb\r\nc\td\be\ff\u0001\u001f\u007f\u0085\u2028\u2029\ufeff',
  'e\u0301 is not \u00e9; العربية 👩‍👩‍👧‍👦 \u{10ffff}',
  `$1 %s {"a": [null]} E'\\u0000'`,
]
const AMOUNTS = ['0', '0.1', '-12.5', '1234567.891', '1200', '999999999999.999', '0.001', '100.000']
const TIMES = [
  '2026-03-14T09:26:53.589Z',
  '1970-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999Z',
  '10000-01-01T00:00:00Z',
  '294276-12-31T23:59:59.999999Z',
  '0001-01-01T00:00:00Z',
  '0044-03-15T12:00:00.5Z BC',
  '2024-02-29T23:59:59.9999Z',
  '2026-10-25T02:30:00.1+02:00',
  'infinity',
]
/** Currency, decimals, total, paid. */
const MONEY = [
  ['TND', 3, '1250.000', '250'],
  ['JPY', 0, '900', '0'],
  ['EUR', 2, '12.5', '12.50'],
  ['CLF', 4, '1', '0.1000'],
  ['USD', 2, '99999999999999.99', '0.01'],
] as const

describe('stored representations', () => {
  let database: TestDatabase
  let sql: Sql

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql()
  })
  after(() => database.drop())

  const sessions: Readonly<Record<string, Options<Record<never, never>>['connection']>> = {
    'the settings of the server': {},
    'odd settings of the session': {
      timezone: 'America/St_Johns',
      datestyle: 'Postgres, DMY',
      intervalstyle: 'sql_standard',
      extra_float_digits: -15,
      bytea_output: 'escape',
      standard_conforming_strings: 'off',
      lc_numeric: 'C.UTF-8',
      lc_time: 'C.UTF-8',
      lc_monetary: 'C.UTF-8',
    },
    'a hostile schema first on the search path': { search_path: 'hostile, public, pg_catalog' },
  }
  for (const [name, connection] of Object.entries(sessions)) {
    test(`of rows written with SQL equal computed ones, under ${name}`, async () => {
      const organizationId = `org_${Object.keys(sessions).indexOf(name)}`
      if (name.includes('hostile')) await sql.unsafe(HOSTILE)
      const session = database.sql({ max: 1, ...(connection && { connection }) })
      await insertEverything(session, organizationId)
      await session`
        update business_api.businesses set name = name || ' & Co', city = null where organization_id = ${organizationId}`
      await session`
        update business_api.businesses set client_status = 'inactive', monthly_revenue = total_revenue
        where client_id is not null and organization_id = ${organizationId}`
      await session`
        update business_api.invoices set amount_paid = total, status = 'paid' where organization_id = ${organizationId}`

      await assertRepresentations(sql)
    })
  }

  test('make up the pages of lists, byte for byte like computed ones', async () => {
    const organizationId = 'org_pages'
    await insertEverything(sql, organizationId)
    const store = createPostgresStore(database.url)
    const keyDigest = await insertKey(store, organizationId)
    for (const resource of RESOURCES) {
      const request = { keyDigest, scope: `${resource}:read`, rateLimits: null } as const
      const { page } = await store[resource].admitAndList(request, { limit: 200 })
      assert.equal(String(page), await computePage(sql, resource, organizationId), resource)
    }
    await store.close()
  })

  test('use a replaced function the next time the rows are updated, in batches', async () => {
    await sql`insert into business_api.projects (organization_id, id, name, status, billing_type, value)
      select 'org_batches', 'proj_' || n, 'Relaunch', 'active', 'fixed', 1 from generate_series(1, 3) n`
    await sql
      .begin(async (tx) => {
        await tx.unsafe(`
        create or replace function business_api.project_representation(
          id text, name text, status text, billing_type text, value numeric
        ) returns text language plpgsql immutable set search_path = ''
        as $$ begin return '{"id":' || to_json(id)::text || '}'; end $$`)
        await tx`
        update business_api.projects set id = id where organization_id = 'org_batches' and id = 'proj_2'`
        const rows = await tx`
        select representation from business_api.projects where organization_id = 'org_batches' order by id`
        assert.deepEqual(
          rows.map(({ representation }) => representation.includes('name')),
          [true, false, true],
        )
        throw ROLLBACK
      })
      .catch((error) => assert.equal(error, ROLLBACK))
  })

  test("can't be written with SQL", async () => {
    for (const table of Object.keys(STORED_FIELDS)) {
      await assert.rejects(sql.unsafe(`update ${rowsOf(table)} set representation = '{}'`), {
        code: '428C9',
      })
    }
  })
})

const ROLLBACK = new Error('The test has seen enough')

/** Functions and an operator with the same names as those used in the representations. */
const HOSTILE = `
  create schema hostile;
  create function hostile.to_json(text) returns json language sql immutable as $$ select '"hostile"'::json $$;
  create function hostile.to_char(timestamp, text) returns text language sql immutable as $$ select 'hostile' $$;
  create function hostile.trim_scale(numeric) returns numeric language sql immutable as $$ select 666::numeric $$;
  create function hostile.round(numeric, integer) returns numeric language sql immutable as $$ select 666::numeric $$;
  create function hostile.join_hostile(text, text) returns text language sql immutable as $$ select 'hostile'::text $$;
  create operator hostile.|| (leftarg = text, rightarg = text, function = hostile.join_hostile);`

async function insertEverything(sql: Sql, organizationId: string): Promise<void> {
  const at = <T>(values: readonly T[], index: number): T => values[index % values.length] as T
  const cases = Math.max(TEXTS.length, AMOUNTS.length, TIMES.length)
  for (let index = 0; index < cases; index++) {
    const [text, amount, time] = [at(TEXTS, index), at(AMOUNTS, index), at(TIMES, index)]
    const [currency, decimals, total, paid] = at(MONEY, index)
    const nullable = index % 3 === 0 ? null : text
    const businessId = ids('biz')
    await sql`
      insert into business_api.businesses (organization_id, id, name)
      values (${organizationId}, ${ids('biz')}, ${text})`
    await sql`
      insert into business_api.businesses
        (
          organization_id, id, name, category, city, email, phone, client_id, client_status, total_revenue, monthly_revenue,
          converted_at
        )
      values (${organizationId}, ${businessId}, ${text}, ${nullable}, ${text}, ${nullable}, ${null}, ${ids('cli')}, ${text},
        ${amount}::text::numeric, ${at(AMOUNTS, index + 1)}::text::numeric, ${time}::text::timestamptz)`
    await sql`
      insert into business_api.leads
        (organization_id, id, business_id, stage, lead_score, score_band, expected_value, created_at)
      values (${organizationId}, ${ids('lead')}, ${businessId}, ${text}, ${index % 2 === 0 ? null : '39.500'}::text::numeric,
        ${nullable}, ${index % 3 === 0 ? null : amount}::text::numeric, ${time}::text::timestamptz)`
    await sql`
      insert into business_api.invoices
        (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
      values (${organizationId}, ${ids('inv')}, ${`${index} ${text}`}, 'issued', ${currency}, ${decimals},
        ${time}::text::timestamptz, ${at(TIMES, index + 1)}::text::timestamptz, ${total}::text::numeric,
        ${paid}::text::numeric)`
    await sql`
      insert into business_api.proposals
        (organization_id, id, number, title, status, version, total, monthly_total, currency, minor_units)
      values (${organizationId}, ${ids('prop')}, ${`${index} ${text}`}, ${text}, 'draft', ${index + 1},
        ${amount}::text::numeric, ${at(AMOUNTS, index + 1)}::text::numeric, ${currency}, 3)`
    await sql`
      insert into business_api.projects (organization_id, id, name, status, billing_type, value)
      values (${organizationId}, ${ids('proj')}, ${text}, 'active', ${text}, ${amount}::text::numeric)`
  }
}

async function insertKey(store: PostgresStore, organizationId: string): Promise<string> {
  const digest = digestApiKey(generateApiKey('bapi', 0))
  await store.apiKeys.insert({
    organizationId,
    limit: 1000,
    key: {
      id: ids('key'),
      digest,
      name: 'Test',
      scopes: SCOPES,
      prefix: 'bapi_live_',
      lastFour: 'abcd',
      rateLimit: null,
      createdAt: new Date().toISOString(),
      expiresAt: null,
    },
    entry: newEntry(),
  })
  return digest
}
