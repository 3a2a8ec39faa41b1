import * as v from 'valibot'
import type { AdmissionRequest, AdmittedPage } from './admission.ts'
import type { Creation, CreationOutcome } from './creation.ts'
import * as field from './fields.ts'
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
   * Writes the invoice, its events and the idempotency entry at once or not at all.
   *
   * Money comes out with the currency's decimals, and `amountDue` is computed, whatever was passed.
   *
   * @throws `BusinessApiError` with code `already_exists` when another invoice of the organization has its number,
   *   `invalid_input` for money finer than the currency's minor unit or more paid than the total
   */
  create(creation: Creation<Invoice>): Promise<CreationOutcome>
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
