import { clientRoutes } from '../clients.ts'
import { invoiceRoutes } from '../invoices.ts'
import { leadRoutes } from '../leads.ts'
import { projectRoutes } from '../projects.ts'
import { proposalRoutes } from '../proposals.ts'
import type { Route } from '../route.ts'
import type { BusinessStore } from '../store.ts'

/** Every operation under /api/v1 (specification, section 4), each resource with its own slice of the store. */
export function createRoutes(store: BusinessStore): readonly Route[] {
  return [
    ...clientRoutes(store.clients),
    ...leadRoutes(store.leads),
    ...invoiceRoutes(store.invoices),
    ...proposalRoutes(store.proposals),
    ...projectRoutes(store.projects),
  ]
}
