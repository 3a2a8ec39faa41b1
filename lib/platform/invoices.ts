import * as v from 'valibot'
import { ActorSchema } from '../access/audit.ts'
import {
  ALREADY_EXISTS,
  BusinessApiError,
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
  OVERPAYMENT,
} from '../base/errors.ts'
import { defineCall, type Fields, found, IdSchema, MomentSchema, newIdOf, whole } from '../base/host-input.ts'
import { type Page, type PageQuery, readPage, recordPageEntries } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import { seriesOf } from '../resources/document-numbers.ts'
import {
  DUE_STATUSES,
  type Invoice,
  type InvoiceFilter,
  type InvoiceRecord,
  type InvoiceRefusal,
  invoiceEvents,
  type PaidInvoice,
  type Payment,
  type PaymentFacts,
  type PaymentRefusal,
  type StoredInvoice,
} from '../resources/invoices.ts'
import { isZero, withDecimals } from '../resources/money.ts'
import { overdueRequest } from '../resources/overdue.ts'
import { buildEventTemplate, type EventRecord } from '../writes/event-envelope.ts'
import { placeholder } from '../writes/placeholders.ts'
import { toTimestamp, type WriteContext } from '../writes/write-context.ts'
import {
  type CallOptions,
  type CallTools,
  changed,
  createBuildWrite,
  created,
  numberedRepresentation,
  type Refusal,
  refused,
  type WriteCall,
} from './calls.ts'
import { CurrencySchema, MoneyOrZeroSchema, MoneySchema, NumberSchema } from './inputs.ts'
import { createReads, StatesSchema } from './reads.ts'

// Longer than 250 lines: an invoice has more transitions than any other record, and each is documented for hosts.

// --- Types ---

/** An invoice to be created. Moments are a `Date`, or ISO 8601 with a time zone. */
export interface NewInvoice extends CallOptions {
  /** ISO 4217. */
  readonly currency: string
  /** A decimal string no finer than the currency: `1250.000` or `1250` TND. An invoice over `0` is paid when it is issued. */
  readonly total: string
  /** Not before the issue date. */
  readonly dueDate: Date | string
  /** The planned date of issue; the number contains the year of this date. Default now. */
  readonly issueDate?: Date | string | undefined
  /** 1 to 64 characters, unique in the organization. Default the next number of the year's series: `INV-2026-0042`. */
  readonly number?: string | undefined
}

/** An invoice by name. */
export interface InvoiceRef extends CallOptions {
  readonly invoiceId: string
}

/** The issue of an invoice. */
export interface InvoiceIssue extends InvoiceRef {
  /** Default the date of the draft. */
  readonly issueDate?: Date | string | undefined
  /** Default the date of the draft. */
  readonly dueDate?: Date | string | undefined
}

/** A payment of an invoice. */
export interface NewPayment extends InvoiceRef {
  /** Above zero, a decimal string no finer than the invoice's currency and no more than the amount due. */
  readonly amount: string
  /** A `Date`, or ISO 8601 with a time zone. Default now. */
  readonly receivedAt?: Date | string | undefined
}

/** The reversal of a payment: a mistake, a bounced cheque, a chargeback. */
export interface NewReversal extends InvoiceRef {
  readonly paymentId: string
  /** The id of the reversal, `pay_<ulid>`: the same call sent again reverses nothing again. Default a new id. */
  readonly id?: string | undefined
  /** A `Date`, or ISO 8601 with a time zone. Default now. */
  readonly reversedAt?: Date | string | undefined
  /** The host's name for the person or program that reverses, for the audit: 1 to 200 characters. Default null. */
  readonly actor?: string | null | undefined
}

/** Selects the invoices to list; an absent field selects all. */
export interface InvoiceQuery extends PageQuery, InvoiceFilter<Date | string> {}

/** Options of `markOverdue`. */
export interface OverdueOptions {
  /** Invoices due before this moment. Default now, by the store's clock. */
  readonly asOf?: Date | string
  /** Invoices at most, 1 to 1000. Default 100. */
  readonly limit?: number
}

/**
 * The host's calls about invoices. Every call with an invoice's id throws `not_found` for an id that the organization does
 * not have, and `invalid_state` when the status does not allow the call.
 */
