import { minorUnits } from '../resources/currencies.ts'
import type { Invoice, InvoiceRefusal, InvoiceStore } from '../resources/invoices.ts'
import type { RecordDatabase } from './connection/database.ts'
import { INVOICE_REPRESENTATION, pay } from './payments.ts'
import {
  before,
  changeColumns,
  isAllowed,
  orBefore,
  publishedOf,
  represented,
  reservedFor,
  withThisChange,
  writeChange,
} from './statements/change.ts'
import { beginNumbered, createNumbered, numberedColumns } from './statements/document-numbers.ts'
import { admitToPage, defineList } from './statements/list.ts'

const TABLE = 'business_api.invoices'

const LIST = defineList(TABLE)

/** Creates the slice of invoices in PostgreSQL, which computes and rounds money and returns text with the currency's decimals. */
export function createInvoiceStore(database: RecordDatabase): InvoiceStore {
  return {
    admitAndList: (request, limit) => admitToPage(database, LIST, request, limit),

    create(creation) {
      const { organizationId, record } = creation
      const decimals = record.minorUnits ?? minorUnits(record.currency)
      return createNumbered(
        database,
        creation,
        TABLE,
        (sql, answerTag) => sql`
          with ${beginNumbered(sql, creation, TABLE)},
          invoice as (
            insert into business_api.invoices
              (organization_id, id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid)
            select
              ${organizationId}::text, ${record.id}::text, numbered.number, ${record.status}::text,
              ${record.currency}::text, ${decimals}::int, ${record.issueDate}::text::timestamptz,
              ${record.dueDate}::text::timestamptz, ${record.total}::text::numeric, ${record.amountPaid}::text::numeric
            from numbered
            on conflict (organization_id, id) do nothing
          )
          select ${numberedColumns(sql)}, ${answerTag}`,
      )
    },

    change(given) {
      const { set } = given
      const isOnlyIfUnpaid = String(set.isOnlyIfUnpaid ?? false)
      const isDated = String(set.issueDate !== undefined || set.dueDate !== undefined)
      return writeChange<Invoice, InvoiceRefusal>(
        database,
        given,
        (sql, answerTag) => sql`
          with ${before(sql, given, TABLE)},
          judged as (
            select
              before.organization_id, before.id, before.number, before.currency, before.minor_units, before.total,
              before.amount_paid, before.is_repeat,
              not (${isOnlyIfUnpaid}::text::boolean and before.amount_paid > 0) as is_unpaid,
              ${orBefore(sql, set.status, 'status')},
              ${orBefore(sql, set.issueDate, 'issue_date', 'timestamptz')},
              ${orBefore(sql, set.dueDate, 'due_date', 'timestamptz')}
            from before
            where ${isAllowed(sql, given, 'status')}
          ),
          after as (
            select * from judged
            where is_repeat or (is_unpaid and not (${isDated}::text::boolean and due_date < issue_date))
          ),
          ${represented(sql, INVOICE_REPRESENTATION)},
          ${reservedFor(sql, given)},
          written as (
            update business_api.invoices invoice
               set status = after.status, issue_date = after.issue_date, due_date = after.due_date,
                   ${withThisChange(sql, given)}
              from before, after, reserved
             where invoice.organization_id = after.organization_id and invoice.id = after.id and not before.is_repeat
          ),
          ${publishedOf(sql, given)}
          select
            ${changeColumns(sql, 'status', sql`(select case when is_unpaid then 'due_before_issue' else 'paid' end from judged)`)},
            ${answerTag}`,
      )
    },

    pay: (given) => pay(database, given),

    async markOverdue({ organizationId, asOf, limit, event }) {
      const { type, createdAt, body } = event
      const [due, marked] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with due as (
            select organization_id, id from business_api.invoices
            where status in ('issued', 'partially_paid')
              and due_date < coalesce(${asOf}::text::timestamptz, now())
              ${organizationId === null ? sql`` : sql`and organization_id = ${organizationId}::text`}
            order by due_date, id
            limit ${limit}::int
            for update skip locked
          ),
          marked as (
            update business_api.invoices invoice
               set status = 'overdue'
              from due
             where invoice.organization_id = due.organization_id and invoice.id = due.id
            returning invoice.*
          ),
          represented as (
            select organization_id, id, due_date, representation, business_api.new_id('evt') as event_id from marked
          ),
          events as (
            select organization_id, pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
              'id', event_id, 'type', ${type}::text, 'createdAt', ${createdAt}::text,
              'body', business_api.render_template(
                ${body}::text, representation::json, pg_catalog.json_build_object('eventId', event_id)
              )
            ) order by event_id) as events
            from represented
            group by organization_id
          ),
          published as (select business_api.insert_events(organization_id, events) as due from events)
          select
            (select coalesce(sum(due), 0) from published)::text,
            (
              select '[' || coalesce(pg_catalog.string_agg(representation, ',' order by due_date, id), '') || ']'
              from represented
            ),
            ${answerTag}`,
      )
      if (due !== '0') database.wakeUp.signal()
      return JSON.parse(marked ?? '[]') as Invoice[]
    },
  }
}
