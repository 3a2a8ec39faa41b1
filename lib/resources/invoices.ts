import * as v from 'valibot'
import type { AuditRecord } from '../access/audit.ts'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, NumberedOutcome } from '../writes/creation.ts'
import { type EventRecord, eventType } from '../writes/event-envelope.ts'
import type { RecordTable } from './columns.ts'
import type { NewNumber } from './document-numbers.ts'
import type { ListedReads, StatusFilter, Updated } from './record-reads.ts'
import type { Operations } from './route.ts'

// --- Schemas (specification, section 2) ---

/** The due date of an invoice that was issued at the moment of the examples. */
const DUE_DATE = '2026-04-13T00:00:00.000Z'

/** The schema of an invoice in the API. */
export const InvoiceSchema = v.object({
  id: field.id('inv', 'The invoice.'),
  number: field.prose(64, 'The number of the invoice, unique in the organization.', 'INV-2026-0042'),
  status: field.word(
    'The state of the invoice.',
    'partially_paid',
    'draft',
    'issued',
    'paid',
    'overdue',
    'void',
  ),
  currency: field.currency(),
  issueDate: field.timestamp('The date of issue, past or future.', '2026-03-14T00:00:00.000Z'),
  dueDate: field.timestamp('The due date.', DUE_DATE),
  total: field.money('The whole amount of the invoice.', '1250.000'),
  amountPaid: field.money('The amount paid so far.', '250.000'),
  amountDue: field.money('The amount still to be paid: total less amountPaid.', '1000.000'),
})

// --- Types ---

/** An invoice. Money is in decimal strings with exactly the currency's decimals; `total = amountPaid + amountDue`. */
export type Invoice = v.InferOutput<typeof InvoiceSchema>
/** An invoice as the host reads it. */
export interface StoredInvoice extends Invoice, Updated {}

/** An invoice to be created. For a series the store finds the number. */
export type InvoiceRecord = Omit<Invoice, 'number'> & {
  readonly number: NewNumber
  /** Decimals of the currency. Default: the decimals of ISO 4217. */
  readonly minorUnits?: number
}

/** The fields of an invoice that a change can set. */
export interface InvoiceChanges extends Partial<Pick<Invoice, 'status' | 'issueDate' | 'dueDate'>> {
  /** Rejects the change with the reason `paid` once something has been paid. */
  readonly isOnlyIfUnpaid?: boolean
}

/** The reasons for rejecting a change of an invoice whose status allows the change. */
export type InvoiceRefusal = 'paid' | 'due_before_issue'

/** Received money for an invoice, or the reversal of a payment. */
export interface Payment {
  /** `pay_<ulid>`. */
  readonly id: string
  /** A decimal string; of a recorded payment with exactly the currency's decimals. Below zero for a reversal. */
  readonly amount: string
  /** ISO 8601 in UTC with milliseconds. */
  readonly receivedAt: string
  /** The id of the payment's reversal. Absent: not reversed. */
  readonly reversedBy?: string
}

/** A payment as a store keeps it. */
export interface PaymentRow extends Payment {
  readonly invoiceId: string
}

/** A payment with the effects on the invoice. */
export interface Settlement {
  /** The amount of a reversal is ignored. */
  readonly payment: Payment
  /** The status of an invoice with nothing left to pay. */
  readonly settledStatus: string
  /**
   * The next status of an unsettled invoice by the present status; for an absent status the status stays. `paid past due` is the
   * entry of an invoice whose due date has passed, before `paid unpaid`, that of an invoice with nothing paid, before `paid`.
   */
  readonly unsettledStatus: Readonly<Record<string, string>>
  /** Published after the change's own events if the payment settles the invoice. */
  readonly settledEvents: readonly EventRecord[]
  /** The payment of the invoice that is taken back, and the audit entry. */
  readonly reverses?: { readonly paymentId: string; readonly entry: AuditRecord }
}

/**
 * The reasons for rejecting a payment or a reversal.
 *
 * - `no_payment`: the invoice has no payment of the reversed id.
 * - `reversed`: another reversal has taken the payment back, or the payment is a reversal.
 * - `id_taken`: another payment has the id of the reversal.
 */
export type PaymentRefusal = 'too_fine' | 'overpaid' | 'no_payment' | 'reversed' | 'id_taken'

/** A recorded payment or reversal, and the invoice afterwards. */
export interface PaidInvoice {
  readonly invoice: Invoice
  readonly payment: Payment
}

/** The value that a store puts into the event of an overdue invoice, beside the fields of the invoice. */
export interface OverdueFacts {
  readonly eventId: string
}

/** Selects the invoices to be marked overdue. */
export interface OverdueRequest {
  /** Null for all organizations. */
  readonly organizationId: string | null
  /** The invoices due before this moment, ISO 8601; null for now by the store's clock. */
  readonly asOf: string | null
  /** Maximum number of invoices; the earliest due date comes first. */
  readonly limit: number
  /** Each invoice's event: a template of the invoice's fields and {@link OverdueFacts}. The store makes the id. */
  readonly event: EventRecord
}

// --- Columns ---

/** An invoice with the field that the API does not show. */
export interface InvoiceRow extends Invoice {
  readonly minorUnits: number
}

/** The columns of invoices. `amountDue` follows from the total and the amount paid. */
export const invoiceTable: RecordTable<Omit<InvoiceRow, 'amountDue'>> = {
  kind: 'invoice',
  idKind: 'inv',
  table: 'invoices',
  columns: {
    id: {},
    number: {},
    status: { isChangeable: true },
    currency: {},
    minorUnits: { type: 'integer', isHidden: true },
    issueDate: { type: 'timestamptz', isChangeable: true },
    dueDate: { type: 'timestamptz', isChangeable: true },
    total: { type: 'numeric' },
    amountPaid: { type: 'numeric' },
  },
}

