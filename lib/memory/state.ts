import { randomUUID } from 'node:crypto'
import type { ApiKeyRecord } from '../access/api-keys.ts'
import type { AuditEntry } from '../access/audit.ts'
import type { RateLimit } from '../access/rate-limit.ts'
import type { LoggedRequest } from '../access/request-log.ts'
import { type Clock, createIds, type Ids } from '../base/ids.ts'
import { RECORD_KINDS, type RecordKind, type RecordRow } from '../resources/records.ts'
import type { ActivityCounts } from '../webhooks/activity.ts'
import type { DeliveryAttempt } from '../webhooks/claims.ts'
import type { DeliveryState } from '../webhooks/deliveries.ts'
import type { EndpointRate } from '../webhooks/endpoint-rate.ts'
import type { EndpointRecord, EndpointState } from '../webhooks/endpoints.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { type ChangeCount, createSyncedRecords, type SyncedRecords } from './synced-records.ts'
import { createWakeUpSignal, type WakeUpSignal } from './wake-up-signal.ts'

// Times are milliseconds on the store's clock. Records contain timestamps as strings.

/** An API key and its mutable state. */
export interface StoredApiKey {
  /** Replaced on every change. */
  record: ApiKeyRecord
  revokedAt: string | null
  successorId: string | null
  lastUsedAt: string | null
  /** When the key's bucket will be full again. */
  bucketFullAt: number
}

/** The reply stored for an idempotency key. */
export interface IdempotencyEntry {
  readonly fingerprint: string
  /** Identifies the entry of an earlier call whose response was lost. */
  readonly recordId: string
  readonly reply: string
  readonly expiresAt: number
}

/** A webhook endpoint and its mutable state. */
export interface StoredEndpoint {
  readonly organizationId: string
  /** Replaced on every change. */
  record: EndpointRecord
  version: number
  state: EndpointState
  disabledReason: string | null
  failures: number
  failingSince: number | null
  /** The attempt that made the endpoint failing or disabled it. Needed if a call is repeated. */
  noticedAttempt: string | null
  previousSecret: { readonly sealed: string; readonly expiresAt: number } | null
  /** `true` if the endpoint is kept only for its delivery log. */
  isRemoved: boolean
  /** `null` if no rate was learned or configured. */
  rate: EndpointRate | null
  /** Pending deliveries. Claims only search these, not the full history. */
  readonly pending: Set<StoredDelivery>
}

/** An event and its deliveries. */
export interface StoredEvent {
  readonly record: EventRecord
  readonly publishedAt: number
  /** Sort key for events across all organizations, by when they were recorded. */
  readonly place: string
  readonly deliveries: readonly StoredDelivery[]
  /** The endpoint, if the event was backfilled, otherwise `null`. */
  readonly onlyEndpointId: string | null
}

/** A delivery and its attempt log. */
export interface StoredDelivery extends Readonly<DeliveryProgress> {
  readonly id: string
  /** Replaced when the event's business is erased. */
  event: EventRecord
  readonly endpoint: StoredEndpoint
  readonly createdAt: number
  readonly attemptLog: DeliveryAttempt[]
  /** `true` for a backfill, which is sent after all of the organization's other deliveries. */
  readonly isBackfill: boolean
}

/** An attempt as counted in the activity stats, which we keep longer than the log. */
export interface CountedAttempt {
  /** The start of the hour in which the delivery was created. */
  readonly hour: number
  readonly endpoint: StoredEndpoint
  readonly counts: ActivityCounts
}

/** A delivery's mutable fields. See {@link Memory.move}. */
export interface DeliveryProgress {
  state: DeliveryState
  dueAt: number
  /** Number of attempts in all rounds, counted when claimed. */
  attempts: number
  /** Number of attempts in earlier rounds. */
  attemptsBefore: number
  reason: string | null
  finishedAt: number | null
  /** The current claim if the delivery is sending, otherwise `null`. */
  claim: { readonly token: string; readonly claimedAt: number; readonly leaseUntil: number } | null
}

