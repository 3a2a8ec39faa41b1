import type { Sql } from 'postgres'
import { TABLES } from '../../lib/postgres/schema/distribution.ts'
import type { Facts } from './_distributed-forms.ts'

/** Reads the facts for the search of forms from a migrated database. */
export async function readFacts(sql: Sql): Promise<Facts> {
  const tables = await sql.unsafe<{ name: string; is_everywhere: boolean }[]>(TABLES)
  const functions = await sql<{ name: string }[]>`
    select distinct proname as name from pg_proc
    where provolatile <> 'i' and pronamespace in ('pg_catalog'::regnamespace, 'business_api'::regnamespace)`
  return {
    tables: new Set(tables.filter(({ is_everywhere }) => !is_everywhere).map(({ name }) => name)),
    sessionFunctions: new Set(functions.map(({ name }) => name)),
  }
}
