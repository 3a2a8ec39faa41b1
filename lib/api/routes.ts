import type { BusinessApiStore } from '../business-store.ts'
import { clientRoutes } from '../resources/clients.ts'
import { invoiceRoutes } from '../resources/invoices.ts'
import { leadRoutes } from '../resources/leads.ts'
import { projectRoutes } from '../resources/projects.ts'
import { proposalRoutes } from '../resources/proposals.ts'
import type { Route } from '../resources/route.ts'

/** Every operation under /api/v1 (specification, section 4), each resource with a slice of the store. */
export function createRoutes(store: BusinessApiStore): readonly Route[] {
  return [
    ...clientRoutes(store.clients),
    ...leadRoutes(store.leads),
    ...invoiceRoutes(store.invoices),
    ...proposalRoutes(store.proposals),
    ...projectRoutes(store.projects),
  ]
}
