import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createPlatform } from '../../lib/platform.ts'

/** Publishes an event of the organization on each call. */
export function publishTo(store: BusinessApiStore, organizationId: string): () => Promise<string> {
  const platform = createPlatform(store)
  const ticket = { ticketId: 'tic_1', subject: 'Help', status: 'open' }
  return () => platform.publish(organizationId, 'support.ticket_created', ticket)
}