/** The columns of payments. */
export const paymentTable: RecordTable<PaymentRow> = {
  kind: 'payment',
  idKind: 'pay',
  table: 'payments',
  columns: {
    id: {},
    invoiceId: { isHidden: true },
    amount: { type: 'numeric' },
    receivedAt: { type: 'timestamptz' },
    reversedBy: { isChangeable: true },
  },
}

// --- Events (specification, section 6) ---

const invoiceId = field.id('inv', 'The invoice.')
const number = field.prose(64, 'The number of the invoice.', 'INV-2026-0042')

/** The events of invoices and payments. */
export const invoiceEvents = {
  'invoice.issued': eventType('An invoice was issued', 'The invoice can be paid from now on.', {
    invoiceId,
    number,
    currency: field.currency(),
    total: field.money('The whole amount of the invoice.', '1250.000'),
    dueDate: field.timestamp('The due date.', DUE_DATE),
  }),
  'invoice.paid': eventType(
    'An invoice was fully settled',
    'Sent only when the invoice is fully settled, by one payment or several.',
    { invoiceId, number },
  ),
  'invoice.overdue': eventType(
    'An invoice is overdue',
    'The due date has passed, and `amountDue` is still to be paid.',
    {
      invoiceId,
      number,
      currency: field.currency(),
      amountDue: field.money('The amount still to be paid.', '1000.000'),
      dueDate: field.timestamp('The due date, which has passed.', '2026-03-13T00:00:00.000Z'),
    },
  ),
  'payment.received': eventType(
    'A payment was received',
    'A payment for an invoice, with the amounts of the invoice after the payment.',
    {
      paymentId: field.id('pay', 'The payment.'),
      invoiceId,
      number,
      currency: field.currency(),
      amount: field.money('The amount of this payment.', '250.000'),
      amountPaid: field.money('The amount paid so far, this payment included.', '250.000'),
      amountDue: field.money('The amount still to be paid.', '1000.000'),
    },
    'invoiceId',
  ),
}

// --- Store ---

/** The statuses of invoices that are still to be paid. */
export const DUE_STATUSES = ['issued', 'partially_paid', 'overdue'] as const

/**
 * Selects invoices; an absent property selects all. A host's calls take moments as a `Date`, or as ISO 8601 with a time zone, and a
 * store as ISO 8601.
 */
export interface InvoiceFilter<Moment = string> extends StatusFilter {
  /** The number of the invoice: at most one invoice. */
  readonly number?: string | undefined
  /** Due at this moment or later, and still to be paid: see {@link DUE_STATUSES}. */
  readonly dueAfter?: Moment | undefined
  /** Due before this moment, and still to be paid: as `dueAfter`. */
  readonly dueBefore?: Moment | undefined
}

/**
 * The slice of a store for invoices. Money is a string with exactly the currency's decimals. `list` with `dueAfter` or `dueBefore`
 * gives invoices of {@link DUE_STATUSES} only, the latest due date first, and the newest id first among invoices of the same due date.
 */
export interface InvoiceStore extends ListedReads<Invoice, StoredInvoice, InvoiceFilter> {
  /**
   * Writes the invoice, the events and the idempotency entry at once or not at all, with the given number or the next number
   * of the given series.
   *
   * Money is stored with the currency's decimals. The store computes `amountDue` and ignores the given value.
   *
   * @throws `BusinessApiError` with code `already_exists` if another invoice of the organization has the number; with code
   *   `invalid_input` for money finer than the currency's minor unit, or if more is paid than the total
   */
  create(creation: Creation<InvoiceRecord>): Promise<NumberedOutcome>

  /**
   * Changes an invoice's status and dates. Rejected with the reason `due_before_issue` if the change sets a date, and the due
   * date would be before the issue date.
   */
  change(change: Change<InvoiceChanges>): Promise<ChangeOutcome<Invoice, InvoiceRefusal>>

  /**
   * Adds a payment to the amount paid. Rejected with the reason `too_fine` if the payment is finer than the invoice's
   * currency, and with `overpaid` if the payment is more than the amount due. The events are rendered with the fields of the
   * invoice and `amount`, the payment's amount with exactly the currency's decimals; a replay returns `{ invoice, payment }`.
   *
   * A reversal takes a whole payment back, once: adds a payment of the amount below zero, names it in `reversedBy` of the payment, and
   * writes the audit entry. A payment or a reversal that is there already changes nothing.
   */
  pay(change: Change<Settlement>): Promise<ChangeOutcome<PaidInvoice, PaymentRefusal>>

  /**
   * Lists the newest payments of an invoice, newest id first.
   *
   * @param before the previous page's last id; null: from the newest
   * @returns null if the organization has no invoice with this id
   */
  listPayments(
    organizationId: string,
    invoiceId: string,
    limit: number,
    before: string | null,
  ): Promise<readonly Payment[] | null>

  /**
   * Gives the status `overdue` to due invoices with status `issued` or `partially_paid` and something to pay: at most `limit` in a
   * call, each invoice once. Invoices that another transaction is changing are skipped.
   *
   * @returns the marked invoices. Fewer than the limit mean that no due invoice is left. After a lost result and a retry, only the
   *   retry's invoices
   */
  markOverdue(request: OverdueRequest): Promise<readonly Invoice[]>
}

// --- Operations (specification, section 4) ---

/** The operations on invoices. */
export const invoiceOperations: Operations = {
  ...invoiceTable,
  about: 'What clients owe; money in decimal strings.',
  note: 'Money is in decimal strings.',
  representation: InvoiceSchema,
}
