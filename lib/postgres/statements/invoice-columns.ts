import type { Fragment, ISql as Sql } from 'postgres'
import { isoTimestamp } from './fragments.ts'

/** An invoice as the API shows it, of a row named `invoice`. */
export function invoiceColumns(sql: Sql): Fragment {
  return sql`
    invoice.id, invoice.number, invoice.status, invoice.currency,
    ${isoTimestamp(sql, 'invoice.issue_date')} as "issueDate",
    ${isoTimestamp(sql, 'invoice.due_date')} as "dueDate",
    round(invoice.total, invoice.minor_units)::text as "total",
    round(invoice.amount_paid, invoice.minor_units)::text as "amountPaid",
    round(invoice.total - invoice.amount_paid, invoice.minor_units)::text as "amountDue"`
}
