import type { Fragment, ISql as Sql } from 'postgres'
import type { RecordTable } from '../../resources/columns.ts'
import type { ListedReads } from '../../resources/record-reads.ts'
import type { Admissions } from '../admission/admission.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { jsonTimestamp, literalLimit, textArray } from './fragments.ts'
import { defineList, type ListStatements } from './list.ts'
import { askJson, jsonFor } from './statement.ts'

// Record reads for the host's code. Each list scans a single index, or one index range per filter value, so the cost
// depends on the number of listed records and not on the size of the table.

/** The source of one kind of record. */
export interface RecordRows {
  /** A table, or a subquery with the same columns. */
  readonly rows: string
  /** SQL expression for the JSON string of a row named `record`. */
  readonly representation: string
}

/** The statements that read one kind of record. */
export interface RecordStatements {
  readonly list: ListStatements
  readonly record: RecordRows
}

/**
 * Builds the statements that read one kind of record.
 *
 * @param rows the records, with the columns that all record tables have. Defaults to the table's rows
 * @param representation what the host gets, without `updatedAt`. Defaults to what the API returns
 */
export function defineReads(
  { table: name }: RecordTable,
  { rows, representation = 'record.representation' }: Partial<RecordRows> = {},
): RecordStatements {
  const table = `business_api.${name}`
  return {
    list: defineList(table, rows),
    record: { rows: rows ?? table, representation: withUpdatedAt(representation) },
  }
}

/** A filter's conditions. */
export interface Wanted {
  /** The state column and its accepted values. If `values` isn't set, all states are accepted. */
  readonly states: { readonly column: 'status' | 'stage'; readonly values: readonly string[] | undefined }
  /** A value in a unique index, which matches at most one record. */
  readonly unique?: { readonly column: Unique['column']; readonly value: string | undefined }
  /** The business that the records belong to. */
  readonly businessId?: string | undefined
}

/** Creates a resource's read methods. */
export function readSlice<Shown, Stored, Filter>(
  database: RecordDatabase,
  admissions: Admissions,
  { list, record }: RecordStatements,
  wants: (filter: Filter) => Wanted,
): ListedReads<Shown, Stored, Filter> {
  return {
    admitAndList: (request, asked) => admissions.admitToPage(request, list, asked),
    list: (organizationId, filter, limit, before) =>
      listRecords(database, record, organizationId, (sql) => ({
        limit,
        before,
        ...selectionOf(sql, wants(filter)),
      })),
    get: (organizationId, id) => getRecord(database, record, organizationId, id),
  }
}

function selectionOf(
  sql: Sql,
  { states, unique, businessId }: Wanted,
): Pick<Selection, 'ranges' | 'unique' | 'conditions'> {
  const { column, values } = states
  const conditions = isOneOf(sql, column, values)
  if (unique?.value !== undefined) {
    return { unique: { column: unique.column, value: unique.value }, conditions }
  }
  if (businessId !== undefined) return { ranges: { column: 'business_id', values: [businessId] }, conditions }
  return { ranges: values && { column, values } }
}

/** A list of records, latest first. */
export interface Selection {
  readonly organizationId: string
  readonly limit: number
  /** ID of the previous page's last record, or `null` for the first page. */
  readonly before: string | null
  /** Ranges of an index `(organization_id, column, id)` to scan. If not set, the primary key is scanned. */
  readonly ranges?: Ranges | undefined
  /** A value in a unique index `(organization_id, column)` to look up instead of scanning ranges. */
  readonly unique?: Unique | undefined
  /** Additional conditions on `record`, starting with `and`. */
  readonly conditions?: Fragment | undefined
}

/** Index ranges, one per value. */
interface Ranges {
  readonly column: 'status' | 'stage' | 'business_id'
  readonly values: readonly string[]
}

/** A value in a unique index. */
interface Unique {
  readonly column: 'number' | 'business_id'
  readonly value: string
}

/** Adds `updatedAt` to a representation, for kinds that clients can sync. */
function withUpdatedAt(representation: string): string {
  return `pg_catalog.left(${representation}, -1) || ',"updatedAt":' || ${jsonTimestamp('record.updated_at')} || '}'`
}

