import type { ApiKeyStore } from './access/api-keys.ts'
import type { AuditStore } from './access/audit.ts'
import type { OrganizationStore } from './access/organizations.ts'
import type { RequestLogStore } from './access/request-log.ts'
import type { ImportStore } from './resources/imports.ts'
import type { EventStore } from './resources/publishing.ts'
import type { RecordSlices } from './resources/records.ts'
import type { Service } from './service.ts'
import type { BackfillStore } from './webhooks/backfill.ts'
import type { DeliveryStore } from './webhooks/deliveries.ts'
import type { EndpointStore } from './webhooks/endpoints.ts'
import type { EventLogStore } from './webhooks/event-log.ts'
import type { InstallationStore } from './webhooks/installation.ts'
import type { NoticeStore } from './webhooks/notices.ts'
import type { ReplyStore } from './writes/idempotency.ts'

/** The slices for records and events, which the host's own code changes, also in a transaction of the host. */
export interface RecordStore extends RecordSlices {
  readonly events: EventStore
  readonly imports: ImportStore
}

/** The slices in a transaction of the host. */
export interface TransactionStore extends RecordStore {
  readonly replies: ReplyStore
}

/** The use of a store's connections by this process. */
export interface ConnectionUse {
  /** Maximum number of connections. */
  readonly max: number
  /** Statements that have a connection. */
  readonly inUse: number
  /** Statements that wait for a connection. */
  readonly waiting: number
  /** Statements since the store was created that were rejected, because too many waited. */
  readonly refused: number
  /** Statements since the store was created that waited in vain until their deadline. */
  readonly timedOut: number
}

/**
 * All state of the library: one slice for each resource, declared in the file of the resource.
 *
 * Rules of every slice:
 *
 * - A verb is atomic: afterwards everything is written or nothing, also when the process dies in the middle.
 * - A verb sees and writes data of one organization only. An id of another organization is answered like an unknown id.
 * - A verb that writes can be called again with the same ids after its result was lost; the write happens once.
 * - The store's clock decides what is expired, revoked, limited or due; timestamps of records come with the record.
 * - Names of times carry the unit; timestamps are ISO 8601 in UTC with milliseconds.
 * - A store that cannot be reached throws `storeUnavailable(…)`; any other error counts as a bug.
 * - The caller changes no returned value, and the store changes no argument.
 */
export interface BusinessApiStore extends RecordStore {
  /** The names that all parts of a host share: `defineService(…)`. */
  readonly service: Service
  readonly apiKeys: ApiKeyStore
  readonly endpoints: EndpointStore
  readonly deliveries: DeliveryStore
  readonly notices: NoticeStore
  readonly audit: AuditStore
  readonly requests: RequestLogStore
  readonly organizations: OrganizationStore
  readonly backfills: BackfillStore
  readonly eventLog: EventLogStore
  /** Optional: missing in a store whose data cannot be copied. */
  readonly installation?: InstallationStore
  /**
   * Begins a request of the API. Optional: a store that can be closed waits for the requests under way.
   *
   * @returns ends the request
   * @throws `BusinessApiError` with code `store_unavailable` since the close began
   */
  beginRequest?(): () => void
  /** The shards of a store over shards: metrics have a label `shard`. Absent: the store is the only one. */
  readonly shards?: readonly { readonly name: string; readonly store: BusinessApiStore }[]
  /**
   * Finds the organization of an API key on the shards that may have the key. Optional: of a store over shards.
   *
   * @param slot the slot that the key carries; null for a key without one, which any shard may have
   * @param lookUp looks up the key on one shard: by `identify`, with the slot
   * @returns the first organization that is found; null once all these shards have answered, and none has the key
   */
  findKey?(
    slot: number | null,
    lookUp: (shard: Pick<BusinessApiStore, 'apiKeys'>) => Promise<string | null>,
  ): Promise<string | null>
  /** Tells the use of the store's connections at this moment, for metrics. Optional: missing in a store without connections. */
  connectionUse?(): ConnectionUse
}
