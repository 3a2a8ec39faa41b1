import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from './admission.ts'
import type { Change, ChangeOutcome } from './change.ts'
import type { Creation, NumberedOutcome } from './creation.ts'
import type { RecordedEvent } from './envelope.ts'
import * as field from './fields.ts'
import type { NewNumber } from './numbering.ts'
import { listRoute, type Route } from './route.ts'

// --- Schemas (specification, section 2) ---

/** An invoice as the API shows it. */
export const InvoiceSchema = v.object({
  id: field.id('inv', 'The invoice.'),
  number: field.prose(64, 'Its number, unique in the organization.', 'INV-2026-0042'),
  status: field.word(
    'How far it is settled.',
    'partially_paid',
    'draft',
    'issued',
    'paid',
    'overdue',
    'void',
  ),
  currency: field.currency(),
  issueDate: field.timestamp('When it was or will be issued.'),
  dueDate: field.timestamp('When it is due.'),
  total: field.money('What is to be paid in all.', '1250.000'),
  amountPaid: field.money('What has been paid.', '250.000'),
  amountDue: field.money('What is still to be paid: total less amountPaid.', '1000.000'),
})

// --- Types ---

/** An invoice. Money is in decimal strings with exactly the currency's decimals; `total = amountPaid + amountDue`. */
export type Invoice = v.InferOutput<typeof InvoiceSchema>

/** An invoice to be created; the store finds a number of a series. */
export type NewInvoice = Omit<Invoice, 'number'> & {
  readonly number: NewNumber
  /** Decimals of its currency. Default those of ISO 4217. */
  readonly minorUnits?: number
}

/** What of an invoice can be changed. */
export interface InvoiceChanges extends Partial<Pick<Invoice, 'status' | 'issueDate' | 'dueDate'>> {
  /** Whether it is refused once something has been paid, with the reason `paid`. */
  readonly isOnlyIfUnpaid?: boolean
}

/** Why an invoice is not changed although its status allows it. */
export type InvoiceRefusal = 'paid' | 'due_before_issue'

/** Money that has come in for an invoice. */
export interface Payment {
  /** `pay_<ulid>`. */
  readonly id: string
  /** Above zero, a decimal string. */
  readonly amount: string
  /** ISO 8601 in UTC with milliseconds. */
  readonly receivedAt: string
}

/** What a payment does to its invoice. */
export interface Settlement {
  readonly payment: Payment
  /** The status once nothing is due any more. */
  readonly settledStatus: string
  /** Which status an unsettled invoice gets, by its present one; absent: it stays. */
  readonly unsettledStatus: Readonly<Record<string, string>>
  /** Recorded after the change's own events if nothing is due any more. */
  readonly settledEvents: readonly RecordedEvent[]
}

/** Which invoices are to be marked overdue. */
export interface OverdueRequest {
  /** Null: of all organizations. */
  readonly organizationId: string | null
  /** Due before this moment, ISO 8601; null: before now by the store's clock. */
  readonly asOf: string | null
  /** Invoices at most, those due for longest first. */
  readonly limit: number
  /** The event of each, all its fields blank that are the invoice's; the id is the store's to make, its blank `eventId`. */
  readonly event: RecordedEvent
}

// --- Events (specification, section 6) ---

const invoiceId = field.id('inv', 'The invoice.')
const number = field.prose(64, 'Its number.', 'INV-2026-0042')

/** The events of invoices and their payments. */
export const invoiceEvents = {
  'invoice.issued': v.object({
    invoiceId,
    number,
    currency: field.currency(),
    total: field.money('What is to be paid in all.', '1250.000'),
    dueDate: field.timestamp('When it is due.'),
  }),
  'invoice.paid': v.object({ invoiceId, number }),
  'invoice.overdue': v.object({
    invoiceId,
    number,
    currency: field.currency(),
    amountDue: field.money('What is still to be paid.', '1000.000'),
    dueDate: field.timestamp('When it was due.'),
  }),
  'payment.received': v.object({
    paymentId: field.id('pay', 'The payment.'),
    invoiceId,
    number,
    currency: field.currency(),
    amount: field.money('What was paid this time.', '250.000'),
    amountPaid: field.money('What has been paid in all.', '250.000'),
    amountDue: field.money('What is still to be paid.', '1000.000'),
  }),
}

// --- Store ---

/** What a store must do for invoices. */
export interface InvoiceStore {
  /** As `ClientStore.list`, for invoices. Money is text with exactly its currency's decimals. */
  list(request: AdmissionRequest, limit: number): Promise<AdmittedPage<Invoice>>

  /**
   * Writes the invoice, its events and the idempotency entry at once or not at all, with the next number of its series
   * if it comes with none.
   *
   * Money comes out with the currency's decimals, and `amountDue` is computed, whatever was passed.
   *
   * @throws `BusinessApiError` with code `already_exists` when another invoice of the organization has its number,
   *   `invalid_input` for money finer than the currency's minor unit or more paid than the total
   */
  create(creation: Creation<NewInvoice>): Promise<NumberedOutcome>

  /**
   * Changes an invoice's status and dates. Refused with the reason `due_before_issue` if it gives a date and the invoice
   * would be due before it is issued.
   */
  change(change: Change<InvoiceChanges>): Promise<ChangeOutcome<Invoice, InvoiceRefusal>>

  /**
   * Adds a payment to what has been paid. Refused with the reason `too_fine` if its amount is finer than the invoice's
   * currency, and with `overpaid` if it is more than is due.
   */
  pay(change: Change<Settlement>): Promise<ChangeOutcome<Invoice, 'too_fine' | 'overpaid'>>

  /**
   * Gives the status `overdue` to invoices of status `issued` or `partially_paid` that are due: some at a time, each
   * once, passing over those that others are changing.
   *
   * @returns those that were marked; fewer than the limit: nothing is left to mark. Of a statement whose answer was lost
   *   and that was sent again, only those of the second time
   */
  markOverdue(request: OverdueRequest): Promise<readonly Invoice[]>
}

// --- Routes (specification, section 4) ---

/** The operations on invoices. */
export function invoiceRoutes(store: InvoiceStore): readonly Route[] {
  return [
    listRoute({
      path: '/api/v1/invoices',
      operationId: 'listInvoices',
      tag: 'Invoices',
      scope: 'invoices:read',
      summary: 'List invoices',
      description: 'The newest invoices of the organization, newest first. Money is in decimal strings.',
      item: InvoiceSchema,
      itemName: 'Invoice',
      list: (request, limit) => store.list(request, limit),
    }),
  ]
}
