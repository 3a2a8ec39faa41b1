import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import {
  BASELINE,
  type MigrationTexts,
  readDefinition,
  readMigrationTexts,
} from '../../lib/postgres/schema/migration-texts.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'

// The definition of the database: sql/ has one file per kind of object, and each object is in one place. Migrating from
// version to version results in the same schema as starting with the latest definition.

let databases: TestDatabase[] = []

before(() => {
  databases = []
})

after(() => Promise.all(databases.map((database) => database.drop())))

async function open(): Promise<Sql> {
  const database = await createEmptyDatabase()
  databases.push(database)
  return database.sql({ max: 1 })
}

/** Reads every object of the schema with its definition, its privileges and, for a table, its columns in order. */
async function readObjects(sql: Sql): Promise<Record<string, string>> {
  const rows = await sql<{ name: string; definition: string }[]>`
    select * from (
      select 'table ' || relname as name,
             concat_ws(' ', relkind, relpersistence, relacl, reloptions, relrowsecurity, relforcerowsecurity, pg_get_partkeydef(oid), (
               select string_agg(concat_ws(
                        ' ', attname, format_type(atttypid, atttypmod), attcollation::regcollation, attnotnull, attidentity,
                        attgenerated, pg_get_expr(adbin, adrelid), attacl, attstattarget, attstorage
                      ), ', ' order by attnum)
                 from pg_attribute
                 left join pg_attrdef on adrelid = attrelid and adnum = attnum
                where attrelid = pg_class.oid and attnum > 0 and not attisdropped
             )) as definition
        from pg_class
       where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S') and not relispartition
      union all
      select 'index ' || relname, pg_get_indexdef(oid) from pg_class
       where relnamespace = 'business_api'::regnamespace and relkind in ('i', 'I') and not relispartition
      union all
      select 'constraint ' || conrelid::regclass || ' ' || conname, pg_get_constraintdef(pg_constraint.oid) from pg_constraint
        join pg_class on pg_class.oid = conrelid
       where connamespace = 'business_api'::regnamespace and not relispartition and contype <> 'n'
      union all
      select 'function ' || oid::regprocedure, concat_ws(' ', pg_get_functiondef(oid), proacl) from pg_proc
       where pronamespace = 'business_api'::regnamespace
      union all
      select 'type ' || typname, typtype::text from pg_type
       where typnamespace = 'business_api'::regnamespace and typtype in ('d', 'e', 'r')
      union all
      select 'trigger ' || tgrelid::regclass || ' ' || tgname, pg_get_triggerdef(oid) from pg_trigger
       where not tgisinternal
      union all
      select 'policy ' || polrelid::regclass || ' ' || polname,
             concat_ws(' ', polcmd, polpermissive, polroles, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
        from pg_policy
    ) as object
     where name not in ('table migrations', 'index migrations_pkey') and name not like 'constraint business_api.migrations %'`
  return Object.fromEntries(rows.map(({ name, definition }) => [name, definition]))
}

/** Reads the rows of a new installation and the contents of its day tables. */
async function readContents(sql: Sql): Promise<unknown> {
  const [limits, progress] = [
    await sql`select to_jsonb(l)::text as row from business_api.event_limits l`,
    await sql`select to_jsonb(p)::text as row from business_api.purge_progress p`,
  ]
  const partitions = await sql`
    select inhparent::regclass::text as parent, reloptions, relrowsecurity,
           (select count(*) from pg_index where indrelid = pg_class.oid) as indexes
      from pg_inherits join pg_class on pg_class.oid = inhrelid
     where relkind = 'r' and relnamespace = 'business_api'::regnamespace order by 1, relname`
  const [schema] = await sql`select nspacl from pg_namespace where nspname = 'business_api'`
  return { limits: [...limits], progress: [...progress], partitions: [...partitions], schema }
}

/** Returns the file name of a migration after those of the package. */
function nextName(noun: string): string {
  return `${String(Object.keys(readMigrationTexts()).length + 1).padStart(4, '0')}-${noun}.sql`
}

async function install(sql: Sql, definition: MigrationTexts): Promise<void> {
  await sql`create schema business_api`
  for (const text of Object.values(definition)) await sql.unsafe(text)
}

describe('the definition of the database', () => {
  test('has each object in one place, and no file without an object', async () => {
    const sql = await open()
    await sql`create schema business_api`
    let known: Record<string, string> = {}
    for (const [name, text] of Object.entries(readDefinition())) {
      await sql.unsafe(text)
      const objects = await readObjects(sql)
      const twice = Object.keys(known).filter((object) => objects[object] !== known[object])
      assert.deepEqual(twice, [], `${name} defines or changes an object of an earlier file`)
      const added = Object.keys(objects).filter((object) => known[object] === undefined)
      assert.ok(added.length > 0, `${name} defines nothing`)
      known = objects
    }
  })

  test('has nothing that a later statement in the same file replaces', () => {
    // A function includes its parameters, because an overload doesn't replace anything.
    const names = Object.entries(readDefinition()).flatMap(([file, text]) =>
      [
        ...text.matchAll(
          /^create (or replace )?(?:unique |unlogged )*(?:function|table|index|view|type) (?:business_api\.)?(\w+(?:\([^()]*\))?)/gm,
        ),
      ].map(([, replaces, name]) => {
        assert.equal(replaces, undefined, `${file} replaces ${name}`)
        return String(name)
      }),
    )
    assert.deepEqual(
      names.filter((name, place) => names.indexOf(name) !== place),
      [],
    )
  })
})

describe('the baseline and the migrations', () => {
  test('create the schema of the definition', async () => {
    const [migrated, defined] = [await open(), await open()]
    await migrateFrom(migrated, readMigrationTexts())
    await install(defined, readDefinition())
    assert.deepEqual(await readObjects(migrated), await readObjects(defined))
    assert.deepEqual(await readContents(migrated), await readContents(defined))
  })

  const MIGRATION = `-- Projects have a deadline.
-- Locks: business_api.projects, for an instant.
alter table business_api.projects add column deadline timestamptz;
create function business_api.is_late(deadline timestamptz) returns boolean
language sql stable
as $$ select deadline < now() $$;
revoke execute on function business_api.is_late from public;
`

  /** The definition after a release that adds a column and a function, each edited in its place. */
  function nextDefinition(column: string): MigrationTexts {
    const definition = readDefinition()
    const file = '15-projects.sql'
    const edited = definition[file]?.replace(/(create table [\s\S]*?\) stored,)/, `$1\n  ${column},`)
    assert.notEqual(edited, definition[file])
    return {
      ...definition,
      [file]: edited ?? '',
      '99-lateness.sql': MIGRATION.slice(MIGRATION.indexOf('create function')),
    }
  }

  test('and a made-up next migration create the schema of the edited definition', async () => {
    const [migrated, defined, other] = [await open(), await open(), await open()]
    await migrateFrom(migrated, { ...readMigrationTexts(), [nextName('deadlines')]: MIGRATION })
    await install(defined, nextDefinition('deadline timestamptz'))
    await install(other, nextDefinition('deadline date'))
    assert.deepEqual(await readObjects(migrated), await readObjects(defined))
    assert.notDeepEqual(await readObjects(migrated), await readObjects(other), 'the comparison sees a type')
  })

  test(`start with ${BASELINE}`, () => {
    assert.equal(Object.keys(readMigrationTexts())[0], BASELINE)
  })
})
