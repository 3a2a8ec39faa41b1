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

// --- Schemas (section 2 of the spec) ---

/** The due date in the example invoice, which is issued at the example time. */
const DUE_DATE = '2026-04-13T00:00:00.000Z'

/** An invoice, as returned by the API. */
export const InvoiceSchema = v.object({
  id: field.id('inv', 'ID of the invoice.'),
  number: field.prose(64, 'Invoice number, unique in the organization.', 'INV-2026-0042'),
  status: field.word(
    'Status of the invoice.',
    'partially_paid',
    'draft',
    'issued',
    'paid',
    'overdue',
    'void',
  ),
  currency: field.currency(),
  issueDate: field.timestamp('Date of issue. Can be in the past or future.', '2026-03-14T00:00:00.000Z'),
  dueDate: field.timestamp('Due date.', DUE_DATE),
  total: field.money('Total amount of the invoice.', '1250.000'),
  amountPaid: field.money('Amount paid to date.', '250.000'),
  amountDue: field.money('Amount due: total minus amountPaid.', '1000.000'),
})

// --- Types ---

/** An invoice. Amounts are decimal strings with the currency's precision, and `total = amountPaid + amountDue`. */
export type Invoice = v.InferOutput<typeof InvoiceSchema>
/** An invoice, as returned to the host. */
export interface StoredInvoice extends Invoice, Updated {}

/** An invoice to create. If `number` is a series, the store assigns the number. */
export type InvoiceRecord = Omit<Invoice, 'number'> & {
  readonly number: NewNumber
  /** The currency's number of decimal places. Defaults to the ISO 4217 value. */
  readonly minorUnits?: number
}

/** The invoice fields that can be changed. */
export interface InvoiceChanges extends Partial<Pick<Invoice, 'status' | 'issueDate' | 'dueDate'>> {
  /** If `true`, rejects the change with reason `paid` if anything has been paid. */
  readonly isOnlyIfUnpaid?: boolean
}

/** Why a change to an invoice was rejected even though the status allows it. */
export type InvoiceRefusal = 'paid' | 'due_before_issue'

/** A payment on an invoice, or a reversal. */
export interface Payment {
  /** `pay_<ulid>`. */
  readonly id: string
  /**
   * A decimal string, negative for a reversal. Recorded payments have exactly as many decimal places as the currency.
   */
  readonly amount: string
  /** ISO 8601, UTC, with milliseconds. */
  readonly receivedAt: string
  /** The reversal's id. Absent if the payment wasn't reversed. */
  readonly reversedBy?: string
}

/** A payment, as stored. */
export interface PaymentRow extends Payment {
  readonly invoiceId: string
}

/** A payment and its effect on the invoice. */
export interface Settlement {
  /** The amount is ignored for a reversal. */
  readonly payment: Payment
  /** The invoice's status once it's fully paid. */
  readonly settledStatus: string
  /**
   * The invoice's next status if it isn't fully paid, by current status. If there's no entry, the status doesn't
   * change. For example, if the current status is `paid`, `paid past due` is checked first (for invoices past their due
   * date), then `paid unpaid` (for invoices with nothing paid), then `paid`.
   */
  readonly unsettledStatus: Readonly<Record<string, string>>
  /** Published after the change's own events if the invoice is fully paid. */
  readonly settledEvents: readonly EventRecord[]
  /** The payment to reverse, and the audit entry. */
  readonly reverses?: { readonly paymentId: string; readonly entry: AuditRecord }
}

/**
 * Why a payment or reversal was rejected.
 *
 * - `no_payment`: The invoice doesn't have a payment with the id to reverse.
 * - `reversed`: The payment was already reversed, or is itself a reversal.
 * - `id_taken`: The reversal's id is taken by another payment.
 */
export type PaymentRefusal = 'too_fine' | 'overpaid' | 'no_payment' | 'reversed' | 'id_taken'

/** A recorded payment or reversal, and the resulting invoice. */
export interface PaidInvoice {
  readonly invoice: Invoice
  readonly payment: Payment
}

/** Values that the store adds to an overdue invoice's event on top of the invoice's fields. */
export interface OverdueFacts {
  readonly eventId: string
}

/** A request to mark invoices as overdue. */
export interface OverdueRequest {
  /** `null` for all organizations. */
  readonly organizationId: string | null
  /** Marks invoices that were due before this time (ISO 8601), or before now (store's clock) if it's `null`. */
  readonly asOf: string | null
  /** Maximum number of invoices. Earlier due dates come first. */
  readonly limit: number
  /** The template for each event, with the invoice's fields and {@link OverdueFacts}. The store creates the id. */
  readonly event: EventRecord
}

// --- Columns ---

/** An invoice, including the field that the API doesn't return. */
export interface InvoiceRow extends Invoice {
  readonly minorUnits: number
}

/** The invoice columns. `amountDue` doesn't have one, since we calculate it from the total and the amount paid. */
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

/** The payment columns. */
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

// --- Events (section 6 of the spec) ---

