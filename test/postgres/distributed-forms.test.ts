import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { type Facts, findRefusedForms, type RefusedForm } from './_distributed-forms.ts'
import { readFacts } from './_distribution-facts.ts'

// The functions and tables of the schema in the forms that a distributed PostgreSQL takes. The statements of the store are looked at
// where they are sent: test/store/postgres.test.ts.

let database: TestDatabase
let sql: Sql
let facts: Facts

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  facts = await readFacts(sql)
})

after(() => database.drop())

/**
 * The functions that work for all organizations at once, and so cannot name one: each is to be divided into a look across the shards
 * without locks, and a function of one organization. A function of this list that uses no refused form fails the test.
 */
const KNOWN: Readonly<Record<string, readonly RefusedForm[]>> = {
  // sql/0016 to 0018, and 0031: the claims of delivery loops.
  claim_deliveries: ['table without a constant organization'],
  walk_due_deliveries: ['table without a constant organization'],
  end_attempts: ['table without a constant organization'],
  hold_deliveries: ['table without a constant organization'],
  promote_due_retries: ['table without a constant organization'],
  read_claims: ['table without a constant organization'],
  read_deliveries: ['table without a constant organization'],
  recall_attempt_results: ['table without a constant organization'],
  reclaim_expired_leases: ['table without a constant organization'],
  release_deliveries: ['table without a constant organization'],
  write_attempt_results: [
    'outer join LATERAL from a set of records to a table',
    'table without a constant organization',
  ],
  // sql/0019 and 0032: retention.
  continue_purge: ['function of the session in CASE or COALESCE of SET'],
  find_open_delivery: ['table without a constant organization'],
  purge_days: ['table without a constant organization'],
  purge_events: ['function of the session in DO UPDATE', 'table without a constant organization'],
  purge_idempotency_keys: ['table without a constant organization'],
  purge_lag: ['table without a constant organization'],
  purge_removed_endpoints: ['table without a constant organization'],
  // sql/0036: looks of a purge at all shards, without locks; each change names its organization.
  purge_days_on_nodes: ['table without a constant organization'],
  purge_endpoints_on_nodes: ['table without a constant organization'],
  purge_events_on_nodes: ['table without a constant organization'],
  purge_keys_on_nodes: ['table without a constant organization'],
  // sql/0023: the counts of the queue.
  count_queue: ['table without a constant organization'],
}

/**
 * Functions in the language SQL that read a table, because Citus does not plan their parameters: two of sql/0027 and 0032 that read
 * the reference table of days only.
 */
const KNOWN_SQL_FUNCTIONS: readonly string[] = ['first_day_end', 'kept_deliveries']

describe('The schema', () => {
  test('has functions in the forms that a distributed database takes', async () => {
    const functions = await sql<{ name: string; body: string }[]>`
      select proname as name, prosrc as body from pg_proc
      where pronamespace = 'business_api'::regnamespace order by proname`
    const found = functions.map(
      ({ name, body }) => [name, [...findRefusedForms(body, facts)].sort()] as const,
    )
    assert.deepEqual(Object.fromEntries(found.filter(([, forms]) => forms.length > 0)), KNOWN)
  })

  test('has no function in the language SQL that reads a table', async () => {
    const functions = await sql<{ name: string }[]>`
      select proname as name from pg_proc join pg_language on pg_language.oid = prolang
      where pronamespace = 'business_api'::regnamespace and lanname = 'sql'
        and regexp_replace(prosrc, 'business_api\\.\\w+\\(', '', 'g') like '%business_api.%'
      order by proname`
    assert.deepEqual(
      functions.map(({ name }) => name),
      KNOWN_SQL_FUNCTIONS,
    )
  })

  test('has the organization in every unique constraint and foreign key of a table with organizations', async () => {
    const constraints = await sql<{ table: string; name: string }[]>`
      select relname as table, conname as name
      from pg_constraint join pg_class on pg_class.oid = conrelid
      where relnamespace = 'business_api'::regnamespace and contype in ('p', 'u', 'f') and relname <> 'migrations'
        and not exists (
          select 1 from pg_attribute where attrelid = conrelid and attname = 'organization_id' and attnum = any (conkey)
        )`
    assert.deepEqual([...constraints], [{ table: 'api_keys', name: 'api_keys_digest_key' }])
  })
})

describe('findRefusedForms()', () => {
  const examples: readonly (readonly [RefusedForm, refused: string, taken: string])[] = [
    [
      'array slice in SET',
      'update t set x = (array[$1] || x)[:10] where true',
      'update t set x = array[$1] || trim_array(x, 1) where (y)[:10] = z',
    ],
    ['simple CASE', 'select case a when 1 then 2 end', 'select case when a = 1 then 2 end'],
    [
      'SELECT without columns',
      'select 1 where exists (select from t)',
      'select 1 where exists (select 1 from t)',
    ],
    [
      'function of the session in DO UPDATE',
      'insert into t (a) values (1) on conflict (a) do update set a = case when now() > t.b then 1 end',
      'insert into t (a) values (now()) on conflict (a) do update set a = greatest(excluded.a, upper(t.b)) returning now()',
    ],
    [
      'function of the session in CASE or COALESCE of SET',
      'update t set a = coalesce(a, now()) where true',
      'update t set a = now(), b = coalesce(b, c) where d < now()',
    ],
    [
      'table without a constant organization',
      'select 1 from x join business_api.clients c on c.organization_id = x.organization_id',
      'select 1 from x join business_api.clients c on c.organization_id = $1::text and (c.id = x.id)',
    ],
    [
      'outer join LATERAL from a set of records to a table',
      'select 1 from jsonb_to_recordset($1) as g (id text) left join lateral (select 1 from business_api.clients c where c.organization_id = $2) as k on true',
      'select 1 from jsonb_to_recordset($1) as g (id text) cross join lateral (select 1 from business_api.clients c where c.organization_id = $2) as k',
    ],
    [
      'set of records in UPDATE',
      'update t set a = r.a from jsonb_to_recordset($1) as r (a text) where true',
      'update t set a = r.a from unnest($1) as r (a) where true',
    ],
    [
      'row count of an INSERT with ON CONFLICT',
      'insert into t (a) values (1) on conflict do nothing; get diagnostics n = row_count;',
      'with x as (insert into t (a) values (1) on conflict do nothing returning 1) select count(*) into n from x; delete from t; get diagnostics n = row_count;',
    ],
    [
      'table of the catalogue beside a table',
      'select 1 from business_api.clients where organization_id = $1 union all select 1 from pg_catalog.pg_database',
      'select pg_catalog.pg_control_system(), 1 from business_api.clients where organization_id = $1',
    ],
  ]
  for (const [form, refused, taken] of examples) {
    test(`finds: ${form}`, () => {
      assert.deepEqual(findRefusedForms(refused, facts), [form])
      assert.deepEqual(findRefusedForms(taken, facts), [])
    })
  }

  test('reads past comments and texts, from statement to statement', () => {
    const text =
      "select ';select from '; -- select from\nselect 1; select from business_api.clients where organization_id = $1"
    assert.deepEqual(findRefusedForms(text, facts), ['SELECT without columns'])
  })
})
