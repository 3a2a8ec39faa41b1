import type { InvoiceStore } from '../resources/invoices.ts'
import { overdueRequest } from '../resources/overdue.ts'
import type { MaintenanceTask } from './maintenance.ts'

/** Invoices that a part marks at most. */
const OVERDUE_LIMIT = 500

/**
 * Creates the task that marks invoices of all organizations overdue, by the store's clock.
 *
 * @throws `TypeError` for a store without invoices
 */
export function createOverdueMarking(store: Pick<InvoiceStore, 'markOverdue'> | undefined): MaintenanceTask {
  if (store === undefined) {
    throw new TypeError("Cannot use option 'markOverdue' because the store has no slice 'invoices'")
  }
  const all = { organizationId: null, asOf: null, limit: OVERDUE_LIMIT }
  return async () => {
    const marked = await store.markOverdue(overdueRequest(all, { now: Date.now() }))
    return marked.length < OVERDUE_LIMIT
  }
}