export interface InvoiceCalls {
  /**
   * Creates a draft. Publishes nothing.
   *
   * @throws `BusinessApiError` with code `already_exists` when another invoice has the number, `invalid_input` for money
   *   finer than the currency and a due date before the issue date
   */
  create(organizationId: string, invoice: NewInvoice): Promise<Invoice>
  /**
   * Draft → issued; an invoice with nothing to pay becomes paid. Publishes `invoice.issued`, and then `invoice.paid` of a paid invoice.
   *
   * @throws `BusinessApiError` with code `invalid_input` for an issue date after the due date
   */
  issue(organizationId: string, invoice: InvoiceIssue): Promise<Invoice>
  /**
   * Adds a payment to an issued, partially paid or overdue invoice, and gives the payment with the invoice afterwards. The invoice becomes paid when nothing is left to pay, else
   * partially paid, or stays overdue. Publishes `payment.received`, and then `invoice.paid` exactly when the invoice is settled
   * (specification, section 6, rule 2), for any number of payments, also at the same time.
   *
   * @throws `BusinessApiError` with code `overpayment` for more than the amount due, `invalid_input` for money finer than the
   *   currency
   */
  recordPayment(organizationId: string, payment: NewPayment): Promise<PaidInvoice>
  /**
   * Takes a whole payment back, once, by a payment below zero, and gives that with the invoice afterwards. A paid invoice becomes overdue
   * after its due date; before, and from partially paid, it becomes partially paid or issued. An overdue invoice stays overdue. Publishes
   * nothing, and leaves the audit entry `payment.reversed`.
   *
   * @throws `BusinessApiError` with code `not_found` when the invoice has no such payment, `invalid_state` for a payment that was
   *   reversed and for a reversal, `already_exists` when another payment has the `id`
   */
  reversePayment(organizationId: string, reversal: NewReversal): Promise<PaidInvoice>
  /** Draft, issued or overdue → void, as long as nothing was paid. Void is final. Publishes nothing. */
  void(organizationId: string, invoice: InvoiceRef): Promise<Invoice>
  /**
   * Marks issued and partially paid invoices overdue that are due: at most `limit` in a call, the longest due first. A host
   * repeats the call on a schedule until it returns fewer invoices than the limit, or leaves the work to the delivery loop.
   * Publishes `invoice.overdue` for each.
   *
   * @returns the invoices that this call has marked
   */
  markOverdue(organizationId: string, options?: OverdueOptions): Promise<readonly Invoice[]>
  /**
   * Lists invoices, newest first. With `dueAfter` or `dueBefore` the list has issued, partially paid and overdue invoices only,
   * the latest due date first.
   *
   * @throws `BusinessApiError` with code `invalid_input` for `dueAfter` or `dueBefore` with another status
   */
  list(organizationId: string, query?: InvoiceQuery): Promise<Page<StoredInvoice>>
  /** Gives an invoice. */
  get(organizationId: string, invoiceId: string): Promise<StoredInvoice>
  /** Lists the payments of an invoice, reversals too, newest first. */
  payments(organizationId: string, invoiceId: string, query?: PageQuery): Promise<Page<Payment>>
}

// --- Transitions (decisions on section 3 of the specification) ---

const ISSUE = { from: ['draft'], to: 'issued' } as const
const VOID = { from: ['draft', 'issued', 'overdue'], to: 'void' } as const
const PAY = {
  from: ['issued', 'partially_paid', 'overdue'],
  settled: 'paid',
  unsettled: { issued: 'partially_paid' },
} as const

const REVERSED = {
  'paid past due': 'overdue',
  'paid unpaid': 'issued',
  paid: 'partially_paid',
  'partially_paid unpaid': 'issued',
} as const

// --- Inputs ---

