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

// Times are milliseconds of the store's clock; records have timestamps as strings.

/** An API key with the state that changes. */
export interface StoredApiKey {
  /** Replaced as a whole with every change. */
  record: ApiKeyRecord
  revokedAt: string | null
  successorId: string | null
  lastUsedAt: string | null
  /** The time at which the key's bucket will be full again. */
  bucketFullAt: number
}

/** The stored reply of an idempotency key. */
export interface IdempotencyEntry {
  readonly fingerprint: string
  /** Identifies the entry of an earlier call, if the result was lost. */
  readonly recordId: string
  readonly reply: string
  readonly expiresAt: number
}

/** A webhook endpoint with the state that changes. */
export interface StoredEndpoint {
  readonly organizationId: string
  /** Replaced as a whole with every change. */
  record: EndpointRecord
  version: number
  state: EndpointState
  disabledReason: string | null
  failures: number
  failingSince: number | null
  /** The attempt with the result that made the endpoint failing or disabled, for repeated calls. */
  noticedAttempt: string | null
  previousSecret: { readonly sealed: string; readonly expiresAt: number } | null
  /** True for an endpoint that is kept for the log of its deliveries only. */
  isRemoved: boolean
  /** Null for an endpoint without a learned or chosen rate. */
  rate: EndpointRate | null
  /** Pending deliveries, so no claim searches all deliveries of the past. */
  readonly pending: Set<StoredDelivery>
}

/** An event with the deliveries of the event. */
export interface StoredEvent {
  readonly record: EventRecord
  readonly publishedAt: number
  /** Sorts all organizations' events by the time of recording. */
  readonly place: string
  readonly deliveries: readonly StoredDelivery[]
  /** The endpoint of a backfilled event; null for every other event. */
  readonly onlyEndpointId: string | null
}

/** A delivery with the log of attempts. */
export interface StoredDelivery extends Readonly<DeliveryProgress> {
  readonly id: string
  /** Replaced as a whole when the business of the event is forgotten. */
  event: EventRecord
  readonly endpoint: StoredEndpoint
  readonly createdAt: number
  readonly attemptLog: DeliveryAttempt[]
  /** True for a delivery of a backfill, which stands behind all other deliveries of the organization. */
  readonly isBackfill: boolean
}

/** An attempt in the counts of activity, which outlive the log. */
export interface CountedAttempt {
  /** Beginning of the hour. */
  readonly hour: number
  readonly endpoint: StoredEndpoint
  readonly counts: ActivityCounts
}

/** The fields of a delivery that change: see {@link Memory.move}. */
export interface DeliveryProgress {
  state: DeliveryState
  dueAt: number
  /** Attempts of all rounds, counted when claimed. */
  attempts: number
  /** Attempts of earlier rounds. */
  attemptsBefore: number
  reason: string | null
  finishedAt: number | null
  /** The claim of a delivery that is being sent, else null. */
  claim: { readonly token: string; readonly claimedAt: number; readonly leaseUntil: number } | null
}

/** The records of each kind, by id. */
type Records = { readonly [Kind in RecordKind]: SyncedRecords<RecordRow<Kind>> }

/** Everything that belongs to an organization, by id, without a reference to any other organization. */
export interface Organization {
  readonly id: string
  readonly apiKeys: Map<string, StoredApiKey>
  readonly records: Records
  /** The last number given in each series. */
  readonly numbers: Map<string, number>
  /** The ids of each record's changes, for calls that are repeated after a lost result. */
  readonly changes: Map<string, Set<string>>
  /** By operation and key: see `creation.ts`. */
  readonly idempotency: Map<string, IdempotencyEntry>
  /** Entries in the order of recording. */
  readonly events: Map<string, StoredEvent>
  readonly endpoints: Map<string, StoredEndpoint>
  readonly deliveries: Map<string, StoredDelivery>
  readonly audit: Map<string, AuditEntry>
  readonly activity: CountedAttempt[]
  readonly requests: Map<string, LoggedRequest>
  /** The limit of this organization; null for the default of the API. */
  rateLimit: RateLimit | null
  /** The time at which the organization's bucket will be full again. */
  bucketFullAt: number
}

/** The state that all slices of a store share. */
export interface Memory {
  readonly clock: Clock
  readonly changes: ChangeCount
  /** Makes the ids of records that the store itself adds. */
  readonly ids: Ids
  /** The maximum size of an event's body. */
  readonly maxEventBytes: number
  /** The organization with an id; empty before the first write. */
  organization(id: string): Organization
  organizations(): Iterable<Organization>
  /** Removes an organization with everything that it keeps. */
  remove(id: string): void
  /** The owner of each key's digest: the only lookup that cannot begin with the organization. */
  readonly digests: Map<string, { readonly organization: Organization; readonly key: StoredApiKey }>
  /** Deliveries being sent, of all organizations, in the order in which they were claimed. */
  readonly sending: Set<StoredDelivery>
  /** Changes a delivery, and moves the delivery into the collection of its state: pending, sending, or neither. */
  move(delivery: StoredDelivery, changes: Partial<DeliveryProgress>): void
  readonly wakeUp: WakeUpSignal
}

/** Creates a state without organizations. */
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
