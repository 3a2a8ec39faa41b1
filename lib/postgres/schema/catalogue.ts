import { createHash } from 'node:crypto'
import type { Fragment, ISql as Sql } from 'postgres'
import type { Database } from '../connection/database.ts'

/** Schema objects by name, such as `column clients.status`, with digests of their definitions. */
export type Catalogue = Readonly<Record<string, string>>

/** Differences between the actual schema and the one the migrations create, as sorted object names. */
export interface SchemaDrift {
  readonly missing: readonly string[]
  readonly changed: readonly string[]
  /** Objects that no migration creates. */
  readonly added: readonly string[]
}

/**
 * Reads the tables, columns, constraints, indexes, triggers, functions, views and types in the schema. Excludes what
 * operators may change (storage parameters, owners and privileges), and partitions, which come and go all the time.
 */
export async function readCatalogue(database: Database): Promise<Catalogue> {
  const [objects] = await database.row(
    (sql, mark) => sql`
      with path as materialized (
        -- With an empty search path every definition names the schema of each object.
        select set_config('search_path', '', true) as setting
      ), object as (
        ${tables(sql)} union all ${columns(sql)} union all ${constraints(sql)} union all ${indexes(sql)}
        union all ${triggers(sql)} union all ${functions(sql)} union all ${types(sql)}
      )
      select coalesce(json_agg(json_build_array(name, definition) order by name collate "C"), '[]')::text, ${mark}
      from object`,
  )
  const entries = JSON.parse(objects ?? '[]') as [name: string, definition: string][]
  return Object.fromEntries(entries.map(([name, definition]) => [name, digest(definition)]))
}

/** Compares the actual schema with the expected one. */
export function compareCatalogues(actual: Catalogue, expected: Catalogue): SchemaDrift {
  const names = Object.keys(expected)
  return {
    missing: names.filter((name) => actual[name] === undefined),
    changed: names.filter((name) => actual[name] !== undefined && actual[name] !== expected[name]),
    added: Object.keys(actual).filter((name) => expected[name] === undefined),
  }
}

/** Parses a fingerprint. A line starts with the prefix shared by its objects, as in `column migrations.|id=0415`. */
export function parseCatalogue(text: string): Catalogue {
  const entries = text
    .trim()
    .split('\n')
    .map((line) => line.split('|'))
    .flatMap(([shared = '', ...objects]) => objects.map((object) => (shared + object).split('=')))
  return Object.fromEntries(entries)
}

function digest(definition: string): string {
  return createHash('sha256').update(definition).digest('hex').slice(0, 12)
}

// --- Kinds of objects ---

/**
 * Builds the OID argument of a function that describes an object. The description depends on the search path, but the
 * planner may evaluate steps in any order. The OID depends on the setting, so the setting always comes first.
 */
function described(sql: Sql, oid: string): Fragment {
  return sql`(select case when path.setting = '' then ${sql.unsafe(oid)} end from path)`
}

const SCHEMA = `pg_catalog.to_regnamespace('business_api')`

function tables(sql: Sql): Fragment {
  return sql`
    select
      case when relkind in ('v', 'm') then 'view ' when relkind = 'S' then 'sequence ' when relkind = 'c' then 'type ' else 'table ' end || relname as name,
      pg_catalog.concat_ws(
        ' ', relkind, relpersistence, relrowsecurity,
        pg_catalog.pg_get_partkeydef(${described(sql, 'pg_class.oid')}),
        case when relkind in ('v', 'm') then pg_catalog.pg_get_viewdef(${described(sql, 'pg_class.oid')}) end
      ) as definition
    from pg_catalog.pg_class
    where relnamespace = ${sql.unsafe(SCHEMA)} and relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'c') and not relispartition`
}

function columns(sql: Sql): Fragment {
  return sql`
    select
      'column ' || relname || '.' || attname,
      pg_catalog.concat_ws(
        ' ', pg_catalog.format_type(${described(sql, 'atttypid')}, atttypmod),
        (select collname from pg_catalog.pg_collation where oid = attcollation and attcollation <> typcollation),
        attnotnull, attidentity, attgenerated, pg_catalog.pg_get_expr(adbin, ${described(sql, 'adrelid')})
      )
    from pg_catalog.pg_attribute
    join pg_catalog.pg_class on pg_class.oid = attrelid
    join pg_catalog.pg_type on pg_type.oid = atttypid
    left join pg_catalog.pg_attrdef on adrelid = attrelid and adnum = attnum
    where relnamespace = ${sql.unsafe(SCHEMA)} and relkind in ('r', 'p', 'c') and not relispartition
      and attnum > 0 and not attisdropped`
}

/** Excludes PostgreSQL 18's named not-null constraints, since column definitions already include NOT NULL. */
function constraints(sql: Sql): Fragment {
  return sql`
    select
      'constraint ' || relname || '.' || conname,
      pg_catalog.pg_get_constraintdef(${described(sql, 'pg_constraint.oid')})
    from pg_catalog.pg_constraint
    join pg_catalog.pg_class on pg_class.oid = conrelid
    where relnamespace = ${sql.unsafe(SCHEMA)} and not relispartition and contype in ('p', 'u', 'f', 'c', 'x')`
}

function indexes(sql: Sql): Fragment {
  return sql`
    select
      'index ' || relname,
      pg_catalog.concat_ws(' ', pg_catalog.pg_get_indexdef(${described(sql, 'indexrelid')}), indisvalid)
    from pg_catalog.pg_index
    join pg_catalog.pg_class on pg_class.oid = indexrelid
    where relnamespace = ${sql.unsafe(SCHEMA)} and not relispartition
      and not exists (
        select 1 from pg_catalog.pg_constraint where conindid = indexrelid and contype in ('p', 'u', 'x')
      )`
}

function triggers(sql: Sql): Fragment {
  return sql`
    select
      'trigger ' || relname || '.' || tgname,
      pg_catalog.concat_ws(' ', pg_catalog.pg_get_triggerdef(${described(sql, 'pg_trigger.oid')}), tgenabled)
    from pg_catalog.pg_trigger
    join pg_catalog.pg_class on pg_class.oid = tgrelid
    where relnamespace = ${sql.unsafe(SCHEMA)} and not relispartition and not tgisinternal`
}

function functions(sql: Sql): Fragment {
  return sql`
    select
      'function ' || proname || '(' || pg_catalog.pg_get_function_identity_arguments(${described(sql, 'pg_proc.oid')}) || ')',
      pg_catalog.concat_ws(
        ' ', lanname, prokind, provolatile, prosecdef, proisstrict, proretset, proconfig,
        pg_catalog.pg_get_function_arguments(${described(sql, 'pg_proc.oid')}),
        pg_catalog.pg_get_function_result(${described(sql, 'pg_proc.oid')}), prosrc
      )
    from pg_catalog.pg_proc
    join pg_catalog.pg_language on pg_language.oid = prolang
    where pronamespace = ${sql.unsafe(SCHEMA)}`
}

function types(sql: Sql): Fragment {
  return sql`
    select
      'type ' || typname,
      pg_catalog.concat_ws(
        ' ', typtype, pg_catalog.format_type(${described(sql, 'typbasetype')}, typtypmod),
        (
          select pg_catalog.string_agg(enumlabel, ',' order by enumsortorder)
          from pg_catalog.pg_enum where enumtypid = pg_type.oid
        )
      )
    from pg_catalog.pg_type
    where typnamespace = ${sql.unsafe(SCHEMA)} and typtype in ('d', 'e', 'r')`
}
