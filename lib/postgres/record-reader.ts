import { businessTable } from '../resources/businesses.ts'
import { columnsOf, type NamedColumn } from '../resources/columns.ts'
import { RECORD_KINDS, RECORD_TABLES, type RecordKind } from '../resources/records.ts'
import { CLIENT_ROWS } from './clients.ts'
import type { Database } from './connection/database.ts'
import { represent } from './statements/columns.ts'
import { jsonTimestamp } from './statements/fragments.ts'

/** A page of records of one kind, ordered by ID. */
export interface RecordPage {
  /** JSON objects such as `{"kind":"client","record":{…}}`. */
  readonly lines: readonly string[]
  /** The `after` of the next page, or `null` on the last page. */
  readonly next: string | null
}

interface Source {
  readonly rows: string
  /** SQL expression for the JSON string of a row named `record`. */
  readonly json: string
  /** SQL expression for the rest of the line, with fields that an import needs but the API doesn't return. */
  readonly beside: string
}

const SOURCES = Object.fromEntries(RECORD_KINDS.map((kind) => [kind, sourceOf(kind)])) as Record<
  RecordKind,
  Source
>

function sourceOf(kind: RecordKind): Source {
  const table = RECORD_TABLES[kind]
  const rows = kind === 'client' ? CLIENT_ROWS : `business_api.${table.table}`
  // Payments don't appear in any list, so they have no stored representation.
  if (kind === 'payment')
    return { rows, json: `pg_catalog.jsonb_strip_nulls(${jsonOf(columnsOf(table))})::text`, beside: "'}'" }
  const json = kind === 'business' ? represent(businessTable, 'record') : 'record.representation'
  const hidden = columnsOf(table).filter(({ isHidden }) => isHidden)
  if (hidden.length === 0) return { rows, json, beside: "'}'" }
  const beside = `',' || pg_catalog.substr(pg_catalog.jsonb_strip_nulls(${jsonOf(hidden)})::text, 2)`
  return { rows, json, beside }
}

function jsonOf(columns: readonly NamedColumn[]): string {
  const pairs = columns.map(({ field, name, type }) => {
    if (type === 'timestamptz') return `'${field}', (${jsonTimestamp(`record.${name}`)})::jsonb`
    return `'${field}', record.${name}${type === 'numeric' ? '::text' : ''}`
  })
  return `pg_catalog.jsonb_build_object(${pairs.join(', ')})`
}

/** Reads the next page of records of a kind by primary key, in a single statement. */
export async function readRecords(
  database: Pick<Database, 'rowFor'>,
  organizationId: string,
  kind: RecordKind,
  after: string | null,
  limit: number,
): Promise<RecordPage> {
  const { rows, json, beside } = SOURCES[kind]
  const [lines, last] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      select coalesce(pg_catalog.json_agg(item.line order by item.id), '[]')::text, max(item.id), ${answerTag}
      from (
        select
          record.id,
          '{"kind":"' || ${kind}::text || '","record":' || ${sql.unsafe(json)} || ${sql.unsafe(beside)} as line
        from (
          select * from ${sql.unsafe(rows)} all_records
          where organization_id = ${organizationId}::text and id > ${after ?? ''}::text
          order by id
          limit ${limit}::int
        ) as record
      ) as item`,
  )
  const found = JSON.parse(lines ?? '[]') as string[]
  return { lines: found, next: found.length === limit ? (last ?? null) : null }
}
