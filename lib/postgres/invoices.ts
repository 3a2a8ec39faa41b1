import { columnsOf } from '../resources/columns.ts'
import { type Invoice, type InvoiceStore, invoiceTable, type OverdueRequest } from '../resources/invoices.ts'
import type { Admissions } from './admission/admission.ts'
import type { RecordDatabase } from './connection/database.ts'
import { listInvoices } from './invoice-list.ts'
import { createPayments, INVOICE_REPRESENTATION } from './payments.ts'
import { CHANGED_NOW, defineChange, isAllowed, setOf, writeChange } from './statements/change.ts'
import { afterChange } from './statements/columns.ts'
import { createNumbered, defineNumbered } from './statements/document-numbers.ts'
import { isNotElsewhere } from './statements/here.ts'
import { defineReads, getRecord } from './statements/read.ts'

const COLUMNS = columnsOf(invoiceTable)

const READS = defineReads(invoiceTable)

const CREATE = defineNumbered(invoiceTable)

interface ChangeValues {
  readonly set: string
  readonly isOnlyIfUnpaid: string
  readonly isDated: string
}

const CHANGE = defineChange<ChangeValues>({
  of: invoiceTable,
  state: 'status',
  after: [
    `judged as (
      select
        ${afterChange(COLUMNS)}, before.is_repeat,
        not (@isOnlyIfUnpaid::text::boolean and before.amount_paid > 0) as is_unpaid
      from before
      where ${isAllowed('status')}
    )`,
    `after as (
      select * from judged
      where is_repeat or (is_unpaid and not (@isDated::text::boolean and due_date < issue_date))
    )`,
  ],
  representation: INVOICE_REPRESENTATION,
  reason: "(select case when is_unpaid then 'due_before_issue' else 'paid' end from judged)",
})

/**
 * Creates the PostgreSQL store for invoices. Amounts are computed and rounded in the database, and returned as strings
 * with the currency's decimal places.
 */
export function createInvoiceStore(database: RecordDatabase, admissions: Admissions): InvoiceStore {
  return {
    admitAndList: (request, asked) => admissions.admitToPage(request, READS.list, asked),

    create: (creation) => createNumbered(database, creation, CREATE),

    change(given) {
      const { status, issueDate, dueDate, isOnlyIfUnpaid = false } = given.set
      return writeChange(database, given, CHANGE, {
        set: setOf({ status, issueDate, dueDate }),
        isOnlyIfUnpaid: String(isOnlyIfUnpaid),
        isDated: String(issueDate !== undefined || dueDate !== undefined),
      })
    },

    list: (organizationId, filter, limit, before) =>
      listInvoices(database, READS.record, organizationId, filter, limit, before),

    get: (organizationId, id) => getRecord(database, READS.record, organizationId, id),

    ...createPayments(database),

    markOverdue: (request) => markOverdue(database, request),
  }
}

async function markOverdue(
  database: RecordDatabase,
  { organizationId, asOf, limit, event }: OverdueRequest,
): Promise<readonly Invoice[]> {
  const { type, body, traceparent = null } = event
  const [due, marked] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      with due as (
        select organization_id, id from business_api.invoices
        where status in ('issued', 'partially_paid') and amount_paid < total
          and due_date < coalesce(${asOf}::text::timestamptz, now())
          and ${organizationId === null ? isNotElsewhere(sql, 'invoices') : sql`organization_id = ${organizationId}::text`}
        order by due_date, id
        limit ${limit}::int
        for update skip locked
      ),
      marked as (
        update business_api.invoices invoice
           set status = 'overdue', ${sql.unsafe(CHANGED_NOW)}
          from due
         where invoice.organization_id = ${organizationId === null ? sql`due.organization_id` : sql`${organizationId}::text`}
           and invoice.id = due.id
        returning invoice.*
      ),
      represented as (
        select organization_id, id, due_date, representation, business_api.new_id('evt') as event_id from marked
      ),
      events as (
        select organization_id, pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
          'id', event_id, 'hasNewId', true, 'type', ${type}::text, 'traceparent', ${traceparent}::text, 'subjectId', id,
          'body', business_api.render_template(
            ${body}::text, representation::json, pg_catalog.json_build_object('eventId', event_id)
          )
        ) order by event_id) as events
        from represented
        group by organization_id
      ),
      published as (select business_api.insert_events(organization_id, events) as due from events)
      select
        (select coalesce(sum(due), 0) from published)::text as due,
        (
          select '[' || coalesce(pg_catalog.string_agg(representation, ',' order by due_date, id), '') || ']'
          from represented
        ) as marked,
        ${answerTag}`,
  )
  if (due !== '0') database.wakeUp.signal()
  return JSON.parse(marked ?? '[]') as Invoice[]
}
