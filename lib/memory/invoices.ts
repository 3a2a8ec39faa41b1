import { minorUnits } from '../currencies.ts'
import { BusinessApiError, INVALID_INPUT } from '../errors.ts'
import type { Invoice, InvoiceStore } from '../invoices.ts'
import { subtract, withDecimals } from '../money.ts'
import { admitToPage } from './admission.ts'
import { commit, draft, judgeKey, keepOnce, refuseTakenNumber } from './creation.ts'
import type { Memory } from './memory.ts'

/** Invoices in memory. */
export function createInvoiceStore(memory: Memory): InvoiceStore {
  return {
    async list(request, limit) {
      return admitToPage(memory, request, limit, (organization) => organization.invoices)
    },

    async create(creation) {
      const invoice = draft(memory, creation, ({ id }) => id)
      const { organization, record } = invoice
      return (
        judgeKey(invoice) ??
        commit(invoice, () => {
          refuseTakenNumber(organization.invoices, record)
          keepOnce(organization.invoices, record.id, withMoney(record))
        })
      )
    },
  }
}

/** The invoice with its money in the currency's decimals, and what is due computed of the rest. */
function withMoney(invoice: Invoice): Invoice {
  const decimals = minorUnits(invoice.currency)
  const total = withDecimals(invoice.total, decimals)
  const amountPaid = withDecimals(invoice.amountPaid, decimals)
  const amountDue = total && amountPaid && subtract(total, amountPaid, decimals)
  if (!total || !amountPaid || !amountDue) {
    throw new BusinessApiError(
      INVALID_INPUT,
      'Cannot create the record as its money breaks a rule of its currency',
    )
  }
  return { ...invoice, total, amountPaid, amountDue }
}