const CREATE_FIELDS = {
  currency: CurrencySchema,
  total: MoneyOrZeroSchema,
  dueDate: MomentSchema,
  issueDate: v.exactOptional(MomentSchema),
  number: v.exactOptional(NumberSchema),
}
const ISSUE_FIELDS = {
  invoiceId: IdSchema,
  issueDate: v.exactOptional(MomentSchema),
  dueDate: v.exactOptional(MomentSchema),
}
const REF_FIELDS = { invoiceId: IdSchema }
const PAY_FIELDS = {
  invoiceId: IdSchema,
  amount: MoneySchema,
  receivedAt: v.exactOptional(MomentSchema),
}
const REVERSE_FIELDS = {
  invoiceId: IdSchema,
  paymentId: IdSchema,
  id: v.exactOptional(newIdOf('pay')),
  reversedAt: v.exactOptional(MomentSchema),
  actor: ActorSchema,
}
const MARK_OVERDUE_FIELDS = {
  asOf: v.exactOptional(MomentSchema),
  limit: v.exactOptional(whole(1, 1000), 100),
}
const FILTER = {
  statuses: v.exactOptional(StatesSchema),
  number: v.exactOptional(NumberSchema),
  dueAfter: v.exactOptional(MomentSchema),
  dueBefore: v.exactOptional(MomentSchema),
}

// --- Calls ---

/** Builds the calls about invoices. */
export function createInvoiceCalls(store: Pick<RecordStore, 'invoices'>, tools: CallTools): InvoiceCalls {
  const { minorUnits } = tools
  const build = createBuildWrite(tools)

  const readPayments = defineCall('Cannot list the payments of the invoice', {
    ...REF_FIELDS,
    ...recordPageEntries(),
  })

  return {
    ...createReads(['invoice', 'invoices'], FILTER, () => store.invoices, checkFilter),

    async payments(organizationId, invoiceId, query) {
      const { action, organizationId: owner, input } = readPayments(organizationId, { ...query, invoiceId })
      const list = (count: number) => store.invoices.listPayments(owner, input.invoiceId, count, input.before)
      return readPage(input.limit, async (count) => found(await list(count), action))
    },

    create: build('invoices.create', 'Cannot create the invoice', CREATE_FIELDS, async (call) => {
      const record = newInvoice(call, minorUnits(call.input.currency))
      const prepared = { record, representation: numberedRepresentation(record), events: [] }
      return created(call, prepared, (creation) => store.invoices.create(creation))
    }),

    issue: build('invoices.issue', 'Cannot issue the invoice', ISSUE_FIELDS, async (call) => {
      const { invoiceId, ...dates } = call.input
      // The total of a draft never changes.
      const draft = await store.invoices.get(call.organizationId, invoiceId)
      const isSettled = draft !== null && isZero(draft.amountDue)
      const set = { status: isSettled ? PAY.settled : ISSUE.to, ...dates }
      // In the order of the events: later events get later ids.
      const issued = invoiceIssued(invoiceId, call.context)
      const events = isSettled ? [issued, invoicePaid(invoiceId, call.context)] : [issued]
      const change = { recordId: invoiceId, from: ISSUE.from, set, events }
      return changed(call, change, (given) => store.invoices.change(given), REFUSALS)
    }),

    recordPayment: build('invoices.recordPayment', 'Cannot record the payment', PAY_FIELDS, async (call) => {
      const { invoiceId, amount, receivedAt = toTimestamp(call.context.now) } = call.input
      const payment = { id: call.context.ids('pay'), amount, receivedAt }
      // In the order of the events: later events get later ids.
      const events = [paymentReceived(payment.id, invoiceId, call.context)]
      const settledEvents = [invoicePaid(invoiceId, call.context)]
      const set = { payment, settledStatus: PAY.settled, unsettledStatus: PAY.unsettled, settledEvents }
      const change = { recordId: invoiceId, from: PAY.from, set, events }
      return changed(call, change, (given) => store.invoices.pay(given), PAYMENT_REFUSALS)
    }),

    reversePayment: build(
      'invoices.reversePayment',
      'Cannot reverse the payment',
      REVERSE_FIELDS,
      async (call) => {
        const { ids, now } = call.context
        const { invoiceId, paymentId, id = ids('pay'), reversedAt = toTimestamp(now), actor } = call.input
        const details = { invoiceId, reversalId: id }
        const entry = {
          id: ids('aud'),
          actor,
          action: 'payment.reversed',
          subjectId: paymentId,
          details,
        } as const
        const payment = { id, amount: '0', receivedAt: reversedAt }
        const statuses = { settledStatus: PAY.settled, unsettledStatus: REVERSED }
        const set = { payment, ...statuses, settledEvents: [], reverses: { paymentId, entry } }
        const change = { recordId: invoiceId, set }
        return changed(call, change, (given) => store.invoices.pay(given), PAYMENT_REFUSALS)
      },
    ),

    void: build('invoices.void', 'Cannot void the invoice', REF_FIELDS, async (call) => {
      const set = { status: VOID.to, isOnlyIfUnpaid: true }
      const change = { recordId: call.input.invoiceId, from: VOID.from, set }
      return changed(call, change, (given) => store.invoices.change(given), REFUSALS)
    }),

    markOverdue: build(
      'invoices.markOverdue',
      'Cannot mark invoices overdue',
      MARK_OVERDUE_FIELDS,
      async ({ organizationId, input: { asOf = null, limit }, context }) =>
        store.invoices.markOverdue(overdueRequest({ organizationId, asOf, limit }, context)),
      { judgesUndefined: true },
    ),
  }
}

