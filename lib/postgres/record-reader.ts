import { businessTable } from '../resources/businesses.ts'
import { CLIENT_ROWS } from './clients.ts'
import type { Database } from './connection/database.ts'
import { represent } from './statements/columns.ts'

/** The kinds of records of an organization, each after the kinds that it refers to. */
export const RECORD_KINDS = [
  'business',
  'client',
  'lead',
  'proposal',
  'invoice',
  'payment',
  'project',
] as const

/** A kind of record. */
export type RecordKind = (typeof RECORD_KINDS)[number]

/** A page of records of one kind, in the order of their ids. */
export interface RecordPage {
  /** A JSON object for each record: `{"kind":"client","record":{…}}`. */
  readonly lines: readonly string[]
  /** The `after` of the next page; null: no record is left. */
  readonly next: string | null
}

/** A kind in SQL. */
interface Source {
  readonly table: string
  /** The JSON text of a record, of a row named `record`. */
  readonly representation: string
  /** Further fields that the API does not show, as pairs of names and JSON values: what an import needs beside the representation. */
  readonly beside?: string
}

const utc = (column: string): string =>
  `pg_catalog.to_char(record.${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const SOURCES: Readonly<Record<RecordKind, Source>> = {
  business: { table: 'business_api.businesses', representation: represent(businessTable, 'record') },
  client: {
    table: CLIENT_ROWS,
    representation: 'record.representation',
  },
  lead: {
    table: 'business_api.leads',
    representation: 'record.representation',
    beside: `'businessId', record.business_id`,
  },
  proposal: {
    table: 'business_api.proposals',
    representation: 'record.representation',
    beside: `'minorUnits', record.minor_units, 'signedBy', record.signed_by, 'signedAt', ${utc('signed_at')}`,
  },
  invoice: {
    table: 'business_api.invoices',
    representation: 'record.representation',
    beside: `'minorUnits', record.minor_units`,
  },
  payment: {
    table: 'business_api.payments',
    representation: `pg_catalog.json_build_object(
      'id', record.id, 'invoiceId', record.invoice_id, 'amount', record.amount::text, 'receivedAt', ${utc('received_at')}
    )::text`,
  },
  project: { table: 'business_api.projects', representation: 'record.representation' },
}

/** Reads the next records of a kind along the primary key, one statement for each page. */
export async function readRecords(
  database: Pick<Database, 'rowFor'>,
  organizationId: string,
  kind: RecordKind,
  after: string | null,
  limit: number,
): Promise<RecordPage> {
  const { table, representation, beside } = SOURCES[kind]
  const more =
    beside === undefined
      ? "'}'"
      : `',' || pg_catalog.substr(pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(${beside}))::text, 2)`
  const [lines, last] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      select coalesce(pg_catalog.json_agg(item.line order by item.id), '[]')::text, max(item.id), ${answerTag}
      from (
        select
          record.id,
          '{"kind":"' || ${kind}::text || '","record":' || ${sql.unsafe(representation)} || ${sql.unsafe(more)} as line
        from (
          select * from ${sql.unsafe(table)} all_records
          where organization_id = ${organizationId}::text and id > ${after ?? ''}::text
          order by id
          limit ${limit}::int
        ) as record
      ) as item`,
  )
  const found = JSON.parse(lines ?? '[]') as string[]
  return { lines: found, next: found.length === limit ? (last ?? null) : null }
}
