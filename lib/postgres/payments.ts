import { columnsOf } from '../resources/columns.ts'
import { invoiceTable, type PaidInvoice, type Payment, type Settlement } from '../resources/invoices.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, writeChange } from './statements/change.ts'
import { namesOf, represent } from './statements/columns.ts'
import { jsonTimestamp, literalLimit } from './statements/fragments.ts'
import { eventsOf } from './statements/key-reservation.ts'
import { atValue } from './statements/read.ts'

/** The representation of an invoice after a change. */
export const INVOICE_REPRESENTATION: string = represent(invoiceTable, 'after', {
  minor_units: 'after.minor_units',
})

interface PaymentValues {
  readonly paymentId: string
  readonly amount: string
  readonly receivedAt: string
  readonly settledStatus: string
  /** The status after a payment that leaves something due, by the status before, as JSON. */
  readonly unsettledStatus: string
  readonly settledEvents: string
}

/** The columns of an invoice that a payment leaves as they are. */
const KEPT = columnsOf(invoiceTable).filter(({ name }) => name !== 'status' && name !== 'amount_paid')

const PAY = defineChange<PaymentValues>({
  of: invoiceTable,
  state: 'status',
  after: [
    `judged as (
      select
        before.*, @amount::text::numeric as amount,
        before.is_repeat or exists (
          select 1 from business_api.payments
          where organization_id = @organizationId::text and id = @paymentId::text
        ) as is_there,
        ${isAllowed('status')} as is_allowed
      from before
    )`,
    `after as (
      select
        ${namesOf(KEPT)}, is_there, amount,
        case when is_there then amount_paid else amount_paid + amount end as amount_paid,
        case
          when is_there then status
          when amount_paid + amount = total then @settledStatus::text
          else coalesce(@unsettledStatus::text::jsonb ->> status, status)
        end as status
      from judged
      where is_there
        or (is_allowed and amount = pg_catalog.round(amount, minor_units) and amount_paid + amount <= total)
    )`,
  ],
  representation: `
    '{"invoice":' || ${INVOICE_REPRESENTATION} || ',"payment":' || ${paymentRepresentation({
      id: '@paymentId::text',
      amount: 'pg_catalog.round(after.amount, after.minor_units)',
      receivedAt: '@receivedAt::text::timestamptz',
    })} || '}'`,
  set: 'status = after.status, amount_paid = after.amount_paid',
  isDone: 'after.is_there',
  alongside: `
    insert into business_api.payments (organization_id, id, invoice_id, amount, received_at)
    select
      @organizationId::text, @paymentId::text, @recordId::text, after.amount, @receivedAt::text::timestamptz
    from after, reserved
    where not after.is_there`,
  // The events of a payment that exists already exist too, and with other ids if it did not settle the invoice then.
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
      when amount <> pg_catalog.round(amount, minor_units) then 'too_fine'
      else 'overpaid'
    end from judged
  )`,
})

/**
 * Adds a payment to an invoice, all of it in numeric. A payment that is there already, as the answer to an earlier
 * attempt was lost, changes nothing; if that attempt commits only now, the payment's key is violated and the statement is
 * sent once more.
 */
export function pay(
  database: RecordDatabase,
  given: Change<Settlement>,
): Promise<ChangeOutcome<PaidInvoice, 'too_fine' | 'overpaid'>> {
  const { payment, settledStatus, unsettledStatus, settledEvents } = given.set
  return writeChange(database, given, PAY, {
    paymentId: payment.id,
    amount: payment.amount,
    receivedAt: payment.receivedAt,
    settledStatus,
    unsettledStatus: JSON.stringify(unsettledStatus),
    settledEvents: eventsOf(settledEvents),
  })
}

/** Lists the newest payments of an invoice: see `InvoiceStore.listPayments`. */
export async function listPayments(
  database: RecordDatabase,
  organizationId: string,
  invoiceId: string,
  limit: number,
  before: string | null,
): Promise<readonly Payment[] | null> {
  const [payments] = await database.rowFor(organizationId, (sql, answerTag) => {
    const page = sql`
      select payment.* from business_api.payments payment
      where payment.organization_id = ${organizationId}::text ${atValue(sql, sql`payment.invoice_id`, invoiceId)}
        ${before === null ? sql`` : sql`and (payment.invoice_id, payment.id) < (${invoiceId}::text, ${before}::text)`}
      order by payment.invoice_id desc, payment.id desc
      limit ${literalLimit(sql, limit)}`
    return sql`
      select
        (
          select (
            select '[' || coalesce(pg_catalog.string_agg(listed.representation, ','), '') || ']'
            from (
              select ${sql.unsafe(
                paymentRepresentation({
                  id: 'payment.id',
                  amount: 'pg_catalog.round(payment.amount, invoice.minor_units)',
                  receivedAt: 'payment.received_at',
                }),
              )} as representation
              from (${page}) as payment
              order by payment.id desc
              limit (select ${limit}::int)
            ) as listed
          )
          from business_api.invoices invoice
          where invoice.organization_id = ${organizationId}::text and invoice.id = ${invoiceId}::text
        ),
        ${answerTag}`
  })
  return JSON.parse(payments ?? 'null') as Payment[] | null
}

/** JSON text of a payment, of SQL expressions. */
function paymentRepresentation({ id, amount, receivedAt }: Payment): string {
  return `(
    '{"id":' || pg_catalog.to_json(${id})::text || ',"amount":"' || ${amount}::text
    || '","receivedAt":' || ${jsonTimestamp(receivedAt)} || '}'
  )`
}
