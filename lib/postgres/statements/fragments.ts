import type { Fragment, ISql as Sql } from 'postgres'
import type { Statement } from '../connection/pool.ts'

// Expressions that several statements share.

/** Builds a timestamp in the API's format: ISO 8601 in UTC with milliseconds. */
export function isoTimestamp(sql: Sql, column: string): Fragment {
  return sql`to_char(${sql.unsafe(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}

/** Builds a JSON timestamp in the API's format. */
export function jsonTimestamp(value: string): string {
  return `'"' || pg_catalog.to_char(${value} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'`
}

/** Builds a `text[]` from a JSON parameter: the driver could send an array only after a query for the array types. */
export function textArray(sql: Sql, texts: readonly string[] | null): Fragment {
  if (texts === null) return sql`null::text[]`
  return sql`array(select pg_catalog.jsonb_array_elements_text(${JSON.stringify(texts)}::text::jsonb))`
}

/**
 * Writes a limit into the statement's text: with a parameter, a generic plan would estimate a tenth of the table and scan the
 * whole table. The limit is rounded up, so few different statements exist.
 */
export function literalLimit(sql: Sql, limit: number): Fragment {
  let rounded = 64
  while (rounded < limit) rounded *= 4
  return sql.unsafe(String(rounded))
}

/**
 * Makes PostgreSQL plan a statement anew each time. The option is set on the pending query, because postgres.js documents no option
 * for a statement in a template.
 */
export function plannedAnew<Query extends Statement>(statement: Query): Query {
  Object.assign((statement as { options?: object }).options ?? {}, { prepare: false })
  return statement
}