type Records = { readonly [Kind in RecordKind]: SyncedRecords<RecordRow<Kind>> }

/** All of an organization's data, by id. Never refers to another organization. */
export interface Organization {
  readonly id: string
  readonly apiKeys: Map<string, StoredApiKey>
  readonly records: Records
  /** The last number assigned in each series. */
  readonly numbers: Map<string, number>
  /** The ids of each record's changes, which let us detect calls repeated after a lost response. */
  readonly changes: Map<string, Set<string>>
  /** Entries by operation and key. See `creation.ts`. */
  readonly idempotency: Map<string, IdempotencyEntry>
  /** Events in insertion order. */
  readonly events: Map<string, StoredEvent>
  readonly endpoints: Map<string, StoredEndpoint>
  readonly deliveries: Map<string, StoredDelivery>
  readonly audit: Map<string, AuditEntry>
  readonly activity: CountedAttempt[]
  readonly requests: Map<string, LoggedRequest>
  /** The organization's rate limit, or `null` if the API's default applies. */
  rateLimit: RateLimit | null
  /** When the organization's bucket will be full again. */
  bucketFullAt: number
}

/** The state that all slices in a store share. */
export interface Memory {
  readonly clock: Clock
  readonly changes: ChangeCount
  /** Generates ids for records that the store itself adds. */
  readonly ids: Ids
  /** Maximum event body size in bytes. */
  readonly maxEventBytes: number
  /** Returns the organization with this id. It's empty before the first write. */
  organization(id: string): Organization
  organizations(): Iterable<Organization>
  /** Removes an organization and all its data. */
  remove(id: string): void
  /** Key owners by digest. This is the only lookup that doesn't start with an organization. */
  readonly digests: Map<string, { readonly organization: Organization; readonly key: StoredApiKey }>
  /** Sending deliveries across all organizations, in claim order. */
  readonly sending: Set<StoredDelivery>
  /** Changes a delivery and moves it to the collection for the new state (pending, sending or none). */
  move(delivery: StoredDelivery, changes: Partial<DeliveryProgress>): void
  readonly wakeUp: WakeUpSignal
}

/** Creates an empty state. */
export function createMemory(clock: Clock, maxEventBytes: number): Memory {
  const organizations = new Map<string, Organization>()
  const sending = new Set<StoredDelivery>()
  const changes: ChangeCount = { storeId: randomUUID(), last: 0 }
  return {
    clock,
    changes,
    ids: createIds(clock),
    maxEventBytes,
    organization(id) {
      const organization = organizations.get(id) ?? createOrganization(id, changes, clock)
      organizations.set(id, organization)
      return organization
    },
    organizations: () => organizations.values(),
    remove: (id) => void organizations.delete(id),
    digests: new Map(),
    sending,
    move(delivery, changes) {
      Object.assign(delivery, changes)
      setMembership(delivery.endpoint.pending, delivery, delivery.state === 'pending')
      setMembership(sending, delivery, delivery.state === 'sending')
    },
    wakeUp: createWakeUpSignal(),
  }
}

function setMembership<T>(members: Set<T>, item: T, isMember: boolean): void {
  if (isMember) members.add(item)
  else members.delete(item)
}

function createOrganization(id: string, changes: ChangeCount, clock: Clock): Organization {
  return {
    id,
    apiKeys: new Map(),
    records: Object.fromEntries(
      RECORD_KINDS.map((kind) => [kind, createSyncedRecords(changes, clock)]),
    ) as object as Records,
    numbers: new Map(),
    changes: new Map(),
    idempotency: new Map(),
    events: new Map(),
    endpoints: new Map(),
    deliveries: new Map(),
    audit: new Map(),
    activity: [],
    requests: new Map(),
    rateLimit: null,
    bucketFullAt: 0,
  }
}
