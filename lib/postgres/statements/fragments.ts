import type { Fragment, ISql as Sql } from 'postgres'
import type { Statement } from '../connection/pool.ts'

// Expressions used in several statements.

/** Builds a timestamp in the API's format, i.e. ISO 8601 in UTC with milliseconds. */
export function isoTimestamp(sql: Sql, column: string): Fragment {
  return sql`to_char(${sql.unsafe(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}

/** Builds a JSON string with a timestamp in the API's format. */
export function jsonTimestamp(value: string): string {
  return `'"' || pg_catalog.to_char(${value} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'`
}

/** Builds a `text[]` from a JSON parameter. The driver can't send arrays without first querying the array types. */
export function textArray(sql: Sql, texts: readonly string[] | null): Fragment {
  if (texts === null) return sql`null::text[]`
  return sql`array(select pg_catalog.jsonb_array_elements_text(${JSON.stringify(texts)}::text::jsonb))`
}

/**
 * Inlines a limit into the statement. With a parameter, a generic plan would assume a tenth of the table and scan all
 * of it. Rounding up keeps the number of different statements small.
 */
export function literalLimit(sql: Sql, limit: number): Fragment {
  let rounded = 64
  while (rounded < limit) rounded *= 4
  return sql.unsafe(String(rounded))
}

/** Makes PostgreSQL plan a statement every time. postgres.js has no documented option for this. */
export function plannedAnew<Query extends Statement>(statement: Query): Query {
  Object.assign((statement as { options?: object }).options ?? {}, { prepare: false })
  return statement
}
