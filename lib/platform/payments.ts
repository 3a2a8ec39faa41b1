import * as v from 'valibot'
import { ActorSchema } from '../access/audit.ts'
import { ALREADY_EXISTS, INVALID_INPUT, INVALID_STATE, NOT_FOUND, OVERPAYMENT } from '../base/errors.ts'
import { defineCall, found, IdSchema, MomentSchema, newIdOf } from '../base/host-input.ts'
import { type Page, type PageQuery, readPage, recordPageEntries } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import { invoiceEvents, type PaidInvoice, type Payment, type PaymentRefusal } from '../resources/invoices.ts'
import { buildEventTemplate } from '../writes/event-envelope.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { type CallOptions, type CallTools, changed, createBuildWrite, type Refusal } from './calls.ts'
import { MoneySchema } from './inputs.ts'

// --- Types ---

/** A new payment toward an invoice. */
export interface NewPayment extends CallOptions {
  readonly invoiceId: string
  /** A decimal string greater than zero. Can't exceed the amount due or have more decimal places than the currency. */
  readonly amount: string
  /** A `Date` or ISO 8601 with a time zone. Defaults to now. */
  readonly receivedAt?: Date | string | undefined
}

/** A payment reversal, for example after a mistake, a bounced check or a chargeback. */
export interface NewReversal extends CallOptions {
  readonly invoiceId: string
  readonly paymentId: string
  /** Id of the reversal, `pay_<ulid>`. Retries with the same id don't reverse anything twice. Defaults to a new id. */
  readonly id?: string | undefined
  /** A `Date` or ISO 8601 with a time zone. Defaults to now. */
  readonly reversedAt?: Date | string | undefined
  /** Who is reversing the payment, for the audit entry. Any name or id of 1 to 200 characters. Defaults to `null`. */
  readonly actor?: string | null | undefined
}

/** Payment calls, which are part of {@link InvoiceCalls}. */
export interface PaymentCalls {
  /**
   * Adds a payment to an issued, partially paid or overdue invoice. Returns the payment and the updated invoice. If
   * nothing is due anymore, the invoice becomes paid. Otherwise, it becomes partially paid or stays overdue. Publishes
   * `payment.received`, followed by `invoice.paid` if this settles the invoice. `invoice.paid` is published only once
   * per invoice, even with concurrent payments (see section 6 of the spec, rule 2).
   *
   * @throws `BusinessApiError` with code `overpayment` if the amount exceeds the amount due, `invalid_input` if it has
   * more decimal places than the currency
   */
  recordPayment(organizationId: string, payment: NewPayment): Promise<PaidInvoice>
  /**
   * Reverses an entire payment by adding a negative one. Returns the negative payment and the updated invoice. A
   * paid invoice becomes overdue if it's past the due date. Otherwise, a paid or partially paid invoice becomes
   * partially paid or issued. An overdue invoice stays overdue. Doesn't publish anything, but writes the audit
   * entry `payment.reversed`.
   *
   * @throws `BusinessApiError` with code `not_found` if the invoice has no such payment, `invalid_state` if the payment
   * was already reversed or is itself a reversal, or `already_exists` if another payment has this `id`
   */
  reversePayment(organizationId: string, reversal: NewReversal): Promise<PaidInvoice>
  /** Lists an invoice's payments including reversals, newest first. */
  payments(organizationId: string, invoiceId: string, query?: PageQuery): Promise<Page<Payment>>
}

// --- Transitions (see the decisions on section 3 of the spec) ---

/** An invoice's status once nothing is due anymore. */
export const SETTLED = 'paid'

const PAY = {
  from: ['issued', 'partially_paid', 'overdue'],
  unsettled: { issued: 'partially_paid' },
} as const

const REVERSED = {
  'paid past due': 'overdue',
  'paid unpaid': 'issued',
  paid: 'partially_paid',
  'partially_paid unpaid': 'issued',
} as const

// --- Inputs ---

const REF_FIELDS = { invoiceId: IdSchema }
const PAY_FIELDS = { ...REF_FIELDS, amount: MoneySchema, receivedAt: v.exactOptional(MomentSchema) }
const REVERSE_FIELDS = {
  ...REF_FIELDS,
  paymentId: IdSchema,
  id: v.exactOptional(newIdOf('pay')),
  reversedAt: v.exactOptional(MomentSchema),
  actor: ActorSchema,
}
const readPayments = defineCall('Cannot list the payments of the invoice', {
  ...REF_FIELDS,
  ...recordPageEntries(),
})

// --- Calls ---

/** Creates the payment calls. */
export function createPaymentCalls(store: Pick<RecordStore, 'invoices'>, tools: CallTools): PaymentCalls {
  const build = createBuildWrite(tools)
  return {
    async payments(organizationId, invoiceId, query) {
      const { action, organizationId: owner, input } = readPayments(organizationId, query, { invoiceId })
      const list = (count: number) => store.invoices.listPayments(owner, input.invoiceId, count, input.before)
      return readPage(input.limit, async (count) => found(await list(count), action))
    },

    recordPayment: build('invoices.recordPayment', 'Cannot record the payment', PAY_FIELDS, async (call) => {
      const { ids, now } = call.context
      const { invoiceId, amount, receivedAt = toTimestamp(now) } = call.input
      const payment = { id: ids('pay'), amount, receivedAt }
      const known = { paymentId: payment.id, invoiceId }
      // Must be in publishing order because ids are assigned in this order.
      const events = [buildEventTemplate(invoiceEvents, 'payment.received', known, call.context)]
      const settledEvents = [buildEventTemplate(invoiceEvents, 'invoice.paid', { invoiceId }, call.context)]
      const set = { payment, settledStatus: SETTLED, unsettledStatus: PAY.unsettled, settledEvents }
      const change = { recordId: invoiceId, from: PAY.from, set, events }
      return changed(call, change, (given) => store.invoices.pay(given), REFUSALS)
    }),

    reversePayment: build(
      'invoices.reversePayment',
      'Cannot reverse the payment',
      REVERSE_FIELDS,
      async (call) => {
        const { ids, now } = call.context
        const { invoiceId, paymentId, id = ids('pay'), reversedAt = toTimestamp(now), actor } = call.input
        const details = { invoiceId, reversalId: id }
        const act = { actor, action: 'payment.reversed', subjectId: paymentId, details } as const
        const payment = { id, amount: '0', receivedAt: reversedAt }
        const statuses = { settledStatus: SETTLED, unsettledStatus: REVERSED }
        const reverses = { paymentId, entry: { id: ids('aud'), ...act } }
        const change = { recordId: invoiceId, set: { payment, ...statuses, settledEvents: [], reverses } }
        return changed(call, change, (given) => store.invoices.pay(given), REFUSALS)
      },
    ),
  }
}

const REFUSALS: Readonly<Record<PaymentRefusal, Refusal>> = {
  too_fine: [INVALID_INPUT, "its amount has more decimals than the invoice's currency", ['amount']],
  overpaid: [OVERPAYMENT, 'its amount is more than is due', ['amount']],
  no_payment: [NOT_FOUND, 'the invoice has no payment with this id', ['paymentId']],
  reversed: [INVALID_STATE, 'it was reversed before, or is a reversal', ['paymentId']],
  id_taken: [ALREADY_EXISTS, 'another payment has the id of the reversal', ['id']],
}
