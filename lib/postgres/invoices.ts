import { minorUnits } from '../currencies.ts'
import type { InvoiceStore } from '../invoices.ts'
import { admitToPage, newest } from './admission.ts'
import { claim, create, outcomeColumns } from './creation.ts'
import type { Database } from './database.ts'
import { isoTimestamp } from './fragments.ts'

/** Invoices in PostgreSQL. Money is computed and rounded there and leaves as text with the currency's decimals. */
export function createInvoiceStore(database: Database): InvoiceStore {
  return {
    list(request, limit) {
      return admitToPage(
        database,
        request,
        (sql) => sql`
          select
            invoice.id, invoice.number, invoice.status, invoice.currency,
            ${isoTimestamp(sql, 'invoice.issue_date')} as "issueDate",
            ${isoTimestamp(sql, 'invoice.due_date')} as "dueDate",
            round(invoice.total, invoice.minor_units)::text as "total",
            round(invoice.amount_paid, invoice.minor_units)::text as "amountPaid",
            round(invoice.total - invoice.amount_paid, invoice.minor_units)::text as "amountDue"
          from ${newest(sql, 'business_api.invoices')} as invoice
          order by invoice.id desc
          limit ${limit}::int`,
      )
    },

    create(creation) {
      const { organizationId, record } = creation
      return create(
        database,
        creation,
        (sql, mark) => sql`
          with ${claim(sql, creation, record.id)},
          invoice as (
            insert into business_api.invoices
              (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
            select
              ${organizationId}::text, ${record.id}::text, ${record.number}::text, ${record.status}::text,
              ${record.currency}::text, ${minorUnits(record.currency)}::int, ${record.issueDate}::text::timestamptz,
              ${record.dueDate}::text::timestamptz, ${record.total}::text::numeric, ${record.amountPaid}::text::numeric
            from claim
            on conflict (organization_id, id) do nothing
          )
          select ${outcomeColumns(sql)}, ${mark}`,
      )
    },
  }
}
