import type { Fragment, ISql as Sql } from 'postgres'
import type { Invoice, Settlement } from '../resources/invoices.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { RecordDatabase } from './connection/database.ts'
import {
  before,
  changeColumns,
  isAllowed,
  publishedOf,
  represented,
  reservedFor,
  withThisChange,
  writeChange,
} from './statements/change.ts'
import { jsonOf } from './statements/key-reservation.ts'

/** An SQL expression for the representation of an invoice after a change. */
export const INVOICE_REPRESENTATION = `business_api.invoice_representation(
  after.id, after.number, after.status, after.currency, after.minor_units, after.issue_date, after.due_date,
  after.total, after.amount_paid
)`

/**
 * Adds a payment to an invoice, with all arithmetic in numeric. A payment that an earlier try already wrote, with an answer that
 * was lost, changes nothing. If the earlier try commits while this statement runs, the primary key of payments is violated, and
 * the statement is sent once more.
 */
export function pay(
  database: RecordDatabase,
  given: Change<Settlement>,
): Promise<ChangeOutcome<Invoice, 'too_fine' | 'overpaid'>> {
  const { organizationId, recordId, set } = given
  const { payment } = set
  return writeChange(
    database,
    given,
    (sql, answerTag) => sql`
      with ${before(sql, given, 'business_api.invoices')},
      judged as (
        select
          before.*, ${payment.amount}::text::numeric as amount,
          before.is_repeat or exists (
            select 1 from business_api.payments
            where organization_id = ${organizationId}::text and id = ${payment.id}::text
          ) as is_there,
          ${isAllowed(sql, given, 'status')} as is_allowed
        from before
      ),
      after as (
        select
          organization_id, id, number, currency, minor_units, issue_date, due_date, total, is_there, amount,
          case when is_there then amount_paid else amount_paid + amount end as amount_paid,
          case
            when is_there then status
            when amount_paid + amount = total then ${set.settledStatus}::text
            else coalesce(${jsonOf(sql, set.unsettledStatus)} ->> status, status)
          end as status
        from judged
        where is_there or (is_allowed and amount = round(amount, minor_units) and amount_paid + amount <= total)
      ),
      ${represented(sql, INVOICE_REPRESENTATION)},
      ${reservedFor(sql, given)},
      written as (
        update business_api.invoices invoice
           set status = after.status, amount_paid = after.amount_paid, ${withThisChange(sql, given)}
          from before, after, reserved
         where invoice.organization_id = after.organization_id and invoice.id = after.id and not after.is_there
      ),
      payment as (
        insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
        select
          ${organizationId}::text, ${payment.id}::text, ${recordId}::text, after.amount,
          ${payment.receivedAt}::text::timestamptz
        from after, reserved
        where not after.is_there
      ),
      ${publishedOf(sql, given, { chosen: eventsOf(sql, given), facts: paymentFacts(sql) })}
      select ${changeColumns(sql, 'status', reasonOf(sql))}, ${answerTag}`,
  )
}

/**
 * Chooses the events of a payment. A payment that is already stored gets none: its events are stored too, and if a later
 * payment has settled the invoice, the settled events belong to the later payment.
 */
function eventsOf(sql: Sql, { set, events }: Change<Settlement>): Fragment {
  return sql`
    case
      when after.is_there then '[]'
      when after.amount_paid = after.total then ${jsonOf(sql, [...events, ...set.settledEvents])}
      else ${jsonOf(sql, events)}
    end`
}

function paymentFacts(sql: Sql): Fragment {
  return sql`json_build_object('amount', round(after.amount, after.minor_units)::text)`
}

function reasonOf(sql: Sql): Fragment {
  return sql`(
    select case
      when not is_allowed then 'state'
      when amount <> round(amount, minor_units) then 'too_fine'
      else 'overpaid'
    end from judged
  )`
}
