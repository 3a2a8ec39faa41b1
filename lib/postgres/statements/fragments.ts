import type { Fragment, ISql as Sql } from 'postgres'

// What several statements say in the same words.

/** A timestamp as the API writes it: ISO 8601 in UTC with milliseconds. */
export function isoTimestamp(sql: Sql, column: string): Fragment {
  return sql`to_char(${sql.unsafe(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}

/** A `text[]`. The driver sends no arrays without having asked for their types first, so a set goes as JSON. */
export function textArray(sql: Sql, texts: readonly string[] | null): Fragment {
  if (texts === null) return sql`null::text[]`
  return sql`array(select pg_catalog.jsonb_array_elements_text(${JSON.stringify(texts)}::text::jsonb))`
}