const invoiceId = field.id('inv', 'ID of the invoice.')
const number = field.prose(64, 'Invoice number.', 'INV-2026-0042')

/** Invoice and payment events by type. */
export const invoiceEvents = {
  'invoice.issued': eventType('An invoice was issued', 'The invoice can now be paid.', {
    invoiceId,
    number,
    currency: field.currency(),
    total: field.money('Total amount of the invoice.', '1250.000'),
    dueDate: field.timestamp('Due date.', DUE_DATE),
  }),
  'invoice.paid': eventType(
    'An invoice was paid in full',
    'Sent once the full amount is paid, with one or more payments.',
    { invoiceId, number },
  ),
  'invoice.overdue': eventType(
    'An invoice is overdue',
    'The due date has passed and `amountDue` is unpaid.',
    {
      invoiceId,
      number,
      currency: field.currency(),
      amountDue: field.money('Amount due.', '1000.000'),
      dueDate: field.timestamp('Due date, in the past.', '2026-03-13T00:00:00.000Z'),
    },
  ),
  'payment.received': eventType(
    'A payment was received',
    "A payment for an invoice, with the invoice's amounts after the payment.",
    {
      paymentId: field.id('pay', 'ID of the payment.'),
      invoiceId,
      number,
      currency: field.currency(),
      amount: field.money('Amount of the payment.', '250.000'),
      amountPaid: field.money('Amount paid to date, including this payment.', '250.000'),
      amountDue: field.money('Amount due.', '1000.000'),
    },
    'invoiceId',
  ),
}

// --- Store ---

/** Statuses of invoices that still have to be paid. */
export const DUE_STATUSES = ['issued', 'partially_paid', 'overdue'] as const

/**
 * Filters invoices. Omitted properties match everything. Times are ISO 8601, or optionally a `Date` in
 * the host's calls.
 */
export interface InvoiceFilter<Moment = string> extends StatusFilter {
  /** The invoice's number. Matches at most one invoice. */
  readonly number?: string | undefined
  /** Due at or after this time and not paid yet. See {@link DUE_STATUSES}. */
  readonly dueAfter?: Moment | undefined
  /** Due before this time and not paid yet. See {@link DUE_STATUSES}. */
  readonly dueBefore?: Moment | undefined
}

/**
 * The part of a store that manages invoices. Amounts are strings with the currency's precision. With `dueAfter` or
 * `dueBefore`, `list` only returns invoices with {@link DUE_STATUSES}, sorted by descending due date and id, and none if
 * the organization doesn't have the invoice `before`.
 */
export interface InvoiceStore extends ListedReads<Invoice, StoredInvoice, InvoiceFilter> {
  /**
   * Writes the invoice, the events and the idempotency entry in one transaction, with the given number or the next one
   * in the given series. Amounts are stored in the currency's precision. The store calculates `amountDue` itself.
   *
   * @throws `BusinessApiError` with code `already_exists` if another of the organization's invoices has the number, or
   *   with code `invalid_input` if an amount has too many decimal places or the amount paid exceeds the total
   */
  create(creation: Creation<InvoiceRecord>): Promise<NumberedOutcome>

  /**
   * Changes an invoice's status and dates. Rejected with reason `due_before_issue` if the change sets a date and the
   * invoice would be due before it was issued.
   */
  change(change: Change<InvoiceChanges>): Promise<ChangeOutcome<Invoice, InvoiceRefusal>>

  /**
   * Adds a payment to the amount paid. Rejected with reason `too_fine` if the payment has more decimal places than the
   * invoice's currency, or `overpaid` if it exceeds the amount due. Events are rendered with the invoice's fields and
   * `amount`, the payment's amount in the currency's precision. A replay returns `{ invoice, payment }`.
   *
   * A reversal undoes an entire payment, once. It adds a payment with a negative amount, sets `reversedBy` on the
   * original payment and writes the audit entry. Payments and reversals are idempotent.
   */
  pay(change: Change<Settlement>): Promise<ChangeOutcome<PaidInvoice, PaymentRefusal>>

  /**
   * Lists an invoice's newest payments by descending id.
   *
   * @param before the last id on the previous page, or `null` to start with the newest
   * @returns `null` if the organization doesn't have an invoice with this id
   */
  listPayments(
    organizationId: string,
    invoiceId: string,
    limit: number,
    before: string | null,
  ): Promise<readonly Payment[] | null>

  /**
   * Sets due invoices to `overdue` if the status is `issued` or `partially_paid` and there's an amount due. Handles up
   * to `limit` invoices per call, each only once, and skips any that another transaction is changing.
   *
   * @returns the marked invoices. If there are fewer than the limit, there's nothing left to mark. When retrying after
   *   a lost result, includes only the invoices marked by the retry
   */
  markOverdue(request: OverdueRequest): Promise<readonly Invoice[]>
}

// --- Operations (section 4 of the spec) ---

/** The invoice operations. */
export const invoiceOperations: Operations = {
  ...invoiceTable,
  about: 'Invoices to clients. Amounts are decimal strings.',
  note: 'Amounts are decimal strings.',
  representation: InvoiceSchema,
}
