import * as v from 'valibot'
import { INVALID_INPUT, INVALID_STATE, refused } from '../base/errors.ts'
import { type Fields, IdSchema, MomentSchema, whole } from '../base/host-input.ts'
import type { PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import { seriesOf } from '../resources/document-numbers.ts'
import {
  DUE_STATUSES,
  type Invoice,
  type InvoiceFilter,
  type InvoiceRecord,
  type InvoiceRefusal,
  invoiceEvents,
  type StoredInvoice,
} from '../resources/invoices.ts'
import { isZero, withDecimals } from '../resources/money.ts'
import { overdueRequest } from '../resources/overdue.ts'
import { buildEventTemplate } from '../writes/event-envelope.ts'
import { toTimestamp } from '../writes/write-context.ts'
import {
  type CallOptions,
  type CallTools,
  changed,
  createBuildWrite,
  created,
  numberedRepresentation,
  type Refusal,
  type WriteCall,
} from './calls.ts'
import { CurrencySchema, MoneyOrZeroSchema, NumberSchema } from './inputs.ts'
import { createPaymentCalls, type PaymentCalls, SETTLED } from './payments.ts'
import { createReads, type Reads, StatesSchema } from './reads.ts'

// --- Types ---

/** A new invoice. Times can be a `Date` or ISO 8601 with a time zone. */
export interface NewInvoice extends CallOptions {
  /** ISO 4217 code. */
  readonly currency: string
  /**
   * A decimal string, for example `1250.000` or `1250` TND, with at most as many decimal places as the currency. An
   * invoice with a total of `0` becomes paid as soon as it's issued.
   */
  readonly total: string
  /** Can't be before the issue date. */
  readonly dueDate: Date | string
  /** The planned issue date. Its year is used in the number. Defaults to now. */
  readonly issueDate?: Date | string | undefined
  /** 1 to 64 characters, unique per organization. Defaults to the year's next number, such as `INV-2026-0042`. */
  readonly number?: string | undefined
}

/** Identifies an invoice. */
export interface InvoiceRef extends CallOptions {
  readonly invoiceId: string
}

/** Options for `issue`. */
export interface InvoiceIssue extends InvoiceRef {
  /** Defaults to the draft's date. */
  readonly issueDate?: Date | string | undefined
  /** Defaults to the draft's date. */
  readonly dueDate?: Date | string | undefined
}

/**
 * Filtering and paging options for invoices. Missing properties match everything. `dueAfter` and `dueBefore` only
 * return issued, partially paid and overdue invoices, latest due date first. In combination with any other status,
 * they're rejected with `invalid_input`.
 */
export interface InvoiceQuery extends PageQuery, InvoiceFilter<Date | string> {}

/** Options for `markOverdue`. */
export interface OverdueOptions {
  /** Marks invoices that were due before this time. Defaults to now, by the store's clock. */
  readonly asOf?: Date | string
  /** Maximum number of invoices, from 1 to 1000. Defaults to 100. */
  readonly limit?: number
}

/**
 * Invoice calls. Calls that take an invoice id throw `not_found` if the organization has no such invoice, and
 * `invalid_state` if the invoice's status doesn't allow the call.
 */
export interface InvoiceCalls extends PaymentCalls, Reads<StoredInvoice, InvoiceQuery> {
  /**
   * Creates a draft. Doesn't publish anything.
   *
   * @throws `BusinessApiError` with code `already_exists` if another invoice has the same number, `invalid_input` if
   * the total has too many decimal places or the due date is before the issue date
   */
  create(organizationId: string, invoice: NewInvoice): Promise<Invoice>
  /**
   * Draft → issued, or paid if nothing is due. Publishes `invoice.issued`, followed by `invoice.paid` if it's paid.
   *
   * @throws `BusinessApiError` with code `invalid_input` if the issue date is after the due date
   */
  issue(organizationId: string, invoice: InvoiceIssue): Promise<Invoice>
  /** Draft, issued or overdue → void, unless anything has been paid. Void is final. Doesn't publish anything. */
  void(organizationId: string, invoice: InvoiceRef): Promise<Invoice>
  /**
   * Marks issued and partially paid invoices as overdue, starting with the most overdue ones. Either call this on a
   * schedule (repeating the call while `limit` invoices are returned), or let the delivery loop do the work. Publishes
   * `invoice.overdue` for each invoice.
   *
   * @returns the invoices that this call marked as overdue
   */
  markOverdue(organizationId: string, options?: OverdueOptions): Promise<readonly Invoice[]>
}

// --- Transitions (see the decisions on section 3 of the spec) ---

const ISSUE = { from: ['draft'], to: 'issued' } as const
const VOID = { from: ['draft', 'issued', 'overdue'], to: 'void' } as const

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

/** Creates the invoice calls. */
export function createInvoiceCalls(store: Pick<RecordStore, 'invoices'>, tools: CallTools): InvoiceCalls {
  const { minorUnits } = tools
  const build = createBuildWrite(tools)

  return {
    ...createReads(['invoice', 'invoices'], FILTER, () => store.invoices, checkFilter),
    ...createPaymentCalls(store, tools),

    create: build('invoices.create', 'Cannot create the invoice', CREATE_FIELDS, async (call) => {
      const record = newInvoice(call, minorUnits(call.input.currency))
      const prepared = { record, representation: numberedRepresentation(record), events: [] }
      return created(call, prepared, (creation) => store.invoices.create(creation))
    }),

    issue: build('invoices.issue', 'Cannot issue the invoice', ISSUE_FIELDS, async (call) => {
      const { invoiceId, ...dates } = call.input
      // A draft's total never changes.
      const draft = await store.invoices.get(call.organizationId, invoiceId)
      const isSettled = draft !== null && isZero(draft.amountDue)
      const set = { status: isSettled ? SETTLED : ISSUE.to, ...dates }
      // Must be in publishing order because ids are assigned in this order.
      const types = ['invoice.issued', ...(isSettled ? ['invoice.paid' as const] : [])] as const
      const events = types.map((type) => buildEventTemplate(invoiceEvents, type, { invoiceId }, call.context))
      const change = { recordId: invoiceId, from: ISSUE.from, set, events }
      return changed(call, change, (given) => store.invoices.change(given), REFUSALS)
    }),

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
    throw refused(action, INVALID_INPUT, text, ['statuses'])
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

function newInvoice(
  { action, input, context }: WriteCall<Fields<typeof CREATE_FIELDS>>,
  decimals: number,
): InvoiceRecord {
  const { number, issueDate = toTimestamp(context.now), dueDate, currency } = input
  const total = withDecimals(input.total, decimals)
  if (total === null) {
    throw refused(action, INVALID_INPUT, `its total can have at most ${decimals} decimals for ${currency}`, [
      'total',
    ])
  }
  if (dueDate < issueDate) throw refused(action, ...DUE_BEFORE_ISSUE)
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
