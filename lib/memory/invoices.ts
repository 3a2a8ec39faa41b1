import { INVALID_INPUT, refused } from '../base/errors.ts'
import { shownFields } from '../resources/columns.ts'
import { minorUnits } from '../resources/currencies.ts'
import {
  DUE_STATUSES,
  type Invoice,
  type InvoiceFilter,
  type InvoiceRecord,
  type InvoiceRefusal,
  type InvoiceRow,
  type InvoiceStore,
  invoiceTable,
  type OverdueRequest,
  type PaidInvoice,
  type Payment,
  type PaymentRefusal,
  type Settlement,
} from '../resources/invoices.ts'
import { isNegative, isZero, subtract, withDecimals } from '../resources/money.ts'
import type { Change } from '../writes/change.ts'
import { render } from '../writes/placeholders.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { recordEntry } from './audit.ts'
import { applyChange, type Decision } from './change.ts'
import { commit, draft, judgeKey, storeOnce } from './creation.ts'
import { numberOf } from './document-numbers.ts'
import { storeEvent } from './events.ts'
import { isOneOf, isValue, listRecords } from './record-list.ts'
import { readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the in-memory slice for invoices. */
export function createInvoiceStore(memory: Memory): InvoiceStore {
  return {
    ...readSlice(memory, {
      records: ({ records }) => records.invoice,
      shown,
      stored: shown,
      isWanted: (invoice, filter: InvoiceFilter) =>
        isSelected(invoice, filter) && (!isByDueDate(filter) || isDue(invoice, filter)),
      keyOf: (filter) => (isByDueDate(filter) ? sortKeyOf : undefined),
    }),

    async create(creation) {
      const invoice = draft(memory, creation)
      const { organization, record } = invoice
      const judged = judgeKey(invoice)
      if (judged) return judged
      const money = moneyOf(record)
      const number = numberOf(organization, organization.records.invoice, record)
      const row = { ...record, ...money, number }
      const write = (): void => storeOnce(organization.records.invoice, row.id, row)
      return { ...commit(invoice, write, { number }), number }
    },

    async change(change) {
      return applyChange<InvoiceRow, Invoice, InvoiceRefusal>(memory, change, {
        ...OF_INVOICE,
        decide(invoice) {
          const { isOnlyIfUnpaid = false, ...changes } = change.set
          if (isOnlyIfUnpaid && !isZero(invoice.amountPaid)) return { refused: 'paid' }
          const changed = { ...invoice, ...changes }
          const isDated = changes.issueDate !== undefined || changes.dueDate !== undefined
          if (isDated && changed.dueDate < changed.issueDate) return { refused: 'due_before_issue' }
          return { record: changed }
        },
      })
    },

    async pay(change) {
      const { payment } = change.set
      const represent = (invoice: InvoiceRow, { records }: Organization): PaidInvoice => {
        const { id, amount, receivedAt } = records.payment.get(payment.id) ?? payment
        return { invoice: shown(invoice), payment: { id, amount, receivedAt } }
      }
      return applyChange<InvoiceRow, PaidInvoice, PaymentRefusal>(memory, change, {
        ...OF_INVOICE,
        represent,
        decide(invoice, organization) {
          const { reverses } = change.set
          const reversed = organization.records.payment.get(reverses?.paymentId ?? '')
          if (reversed?.invoiceId === invoice.id && reversed.reversedBy === payment.id)
            return { record: invoice, events: [] }
          return pay(memory, invoice, organization, change)
        },
      })
    },

    async markOverdue(request) {
      const organizations =
        request.organizationId === null
          ? [...memory.organizations()]
          : [memory.organization(request.organizationId)]
      const asOf = request.asOf ?? toTimestamp(memory.clock())
      return organizations
        .flatMap((organization) => {
          const due = [...organization.records.invoice.values()].filter((invoice) => isOverdue(invoice, asOf))
          return due.map((invoice) => ({ organization, invoice }))
        })
        .sort((one, other) => (sortKeyOf(one.invoice) < sortKeyOf(other.invoice) ? -1 : 1))
        .slice(0, request.limit)
        .map(({ organization, invoice }) => markOverdue(memory, organization, invoice, request))
    },

    async listPayments(organizationId, invoiceId, limit, before) {
      const { invoice, payment } = memory.organization(organizationId).records
      if (!invoice.has(invoiceId)) return null
      const ofInvoice = [...payment.values()].filter((paid) => paid.invoiceId === invoiceId)
      const plain = ofInvoice.map(({ invoiceId: _, ...payment }): Payment => payment)
      return listRecords(plain, { limit, before })
    },
  }
}

function isByDueDate({ dueAfter, dueBefore }: InvoiceFilter): boolean {
  return dueAfter !== undefined || dueBefore !== undefined
}

function isSelected({ status, number }: Invoice, filter: InvoiceFilter): boolean {
  return isOneOf(filter.statuses, status) && isValue(filter.number, number)
}

function isDue({ status, dueDate }: Invoice, { dueAfter, dueBefore }: InvoiceFilter): boolean {
  return (
    isOneOf(DUE_STATUSES, status) &&
    (dueAfter === undefined || dueDate >= dueAfter) &&
    (dueBefore === undefined || dueDate < dueBefore)
  )
}

const OF_INVOICE = {
  records: ({ records }: Organization) => records.invoice,
  stateOf: ({ status }: Invoice) => status,
  represent: shown,
}

function shown(invoice: InvoiceRow): Invoice {
  return shownFields<Fields, Invoice>(invoiceTable, invoice)
}

type Fields = Omit<InvoiceRow, 'amountDue'>

// --- Money ---

type Money = Pick<InvoiceRow, 'total' | 'amountPaid' | 'amountDue' | 'minorUnits'>

/** Formats a new invoice's amounts with the currency's number of decimal places and calculates the amount due. */
function moneyOf(invoice: InvoiceRecord): Money {
  const decimals = invoice.minorUnits ?? minorUnits(invoice.currency)
  const total = withDecimals(invoice.total, decimals)
  const amountPaid = withDecimals(invoice.amountPaid, decimals)
  const amountDue = total && amountPaid && subtract(total, amountPaid, decimals)
  if (!total || !amountPaid || !amountDue) {
    throw refused('Cannot create the record', INVALID_INPUT, 'an amount violates a rule of its currency')
  }
  return { total, amountPaid, amountDue, minorUnits: decimals }
}

function pay(
  memory: Memory,
  invoice: InvoiceRow,
  organization: Organization,
  { set, events }: Change<Settlement>,
): Decision<InvoiceRow, PaidInvoice, PaymentRefusal> {
  const { payment: payments } = organization.records
  const { reverses, unsettledStatus } = set
  const decimals = invoice.minorUnits
  const reversed = payments.get(reverses?.paymentId ?? '')
  if (reverses) {
    if (reversed?.invoiceId !== invoice.id) return { refused: 'no_payment' }
    if (isNegative(reversed.amount) || reversed.reversedBy) return { refused: 'reversed' }
    if (payments.has(set.payment.id)) return { refused: 'id_taken' }
  }
  const amount = reversed ? `-${reversed.amount}` : withDecimals(set.payment.amount, decimals)
  if (amount === null) return { refused: 'too_fine' }
  const amountDue = subtract(invoice.amountDue, amount, decimals)
  const amountPaid = amountDue && subtract(invoice.total, amountDue, decimals)
  if (!amountDue || !amountPaid) return { refused: 'overpaid' }
  const isSettled = isZero(amountDue)
  const isPastDue = invoice.dueDate < toTimestamp(memory.clock())
  const unsettled =
    (isPastDue ? unsettledStatus[`${invoice.status} past due`] : undefined) ??
    (isZero(amountPaid) ? unsettledStatus[`${invoice.status} unpaid`] : undefined) ??
    unsettledStatus[invoice.status] ??
    invoice.status
  const paid = { ...invoice, status: isSettled ? set.settledStatus : unsettled, amountPaid, amountDue }
  const payment = { ...set.payment, amount }
  return {
    record: paid,
    representation: { invoice: shown(paid), payment },
    also() {
      payments.set(payment.id, { ...payment, invoiceId: paid.id })
      if (!reverses || !reversed) return
      payments.set(reversed.id, { ...reversed, reversedBy: payment.id })
      recordEntry(memory, organization, reverses.entry)
    },
    events: isSettled ? [...events, ...set.settledEvents] : events,
    facts: { ...paid, amount },
  }
}

// --- Overdue ---

function isOverdue({ status, dueDate, amountDue }: InvoiceRow, asOf: string): boolean {
  return ['issued', 'partially_paid'].includes(status) && !isZero(amountDue) && dueDate < asOf
}

function sortKeyOf({ dueDate, id }: Invoice): string {
  return `${dueDate} ${id}`
}

function markOverdue(
  memory: Memory,
  organization: Organization,
  invoice: InvoiceRow,
  { event }: OverdueRequest,
): Invoice {
  const marked = { ...invoice, status: 'overdue' }
  organization.records.invoice.set(marked.id, marked)
  const eventId = memory.ids('evt')
  const body = render(event.body, marked, { eventId })
  storeEvent(memory, organization, { ...event, id: eventId, subjectId: marked.id, body })
  return shown(marked)
}
