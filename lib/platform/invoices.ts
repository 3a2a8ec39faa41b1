import * as v from 'valibot'
import { blank } from '../blanks.ts'
import { type RecordedEvent, recordWithBlanks } from '../envelope.ts'
import { BusinessApiError, INVALID_INPUT, INVALID_STATE, OVERPAYMENT } from '../errors.ts'
import { IdSchema, MomentSchema, whole } from '../input.ts'
import {
  type Invoice,
  type InvoiceRefusal,
  invoiceEvents,
  type NewInvoice as NewRecord,
} from '../invoices.ts'
import { type Making, toTimestamp } from '../making.ts'
import { withDecimals } from '../money.ts'
import { seriesOf } from '../numbering.ts'
import { overdueRequest } from '../overdue.ts'
import type { RecordStore } from '../store.ts'
import {
  type Call,
  type CallOptions,
  type CallTools,
  changedItem,
  changeOf,
  createdItem,
  defineCall,
  numberedItem,
  type Refusal,
  withReply,
} from './calls.ts'
import { CurrencySchema, MoneySchema, NumberSchema } from './inputs.ts'

// --- Types ---

/** An invoice to be created. Moments are a `Date`, or ISO 8601 with a time zone. */
export interface NewInvoice extends CallOptions {
  /** ISO 4217. */
  readonly currency: string
  /** Above zero, a decimal string no finer than the currency: `1250.000` or `1250` TND. */
  readonly total: string
  /** Not before the issue date. */
  readonly dueDate: Date | string
  /** When it will be issued. Default now; its year is that of the number. */
  readonly issueDate?: Date | string | undefined
  /** 1 to 64 characters, unique in the organization. Default the next of the year's series: `INV-2026-0042`. */
  readonly number?: string | undefined
}

/** An invoice by name. */
export interface InvoiceRef extends CallOptions {
  readonly invoiceId: string
}

/** How an invoice is issued. */
export interface InvoiceIssue extends InvoiceRef {
  /** Default what the draft says. */
  readonly issueDate?: Date | string | undefined
  /** Default what the draft says. */
  readonly dueDate?: Date | string | undefined
}

/** Money that has come in. */
export interface NewPayment extends InvoiceRef {
  /** Above zero, a decimal string no finer than the invoice's currency and no more than is due. */
  readonly amount: string
  /** A `Date`, or ISO 8601 with a time zone. Default now. */
  readonly receivedAt?: Date | string | undefined
}

/** What `markOverdue` looks for. */
export interface OverdueOptions {
  /** Invoices due before this moment. Default now, by the store's clock. */
  readonly asOf?: Date | string | undefined
  /** Invoices at most, 1 to 1000. Default 100. */
  readonly limit?: number | undefined
}

/**
 * What the host does with invoices. Every call about one of them throws `not_found` for an id that the organization does
 * not have, and `invalid_state` when its status does not allow it.
 */
export interface InvoiceCalls {
  /**
   * Creates a draft. Publishes nothing.
   *
   * @throws `BusinessApiError` with code `already_exists` when another invoice has its number, `invalid_input` for money
   *   finer than the currency and a due date before the issue date
   */
  create(organizationId: string, invoice: NewInvoice): Promise<Invoice>
  /**
   * Draft → issued. Publishes `invoice.issued`.
   *
   * @throws `BusinessApiError` with code `invalid_input` when it would be due before it is issued
   */
  issue(organizationId: string, invoice: InvoiceIssue): Promise<Invoice>
  /**
   * Adds a payment to an issued, partially paid or overdue invoice. It becomes paid once nothing is due any more, else
   * partially paid, or stays overdue. Publishes `payment.received`, and then `invoice.paid` exactly when it is settled
   * (specification, section 6, rule 2), whatever the number of payments and however many come at once.
   *
   * @throws `BusinessApiError` with code `overpayment` for more than is due, `invalid_input` for money finer than the
   *   currency
   */
  recordPayment(organizationId: string, payment: NewPayment): Promise<Invoice>
  /** Draft, issued or overdue → void, which is final, as long as nothing was paid. Publishes nothing. */
  void(organizationId: string, invoice: InvoiceRef): Promise<Invoice>
  /**
   * Marks invoices overdue that are issued or partially paid and due: some at a time, those due for longest first. To be
   * called on a schedule until it gives fewer than the limit, or left to the delivery loop. Publishes `invoice.overdue`
   * for each.
   *
   * @returns those that it has marked
   */
  markOverdue(organizationId: string, options?: OverdueOptions): Promise<readonly Invoice[]>
}

// --- Transitions (decisions on section 3 of the specification) ---

const ISSUE = { from: ['draft'], to: 'issued' } as const
const VOID = { from: ['draft', 'issued', 'overdue'], to: 'void' } as const
const PAY = {
  from: ['issued', 'partially_paid', 'overdue'],
  settled: 'paid',
  unsettled: { issued: 'partially_paid' },
} as const

// --- Inputs ---

const CreateSchema = v.object({
  currency: CurrencySchema,
  total: MoneySchema,
  dueDate: MomentSchema,
  issueDate: v.exactOptional(MomentSchema),
  number: v.exactOptional(NumberSchema),
})
const IssueSchema = v.object({
  invoiceId: IdSchema,
  issueDate: v.exactOptional(MomentSchema),
  dueDate: v.exactOptional(MomentSchema),
})
const RefSchema = v.object({ invoiceId: IdSchema })
const PaySchema = v.object({
  invoiceId: IdSchema,
  amount: MoneySchema,
  receivedAt: v.exactOptional(MomentSchema),
})
const OverdueSchema = v.object({
  asOf: v.exactOptional(MomentSchema),
  limit: v.optional(whole(1, 1000), 100),
})