/** Returns a record, or `null` if the organization has no record with this ID. */
export function getRecord<Stored>(
  database: RecordDatabase,
  { rows, representation }: RecordRows,
  organizationId: string,
  id: string,
): Promise<Stored | null> {
  return jsonFor(
    database,
    organizationId,
    (sql) => sql`(
      select ${sql.unsafe(representation)} from ${sql.unsafe(rows)} record
      where record.organization_id = ${organizationId}::text and record.id = ${id}::text
    )`,
  )
}

/** Lists records. */
export function listRecords<Stored>(
  database: RecordDatabase,
  kind: RecordRows,
  organizationId: string,
  select: (sql: Sql) => Omit<Selection, 'organizationId'>,
): Promise<readonly Stored[]> {
  return listRows(database, kind, organizationId, (sql) => {
    const selection = { ...select(sql), organizationId }
    return { rows: selectRows(sql, kind, selection), order: sql`record.id desc`, limit: selection.limit }
  })
}

/** Lists the rows of a query named `record`, which may exceed the limit, in the given order. */
export function listRows<Stored>(
  database: RecordDatabase,
  { representation }: Pick<RecordRows, 'representation'>,
  organizationId: string,
  select: (sql: Sql) => { readonly rows: Fragment; readonly order: Fragment; readonly limit: number },
): Promise<readonly Stored[]> {
  return askJson(database, organizationId, (sql, answerTag) => {
    const { rows, order, limit } = select(sql)
    return sql`
      select '[' || coalesce(pg_catalog.string_agg(listed.representation, ','), '') || ']', ${answerTag}
      from (
        select ${sql.unsafe(representation)} as representation
        from (${rows}) as record
        order by ${order}
        limit (select ${limit}::int)
      ) as listed`
  })
}

/** Combines the queries for several ranges. */
export function unionAll(
  sql: Sql,
  { rows }: RecordRows,
  organizationId: string,
  parts: readonly Fragment[],
): Fragment {
  const [first, ...more] = parts
  if (first === undefined) {
    return sql`select * from ${sql.unsafe(rows)} record where organization_id = ${organizationId}::text and false`
  }
  return more.reduce((all, part) => sql`${all} union all (${part})`, sql`(${first})`)
}

function selectRows(sql: Sql, kind: RecordRows, selection: Selection): Fragment {
  const { organizationId, limit, before, ranges, unique, conditions = sql`` } = selection
  const rows = sql.unsafe(kind.rows)
  if (ranges !== undefined) {
    const { column, values } = ranges
    const range = sql.unsafe(`record.${column}`)
    const parts = [...new Set(values)].map(
      (value) => sql`
        select record.* from ${rows} record
        where record.organization_id = ${organizationId}::text ${atValue(sql, range, value)} ${conditions}
          ${before === null ? sql`` : sql`and (${range}, record.id) < (${value}::text, ${before}::text)`}
        order by ${range} desc, record.id desc
        limit ${literalLimit(sql, limit)}`,
    )
    return unionAll(sql, kind, organizationId, parts)
  }
  const afterPage = before === null ? sql`` : sql`and record.id < ${before}::text`
  if (unique !== undefined) {
    // Sorting by this column makes PostgreSQL use its index. Without statistics, it might search the primary key
    // instead.
    const column = sql.unsafe(`record.${unique.column}`)
    return sql`
      select record.* from ${rows} record
      where record.organization_id = ${organizationId}::text ${atValue(sql, column, unique.value)} ${conditions} ${afterPage}
      order by ${column}
      limit 1`
  }
  return sql`
    select record.* from ${rows} record
    where record.organization_id = ${organizationId}::text ${conditions} ${afterPage}
    order by record.id desc
    limit ${literalLimit(sql, limit)}`
}

/**
 * Builds the condition that a column has a value, expressed as a range. With an equality, PostgreSQL may treat the
 * column as constant, scan the primary key and filter by value, which reads the whole table if the value is rarer than
 * the statistics say.
 */
export function atValue(sql: Sql, column: Fragment, value: string): Fragment {
  return sql`and ${column} >= ${value}::text and ${column} <= ${value}::text`
}

/** Builds the condition that a column has one of several values, if any, next to another column's range. */
export function isOneOf(
  sql: Sql,
  column: 'status' | 'stage',
  values: readonly string[] | undefined,
): Fragment {
  if (values === undefined) return sql``
  return sql`and ${sql.unsafe(`record.${column}`)} = any (${textArray(sql, values)})`
}
