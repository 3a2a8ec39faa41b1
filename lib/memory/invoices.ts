import type { InvoiceStore } from '../invoices.ts'
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
          keepOnce(organization.invoices, record.id, record)
        })
      )
    },
  }
}