// --- Calls ---

/** The calls about invoices. */
export function createInvoiceCalls(store: Pick<RecordStore, 'invoices'>, tools: CallTools): InvoiceCalls {
  const { minorUnits } = tools
  const readCreate = defineCall('invoices.create', 'Cannot create the invoice', CreateSchema, tools)
  const readIssue = defineCall('invoices.issue', 'Cannot issue the invoice', IssueSchema, tools)
  const readPay = defineCall('invoices.recordPayment', 'Cannot record the payment', PaySchema, tools)
  const readVoid = defineCall('invoices.void', 'Cannot void the invoice', RefSchema, tools)
  const readOverdue = defineCall('invoices.markOverdue', 'Cannot mark invoices overdue', OverdueSchema, tools)

  return {
    async create(organizationId, invoice) {
      const call = readCreate(organizationId, invoice)
      const record = newInvoice(call, minorUnits(call.input.currency))
      const item = numberedItem(record)
      const idempotency = withReply(call.claim, item)
      const creation = { organizationId: call.organizationId, record, events: [], idempotency }
      return createdItem(call, await store.invoices.create(creation), item)
    },

    async issue(organizationId, given) {
      const call = readIssue(organizationId, given)
      const { invoiceId, ...dates } = call.input
      const change = changeOf(call, {
        recordId: invoiceId,
        from: ISSUE.from,
        set: { status: ISSUE.to, ...dates },
        events: [invoiceIssued(invoiceId, call.making)],
      })
      return changedItem(call, await store.invoices.change(change), REFUSALS)
    },

    async recordPayment(organizationId, given) {
      const call = readPay(organizationId, given)
      const { invoiceId, amount, receivedAt = toTimestamp(call.making.now) } = call.input
      const payment = { id: call.making.ids('pay'), amount, receivedAt }
      // In the order in which they happen, which their ids keep.
      const events = [paymentReceived(payment.id, invoiceId, call.making)]
      const settledEvents = [invoicePaid(invoiceId, call.making)]
      const set = { payment, settledStatus: PAY.settled, unsettledStatus: PAY.unsettled, settledEvents }
      const change = changeOf(call, { recordId: invoiceId, from: PAY.from, set, events })
      const outcome = await store.invoices.pay(change)
      return changedItem(call, outcome, {
        too_fine: [INVALID_INPUT, 'its amount must be no finer than the currency of the invoice'],
        overpaid: [OVERPAYMENT, 'its amount is more than is due'],
      })
    },

    async void(organizationId, given) {
      const call = readVoid(organizationId, given)
      const { invoiceId } = call.input
      const set = { status: VOID.to, isOnlyIfUnpaid: true }
      const change = changeOf(call, { recordId: invoiceId, from: VOID.from, set, events: [] })
      return changedItem(call, await store.invoices.change(change), REFUSALS)
    },

    async markOverdue(organizationId, options = {}) {
      const { organizationId: owner, input, making } = readOverdue(organizationId, options)
      const { asOf = null, limit } = input
      return store.invoices.markOverdue(overdueRequest({ organizationId: owner, asOf, limit }, making))
    },
  }
}

const DUE_BEFORE_ISSUE = [INVALID_INPUT, 'its dueDate must not be before its issueDate'] as const

const REFUSALS: Readonly<Record<InvoiceRefusal, Refusal>> = {
  paid: [INVALID_STATE, 'something was paid already'],
  due_before_issue: DUE_BEFORE_ISSUE,
}

function newInvoice(
  { action, input, making }: Call<v.InferOutput<typeof CreateSchema>>,
  decimals: number,
): NewRecord {
  const { number, issueDate = toTimestamp(making.now), dueDate, currency } = input
  const total = withDecimals(input.total, decimals)
  if (total === null) {
    throw new BusinessApiError(INVALID_INPUT, `${action} as its total must be no finer than its currency`)
  }
  if (dueDate < issueDate) {
    const [code, text] = DUE_BEFORE_ISSUE
    throw new BusinessApiError(code, `${action} as ${text}`)
  }
  return {
    id: making.ids('inv'),
    number: number ?? seriesOf('INV', issueDate),
    status: 'draft',
    currency,
    issueDate,
    dueDate,
    total,
    amountPaid: withDecimals('0', decimals) ?? '0',
    amountDue: total,
    minorUnits: decimals,
  }
}

// --- Events ---

function invoiceIssued(invoiceId: string, making: Making): RecordedEvent {
  const data = {
    invoiceId,
    number: blank('number'),
    currency: blank('currency'),
    total: blank('total'),
    dueDate: blank('dueDate'),
  }
  return recordWithBlanks(invoiceEvents, 'invoice.issued', data, making)
}

function paymentReceived(paymentId: string, invoiceId: string, making: Making): RecordedEvent {
  const data = {
    paymentId,
    invoiceId,
    number: blank('number'),
    currency: blank('currency'),
    amount: blank('amount'),
    amountPaid: blank('amountPaid'),
    amountDue: blank('amountDue'),
  }
  return recordWithBlanks(invoiceEvents, 'payment.received', data, making)
}

function invoicePaid(invoiceId: string, making: Making): RecordedEvent {
  return recordWithBlanks(invoiceEvents, 'invoice.paid', { invoiceId, number: blank('number') }, making)
}
