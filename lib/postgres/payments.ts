import { columnsOf } from '../resources/columns.ts'
import { type InvoiceStore, invoiceTable, type Payment } from '../resources/invoices.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, writeChange } from './statements/change.ts'
import { namesOf, represent } from './statements/columns.ts'
import { jsonTimestamp, literalLimit } from './statements/fragments.ts'
import { eventsOf } from './statements/key-reservation.ts'
import { atValue } from './statements/read.ts'
import { jsonFor } from './statements/statement.ts'

/** An invoice's representation after a change. */
export const INVOICE_REPRESENTATION: string = represent(invoiceTable, 'after', {
  minor_units: 'after.minor_units',
})

interface PaymentValues {
  readonly paymentId: string
  readonly amount: string
  readonly receivedAt: string
  /** The reversed payment's ID and the audit entry as JSON. `null` unless this is a reversal. */
  readonly reversedId: string | null
  readonly entry: string | null
  readonly settledStatus: string
  /** JSON object with the status after a payment that leaves a balance, by previous status. */
  readonly unsettledStatus: string
  readonly settledEvents: string
}

/** Invoice columns that a payment doesn't affect. */
const KEPT = columnsOf(invoiceTable).filter(({ name }) => name !== 'status' && name !== 'amount_paid')

const PAY = defineChange<PaymentValues>({
  of: invoiceTable,
  state: 'status',
  after: [
    // The reversed payment is locked after the invoice, so we see the effect of the invoice's latest change.
    `judged as (
      select
        before.*, coalesce(-reversed.amount, @amount::text::numeric) as amount,
        coalesce(stored.received_at, @receivedAt::text::timestamptz) as received_at,
        before.is_repeat or case
          when @reversedId::text is null then stored.id is not null
          else coalesce(reversed.reversed_by = @paymentId::text, false)
        end as is_there,
        ${isAllowed('status')} as is_allowed,
        case
          when @reversedId::text is null then null
          when reversed.amount is null then 'no_payment'
          when reversed.amount < 0 or reversed.reversed_by is not null then 'reversed'
          when stored.id is not null then 'id_taken'
        end as obstacle
      from before
      left join business_api.payments stored
        on stored.organization_id = @organizationId::text and stored.id = @paymentId::text
      left join lateral (
        select amount, reversed_by from business_api.payments
        where organization_id = @organizationId::text and id = @reversedId::text and invoice_id = before.id
        for update
      ) as reversed on true
    )`,
    `after as (
      select
        ${namesOf(KEPT)}, is_there, amount, received_at,
        case when is_there then amount_paid else amount_paid + amount end as amount_paid,
        case
          when is_there then status
          when amount_paid + amount = total then @settledStatus::text
          else coalesce(
            case when due_date < now() then @unsettledStatus::text::jsonb ->> (status || ' past due') end,
            case when amount_paid + amount = 0 then @unsettledStatus::text::jsonb ->> (status || ' unpaid') end,
            @unsettledStatus::text::jsonb ->> status,
            status
          )
        end as status
      from judged
      where is_there
        or (is_allowed and obstacle is null and amount = pg_catalog.round(amount, minor_units) and amount_paid + amount <= total)
    )`,
  ],
  representation: `
    '{"invoice":' || ${INVOICE_REPRESENTATION} || ',"payment":' || ${paymentRepresentation({
      id: '@paymentId::text',
      amount: 'pg_catalog.round(after.amount, after.minor_units)',
      receivedAt: 'after.received_at',
    })} || '}'`,
  set: 'status = after.status, amount_paid = after.amount_paid',
  isDone: 'after.is_there',
  alongside: [
    `added as (
      insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
      select @organizationId::text, @paymentId::text, @recordId::text, after.amount, after.received_at
      from after, reserved
      where not after.is_there
    )`,
    `reversed as (
      update business_api.payments record set reversed_by = @paymentId::text
      from after, reserved
      where record.organization_id = @organizationId::text and record.id = @reversedId::text and not after.is_there
    )`,
    `audited as (
      insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
      select
        @organizationId::text, entry ->> 'id', pg_catalog.clock_timestamp(), entry ->> 'actor', entry ->> 'action',
        entry ->> 'subjectId', entry -> 'details'
      from after, reserved, (select @entry::text::jsonb as entry) as given
      where not after.is_there and entry is not null
    )`,
  ],
  // If the payment already exists, so do its events, with different IDs if it didn't settle the invoice at the time.
  events: `
    case
      when after.is_there then '[]'
      when after.amount_paid = after.total then @events::text::jsonb || @settledEvents::text::jsonb
      else @events::text::jsonb
    end`,
  facts: `(
    (represented.representation::jsonb -> 'invoice')
    || pg_catalog.jsonb_build_object('amount', pg_catalog.round(after.amount, after.minor_units)::text)
  )::json`,
  reason: `(
    select case
      when not is_allowed then 'state'
      when obstacle is not null then obstacle
      when amount <> pg_catalog.round(amount, minor_units) then 'too_fine'
      else 'overpaid'
    end from judged
  )`,
})

/** Creates the payment methods of a PostgreSQL store. */
export function createPayments(database: RecordDatabase): Pick<InvoiceStore, 'pay' | 'listPayments'> {
  return {
    // Uses numeric throughout. This is a no-op if the payment already exists because an earlier attempt's result was lost.
    // If the earlier attempt commits only now, this one violates the payment's key and is retried.
    pay(given) {
      const { payment, settledStatus, unsettledStatus, settledEvents, reverses } = given.set
      return writeChange(database, given, PAY, {
        paymentId: payment.id,
        amount: payment.amount,
        receivedAt: payment.receivedAt,
        reversedId: reverses?.paymentId ?? null,
        entry: reverses ? JSON.stringify(reverses.entry) : null,
        settledStatus,
        unsettledStatus: JSON.stringify(unsettledStatus),
        settledEvents: eventsOf(settledEvents),
      })
    },

    listPayments(organizationId, invoiceId, limit, before) {
      return jsonFor(database, organizationId, (sql) => {
        const page = sql`
          select payment.* from business_api.payments payment
          where payment.organization_id = ${organizationId}::text ${atValue(sql, sql`payment.invoice_id`, invoiceId)}
            ${before === null ? sql`` : sql`and (payment.invoice_id, payment.id) < (${invoiceId}::text, ${before}::text)`}
          order by payment.invoice_id desc, payment.id desc
          limit ${literalLimit(sql, limit)}`
        const representation = paymentRepresentation({
          id: 'payment.id',
          amount: 'pg_catalog.round(payment.amount, invoice.minor_units)',
          receivedAt: 'payment.received_at',
          reversedBy: 'payment.reversed_by',
        })
        return sql`(
          select (
            select '[' || coalesce(pg_catalog.string_agg(listed.representation, ','), '') || ']'
            from (
              select ${sql.unsafe(representation)} as representation from (${page}) as payment
              order by payment.id desc
              limit (select ${limit}::int)
            ) as listed
          )
          from business_api.invoices invoice
          where invoice.organization_id = ${organizationId}::text and invoice.id = ${invoiceId}::text
        )`
      })
    },
  }
}

function paymentRepresentation({ id, amount, receivedAt, reversedBy = 'null::text' }: Payment): string {
  return `(
    '{"id":' || pg_catalog.to_json(${id})::text || ',"amount":"' || ${amount}::text
    || '","receivedAt":' || ${jsonTimestamp(receivedAt)}
    || coalesce(',"reversedBy":' || pg_catalog.to_json(${reversedBy})::text, '') || '}'
  )`
}
