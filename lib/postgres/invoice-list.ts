import type { Fragment, ISql as Sql } from 'postgres'
import { DUE_STATUSES, type InvoiceFilter, type StoredInvoice } from '../resources/invoices.ts'
import type { RecordDatabase } from './connection/database.ts'
import { literalLimit } from './statements/fragments.ts'
import { atValue, isOneOf, listRecords, listRows, type RecordRows, unionAll } from './statements/read.ts'

/** Lists invoices by ID or due date, latest first. */
export function listInvoices(
  database: RecordDatabase,
  kind: RecordRows,
  organizationId: string,
  filter: InvoiceFilter,
  limit: number,
  before: string | null,
): Promise<readonly StoredInvoice[]> {
  const { statuses, number, dueAfter, dueBefore } = filter
  if (number !== undefined) {
    return listRecords(database, kind, organizationId, (sql) => ({
      limit,
      before,
      unique: { column: 'number', value: number },
      conditions: sql`${isOneOf(sql, 'status', statuses)} ${isDue(sql, filter)}`,
    }))
  }
  if (dueAfter === undefined && dueBefore === undefined) {
    const ranges = statuses && ({ column: 'status', values: statuses } as const)
    return listRecords(database, kind, organizationId, () => ({ limit, before, ranges }))
  }
  return listRows(database, kind, organizationId, (sql) => {
    const wanted = DUE_STATUSES.filter((status) => statuses === undefined || statuses.includes(status))
    const parts = wanted.map((status) => dueRange(sql, { organizationId, status, filter, limit, before }))
    return {
      rows: unionAll(sql, kind, organizationId, parts),
      order: sql`record.due_date desc, record.id desc`,
      limit,
    }
  })
}

/** Must match the partial index's condition exactly. With a parameter, PostgreSQL couldn't use the index. */
const INDEXED = "record.status in ('issued', 'partially_paid', 'overdue')"

function isDue(sql: Sql, { dueAfter, dueBefore }: InvoiceFilter): Fragment {
  if (dueAfter === undefined && dueBefore === undefined) return sql``
  return sql`
    and ${sql.unsafe(INDEXED)}
    ${dueAfter === undefined ? sql`` : sql`and record.due_date >= ${dueAfter}::text::timestamptz`}
    ${dueBefore === undefined ? sql`` : sql`and record.due_date < ${dueBefore}::text::timestamptz`}`
}

interface DueRange {
  readonly organizationId: string
  readonly status: string
  readonly filter: InvoiceFilter
  readonly limit: number
  readonly before: string | null
}

/**
 * Scans the due dates of one status. A page can start after an ID because an open invoice's due date never changes. The
 * bounds are rows of the index's columns, because the scan wouldn't stop at anything else.
 */
function dueRange(sql: Sql, { organizationId, status, filter, limit, before }: DueRange): Fragment {
  const { dueAfter, dueBefore } = filter
  const from =
    dueAfter === undefined
      ? sql``
      : sql`and (record.status, record.due_date) >= (${status}::text, ${dueAfter}::text::timestamptz)`
  const to =
    dueBefore === undefined
      ? sql``
      : sql`and (record.status, record.due_date) < (${status}::text, ${dueBefore}::text::timestamptz)`
  const afterPage =
    before === null
      ? sql``
      : sql`
        and (record.status, record.due_date, record.id) < (
          ${status}::text,
          (
            select last.due_date from business_api.invoices last
            where last.organization_id = ${organizationId}::text and last.id = ${before}::text
          ),
          ${before}::text
        )`
  return sql`
    select record.* from business_api.invoices record
    where record.organization_id = ${organizationId}::text and ${sql.unsafe(INDEXED)}
      ${atValue(sql, sql`record.status`, status)} ${from} ${before === null ? to : isDue(sql, filter)} ${afterPage}
    order by record.status desc, record.due_date desc, record.id desc
    limit ${literalLimit(sql, limit)}`
}
