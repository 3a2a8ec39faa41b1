import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from '../access/admission.ts'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, NumberedOutcome } from '../writes/creation.ts'
import { type EventRecord, eventType } from '../writes/event-envelope.ts'
import type { NewNumber } from './document-numbers.ts'
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
export type InvoiceRecord = Omit<Invoice, 'number'> & {
  readonly number: NewNumber
  /** Decimals of its currency. Default those of ISO 4217. */
  readonly minorUnits?: number
}

/** The fields of an invoice that a change can set. */
export interface InvoiceChanges extends Partial<Pick<Invoice, 'status' | 'issueDate' | 'dueDate'>> {
  /** Refuses the change with the reason `paid` once something has been paid. */
  readonly isOnlyIfUnpaid?: boolean
}

/** The reasons for which an invoice is not changed although its status allows the change. */
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

/** The effect of a payment on its invoice. */
export interface Settlement {
  readonly payment: Payment
  /** The status of an invoice with nothing left to pay. */
  readonly settledStatus: string
  /** The next status of an unsettled invoice, by its present one; absent: the status stays. */
  readonly unsettledStatus: Readonly<Record<string, string>>
  /** Published after the change's own events if the payment settles the invoice. */
  readonly settledEvents: readonly EventRecord[]
}

/** The values that a store renders in the events of a payment, beside the invoice's own fields. */
export interface PaymentFacts {
  /** With exactly the currency's decimals. */
  readonly amount: string
}

/** The value that a store renders in the event of an overdue invoice, beside the invoice's own fields. */
export interface OverdueFacts {
  readonly eventId: string
}

/** Selects the invoices to be marked overdue. */
export interface OverdueRequest {
  /** Null: of all organizations. */
  readonly organizationId: string | null
  /** Due before this moment, ISO 8601; null: before now by the store's clock. */
  readonly asOf: string | null
  /** Invoices at most, those due for longest first. */
  readonly limit: number
  /** The event of each: a template of the invoice's fields and of {@link OverdueFacts}, whose id the store makes. */
  readonly event: EventRecord
}

// --- Events (specification, section 6) ---

const invoiceId = field.id('inv', 'The invoice.')
const number = field.prose(64, 'Its number.', 'INV-2026-0042')

/** The events of invoices and their payments. */
export const invoiceEvents = {
  'invoice.issued': eventType('An invoice was issued', 'From now on the invoice is to be paid.', {
    invoiceId,
    number,
    currency: field.currency(),
    total: field.money('What is to be paid in all.', '1250.000'),
    dueDate: field.timestamp('When it is due.'),
  }),
  'invoice.paid': eventType(
    'An invoice was fully settled',
    'Sent only when nothing is left to be paid, whatever the number of payments.',
    { invoiceId, number },
  ),
  'invoice.overdue': eventType(
    'An invoice is overdue',
    'Its due date has passed and `amountDue` is still to be paid.',
    {
      invoiceId,
      number,
      currency: field.currency(),
      amountDue: field.money('What is still to be paid.', '1000.000'),
      dueDate: field.timestamp('When it was due.'),
    },
  ),
  'payment.received': eventType(
    'A payment was received',
    'One payment for an invoice, and how the invoice stands after it.',
    {
      paymentId: field.id('pay', 'The payment.'),
      invoiceId,
      number,
      currency: field.currency(),
      amount: field.money('What was paid this time.', '250.000'),
      amountPaid: field.money('What has been paid in all.', '250.000'),
      amountDue: field.money('What is still to be paid.', '1000.000'),
    },
  ),
}

// --- Store ---

/** The slice of a store for invoices. */
export interface InvoiceStore {
  /** As `ClientStore.admitAndList`, for invoices. Money is text with exactly its currency's decimals. */
  admitAndList(request: AdmissionRequest, limit: number): Promise<AdmittedPage<Invoice>>

  /**
   * Writes the invoice, its events and the idempotency entry at once or not at all, with the next number of its series
   * unless the record has a number.
   *
   * Money is stored with the currency's decimals, and `amountDue` is computed, whatever was passed.
   *
   * @throws `BusinessApiError` with code `already_exists` when another invoice of the organization has its number,
   *   `invalid_input` for money finer than the currency's minor unit or more paid than the total
   */
  create(creation: Creation<InvoiceRecord>): Promise<NumberedOutcome>

  /**
   * Changes an invoice's status and dates. Refused with the reason `due_before_issue` if the change sets a date and the
   * invoice would be due before its issue.
   */
  change(change: Change<InvoiceChanges>): Promise<ChangeOutcome<Invoice, InvoiceRefusal>>

  /**
   * Adds a payment to the amount paid. Refused with the reason `too_fine` if the payment is finer than the invoice's
   * currency, and with `overpaid` if the payment is more than the amount due.
   */
  pay(change: Change<Settlement>): Promise<ChangeOutcome<Invoice, 'too_fine' | 'overpaid'>>

  /**
   * Gives the status `overdue` to invoices of status `issued` or `partially_paid` that are due: at most `limit` at a
   * time, each once. Invoices that another transaction is changing are passed over.
   *
   * @returns the invoices that were marked; fewer than the limit: none is left. After a lost answer and a retry of the
   *   statement, only the invoices of the retry
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
      representation: InvoiceSchema,
      representationName: 'Invoice',
      admitAndList: (request, limit) => store.admitAndList(request, limit),
    }),
  ]
}
