import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// A dump has definitions as formatted by PostgreSQL, and a restore parses them. If that changed the text of a
// definition, `doctor` would report it as changed in a database where it wasn't.

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
})
after(() => database.drop())

test('every check constraint is the same after a dump and restore', async () => {
  const constraints = await sql<{ table: string; name: string; text: string }[]>`
    select conrelid::regclass::text as table, conname as name, pg_get_constraintdef(oid) as text
    from pg_constraint where connamespace = 'business_api'::regnamespace and contype = 'c' and coninhcount = 0 order by 1, 2`
  assert.ok(constraints.length > 10)
  for (const { table, name, text } of constraints) {
    await sql.unsafe(`alter table ${table} drop constraint "${name}", add constraint "${name}" ${text}`)
    const [again] = await sql`
      select pg_get_constraintdef(oid) as text from pg_constraint
      where conrelid = ${table}::regclass and conname = ${name}`
    assert.equal(again?.text, text, `${table}.${name}`)
  }
})

test('every index is the same after a dump and restore', async () => {
  const indexes = await sql<{ name: string; text: string }[]>`
    select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as text
    from pg_index join pg_class on pg_class.oid = indexrelid
    where relnamespace = 'business_api'::regnamespace and not relispartition
      and not exists (select from pg_constraint where conindid = indexrelid)`
  assert.ok(indexes.length > 10)
  for (const { name, text } of indexes) {
    await sql.unsafe(`drop index ${name}; ${text}`)
    const [again] = await sql`select pg_get_indexdef(${name}::regclass) as text`
    assert.equal(again?.text, text, name)
  }
})

test('every generated column and default is the same after a dump and restore', async () => {
  const columns = await sql<{ table: string; name: string; type: string; kind: string; text: string }[]>`
    select
      attrelid::regclass::text as table, attname as name, format_type(atttypid, atttypmod) as type, attgenerated as kind,
      pg_get_expr(adbin, adrelid) as text
    from pg_attribute join pg_attrdef on adrelid = attrelid and adnum = attnum join pg_class on pg_class.oid = attrelid
    where relnamespace = 'business_api'::regnamespace and not relispartition order by 1, 2`
  assert.ok(columns.length > 10)
  for (const { table, name, type, kind, text } of columns) {
    const expression = kind === '' ? `default ${text}` : `generated always as (${text}) stored`
    await sql.unsafe(`alter table ${table} add column again ${type} ${expression}`)
    const [again] = await sql`
      select pg_get_expr(adbin, adrelid) as text from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum
      where adrelid = ${table}::regclass and attname = 'again'`
    assert.equal(again?.text, text, `${table}.${name}`)
    await sql.unsafe(`alter table ${table} drop column again`)
  }
})
