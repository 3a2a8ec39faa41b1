import type { InvoiceStore } from '../invoices.ts'
import { overdueRequest } from '../overdue.ts'
import type { Chore } from './chores.ts'

/** Invoices that one part marks at most. */
const OVERDUE_LIMIT = 500

/**
 * Marks invoices overdue, of all organizations, by the store's clock.
 *
 * @throws `TypeError` for a store without invoices
 */
export function createOverdueMarking(store: Pick<InvoiceStore, 'markOverdue'> | undefined): Chore {
  if (store === undefined) {
    throw new TypeError("Cannot use option 'markOverdue' as the store has no slice 'invoices'")
  }
  const all = { organizationId: null, asOf: null, limit: OVERDUE_LIMIT }
  return async () => {
    const marked = await store.markOverdue(overdueRequest(all, { now: Date.now() }))
    return marked.length < OVERDUE_LIMIT
  }
}
