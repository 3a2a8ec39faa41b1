import type { ApiKeyStore } from './access/api-keys.ts'
import type { AuditStore } from './access/audit.ts'
import type { BusinessStore } from './resources/businesses.ts'
import type { ClientStore } from './resources/clients.ts'
import type { InvoiceStore } from './resources/invoices.ts'
import type { LeadStore } from './resources/leads.ts'
import type { ProjectStore } from './resources/projects.ts'
import type { ProposalStore } from './resources/proposals.ts'
import type { EventStore } from './resources/publishing.ts'
import type { DeliveryStore } from './webhooks/deliveries.ts'
import type { EndpointStore } from './webhooks/endpoints.ts'
import type { NoticeStore } from './webhooks/notices.ts'

/** Records and events: what the host's own code changes, also in a transaction of its own. */
export interface RecordStore {
  readonly businesses: BusinessStore
  readonly clients: ClientStore
  readonly leads: LeadStore
  readonly invoices: InvoiceStore
  readonly proposals: ProposalStore
  readonly projects: ProjectStore
  readonly events: EventStore
}

/**
 * All state of the library: one slice for each resource, declared in the resource's own file.
 *
 * Rules of every slice:
 *
 * - A verb is atomic: everything it writes is there afterwards or nothing is, also when the process dies in the middle.
 * - A verb sees and writes data of one organization only. An id of another organization is as absent as an unknown one.
 * - A verb that writes can be called again with the same ids after its answer was lost, and does no more than once.
 * - The store's clock decides what is expired, revoked, limited or due; timestamps of records come with the record.
 * - Times carry their unit in their name; timestamps are ISO 8601 in UTC with milliseconds.
 * - A store that cannot be reached throws `storeUnavailable(…)`; anything else thrown is taken for a bug.
 * - Nothing returned is changed by the caller, nothing passed is changed by the store.
 */
export interface BusinessApiStore extends RecordStore {
  readonly apiKeys: ApiKeyStore
  readonly endpoints: EndpointStore
  readonly deliveries: DeliveryStore
  readonly notices: NoticeStore
  readonly audit: AuditStore
  /**
   * Begins a request of the API. Optional: a store that can be closed waits for the requests under way.
   *
   * @returns ends the request
   * @throws `BusinessApiError` with code `store_unavailable` since the close began
   */
  beginRequest?(): () => void
}