function checkFilter({ statuses = [], dueAfter, dueBefore }: InvoiceFilter, action: string): void {
  const isByDueDate = dueAfter !== undefined || dueBefore !== undefined
  const due: readonly string[] = DUE_STATUSES
  if (isByDueDate && statuses.some((status) => !due.includes(status))) {
    const text = `with dueAfter or dueBefore the statuses must be of ${due.join(', ')}`
    throw new BusinessApiError(INVALID_INPUT, `${action} because ${text}`, { fields: ['statuses'] })
  }
}

const DUE_BEFORE_ISSUE: Refusal = [
  INVALID_INPUT,
  'its dueDate must not be before its issueDate',
  ['dueDate', 'issueDate'],
]

const REFUSALS: Readonly<Record<InvoiceRefusal, Refusal>> = {
  paid: [INVALID_STATE, 'something was paid already'],
  due_before_issue: DUE_BEFORE_ISSUE,
}

const PAYMENT_REFUSALS: Readonly<Record<PaymentRefusal, Refusal>> = {
  too_fine: [INVALID_INPUT, 'its amount must be no finer than the currency of the invoice', ['amount']],
  overpaid: [OVERPAYMENT, 'its amount is more than is due', ['amount']],
  no_payment: [NOT_FOUND, 'the invoice has no payment of that id', ['paymentId']],
  reversed: [INVALID_STATE, 'it was reversed before, or is a reversal', ['paymentId']],
  id_taken: [ALREADY_EXISTS, 'another payment has the id of the reversal', ['id']],
}

function newInvoice(
  { action, input, context }: WriteCall<Fields<typeof CREATE_FIELDS>>,
  decimals: number,
): InvoiceRecord {
  const { number, issueDate = toTimestamp(context.now), dueDate, currency } = input
  const total = withDecimals(input.total, decimals)
  if (total === null) {
    throw refused(action, [INVALID_INPUT, 'its total must be no finer than its currency', ['total']])
  }
  if (dueDate < issueDate) throw refused(action, DUE_BEFORE_ISSUE)
  return {
    id: context.ids('inv'),
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

function invoiceIssued(invoiceId: string, context: WriteContext): EventRecord {
  const data = {
    invoiceId,
    number: placeholder<Invoice>('number'),
    currency: placeholder<Invoice>('currency'),
    total: placeholder<Invoice>('total'),
    dueDate: placeholder<Invoice>('dueDate'),
  }
  return buildEventTemplate(invoiceEvents, 'invoice.issued', data, context)
}

function paymentReceived(paymentId: string, invoiceId: string, context: WriteContext): EventRecord {
  const data = {
    paymentId,
    invoiceId,
    number: placeholder<Invoice>('number'),
    currency: placeholder<Invoice>('currency'),
    amount: placeholder<PaymentFacts>('amount'),
    amountPaid: placeholder<Invoice>('amountPaid'),
    amountDue: placeholder<Invoice>('amountDue'),
  }
  return buildEventTemplate(invoiceEvents, 'payment.received', data, context)
}

function invoicePaid(invoiceId: string, context: WriteContext): EventRecord {
  return buildEventTemplate(
    invoiceEvents,
    'invoice.paid',
    { invoiceId, number: placeholder<Invoice>('number') },
    context,
  )
}
