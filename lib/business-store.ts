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

/** The slices for records and events. The host's own code can use these, even within a transaction. */
export interface RecordStore extends RecordSlices {
  readonly events: EventStore
  readonly imports: ImportStore
}

/** The slices available in the host's transaction. */
export interface TransactionStore extends RecordStore {
  readonly replies: ReplyStore
}

/** How this process uses a store's connections. */
export interface ConnectionUse {
  /** Maximum number of connections. */
  readonly max: number
  /** Number of statements that have a connection. */
  readonly inUse: number
  /** Number of statements waiting for a connection. */
  readonly waiting: number
  /** Number of statements rejected because too many were waiting, since the store was created. */
  readonly refused: number
  /** Number of statements that timed out while waiting, since the store was created. */
  readonly timedOut: number
}

/**
 * All of the library's state. There's one slice per resource, declared in the resource's file.
 *
 * These rules apply to every slice:
 *
 * - Methods are atomic. Either everything is written or nothing is, even if the process crashes.
 * - Methods only read and write a single organization's data. Another organization's ids count as unknown.
 * - After losing a result, you can repeat a write with the same ids. Nothing is written twice.
 * - The store's clock determines what is expired, revoked, limited or due. Record timestamps are passed in.
 * - Names of times include the unit. Timestamps are ISO 8601 in UTC with milliseconds.
 * - If the store is unreachable, methods throw `storeUnavailable(…)`. Any other error is treated as a bug.
 * - Callers don't modify returned values, and stores don't modify arguments.
 */
export interface BusinessApiStore extends RecordStore {
  /** The service that all parts of the host share. See `defineService(…)`. */
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
  /** Optional. Absent if the store's data can't be copied. */
  readonly installation?: InstallationStore
  /**
   * Marks the start of an API request, so the store can wait for running requests before it closes. Optional.
   *
   * @returns a function to call at the end of the request
   * @throws `BusinessApiError` with code `store_unavailable` if the store is closing or closed
   */
  beginRequest?(): () => void
  /** The shards in a sharded store. Metrics use their names as the `shard` label. Absent for a single store. */
  readonly shards?: readonly { readonly name: string; readonly store: BusinessApiStore }[]
  /**
   * Finds an API key's organization on the shards that may contain the key. Optional, only for sharded stores.
   *
   * @param slot the slot found in the key, or `null` for a key without a slot, which could be on any shard
   * @param lookUp looks up the key on one shard, using `identify` with the slot
   * @returns the first organization found, or `null` if all these shards have responded and don't have the key
   */
  findKey?(
    slot: number | null,
    lookUp: (shard: Pick<BusinessApiStore, 'apiKeys'>) => Promise<string | null>,
  ): Promise<string | null>
  /** Returns the store's current connection stats for metrics. Absent if the store doesn't use connections. */
  connectionUse?(): ConnectionUse
}
