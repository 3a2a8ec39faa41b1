import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { dumpSchema } from '../_schema-dump.ts'

const SCHEMA_FILE = join(import.meta.dirname, '..', 'schema.sql')
const SCHEMA_HEAD = `-- The schema as the migrations leave it, for review: written by test/postgres/schema.test.ts with UPDATE_SCHEMA=1, and compared by
-- it. sql/ has the definitions with their comments.

`

/** Unique keys that may start with a column other than organization_id, with the reason. */
const NOT_BY_ORGANIZATION: Readonly<Record<string, string>> = {
  migrations_pkey: 'belongs to the schema, and all organizations share the schema',
  api_keys_digest_key: 'the lookup that finds out whose key it is',
}

interface Key {
  table: string
  name: string
  kind: 'pkey' | 'key' | 'fkey' | 'check' | 'excl' | 'idx'
  columns: string[]
  referencedColumns: string[]
}

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
})

after(() => database.drop())

test('the migrations create the schema in test/schema.sql', async () => {
  const actual = SCHEMA_HEAD + (await dumpSchema(sql))
  if (process.env.UPDATE_SCHEMA) await writeFile(SCHEMA_FILE, actual)
  const expected = await readFile(SCHEMA_FILE, 'utf8')
  assert.equal(actual, expected, 'If the change is meant: UPDATE_SCHEMA=1, and review the difference')
})

test('every primary key, unique key and foreign key starts with organization_id', async () => {
  const keys = (await readKeys()).filter(({ kind }) => kind !== 'check')
  const others = keys.filter(({ columns }) => columns[0] !== 'organization_id').map(({ name }) => name)
  assert.deepEqual(others.sort(), Object.keys(NOT_BY_ORGANIZATION).sort())
})

test('every foreign key references a record of the same organization', async () => {
  const foreignKeys = (await readKeys()).filter(({ kind }) => kind === 'fkey')
  const others = foreignKeys.filter(({ referencedColumns }) => referencedColumns[0] !== 'organization_id')
  assert.deepEqual(others, [])
})

test('every constraint and index is named <table>_<columns>_<kind>', async () => {
  const misnamed = (await readKeys()).filter((key) => !isWellNamed(key)).map(({ name }) => name)
  assert.deepEqual(misnamed, [])
})

test('every comparison of an organization id compares bytes', async () => {
  const columns = await sql`
    select attrelid::regclass::text as table, attname as column
      from pg_attribute
      join pg_class on pg_class.oid = attrelid
     where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p') and not attisdropped
       and atttypid = 'text'::regtype and (attname = 'id' or attname like '%\\_id')
       and attcollation <> (select oid from pg_collation where collname = 'C')
  `
  assert.deepEqual([...columns], [])
})

async function readKeys(): Promise<Key[]> {
  return sql<Key[]>`
    with keys as (
      select conrelid as table_id, conname as name, conkey as columns, confkey as referenced, confrelid as referenced_id,
             case contype when 'p' then 'pkey' when 'u' then 'key' when 'f' then 'fkey' when 'x' then 'excl'
                          else 'check' end as kind
        from pg_constraint
       where connamespace = 'business_api'::regnamespace and contype in ('p', 'u', 'f', 'c', 'x')
      union all
      -- Unique indexes that no constraint stands for, such as partial ones.
      select indrelid, relname, indkey::int2[], null, 0, 'idx'
        from pg_index
        join pg_class on pg_class.oid = indexrelid
       where relnamespace = 'business_api'::regnamespace and indisunique
         and not exists (select from pg_constraint where conindid = indexrelid)
    )
    select relname as table, name, kind,
           array(select coalesce(attname::text, 'expr')
                   from unnest(columns) with ordinality as key (number, position)
                   left join pg_attribute on attrelid = table_id and attnum = number and number > 0
                  order by position) as columns,
           array(select attname::text
                   from unnest(referenced) with ordinality as key (number, position)
                   join pg_attribute on attrelid = referenced_id and attnum = number
                  order by position) as "referencedColumns"
      from keys
      join pg_class on pg_class.oid = table_id
     where not relispartition
     order by name collate "C"
  `
}

/** PostgreSQL's default names. Because it would number check constraints, those are named after their main column. */
function isWellNamed({ table, name, kind, columns }: Key): boolean {
  if (kind === 'pkey') return name === `${table}_pkey`
  if (kind === 'check') return columns.some((column) => name === `${table}_${column}_check`)
  return name === `${table}_${columns.join('_')}_${kind}`
}
