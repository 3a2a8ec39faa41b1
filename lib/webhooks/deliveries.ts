import type { AuditedRequest, AuditRecord } from '../access/audit.ts'
import type { ActivityRequest, StoredActivity } from './activity.ts'
import type { ClaimStore, DeliveryAttempt, EndpointRef } from './claims.ts'
import type { QueueCounts, QueueTarget } from './queue-counts.ts'

// This file is over 250 lines because half of it is documentation for store authors.

// --- Types ---

/**
 * - `pending`: will be sent as soon as it's due and the endpoint is enabled.
 * - `sending`: claimed by a process until its lease expires.
 * - `delivered`: the endpoint responded with 2xx.
 * - `failed`: won't be retried, see `reason`.
 * - `skipped`: the endpoint was disabled or removed.
 * - `cancelled`: an administrator cancelled it.
 * All states except `pending` and `sending` are final unless an administrator redelivers or recovers the delivery.
 */
export type DeliveryState = 'pending' | 'sending' | 'delivered' | 'failed' | 'skipped' | 'cancelled'

/** A delivery of an event to an endpoint, as shown in the delivery log (see section 6 of the spec, delivery rule 5). */
export interface Delivery {
  /** `dlv_<ulid>` */
  readonly id: string
  readonly eventId: string
  readonly type: string
  /** Id of the record that the event is about, such as an invoice, or `null` if there is none. */
  readonly subjectId: string | null
  readonly endpointId: string
  readonly state: DeliveryState
  /** Number of attempts so far, over all rounds. */
  readonly attempts: number
  /** When the next attempt is due, or `null` if the delivery isn't pending. */
  readonly dueAt: string | null
  /** Why the delivery failed or was skipped, such as `http_500`, `gone` or `endpoint_disabled`. Otherwise `null`. */
  readonly reason: string | null
  readonly createdAt: string
  /** When the delivery reached a final state, or `null` if it's still open. */
  readonly finishedAt: string | null
  /** HTTP status of the last attempt, or `null` if there was no attempt or no response. */
  readonly lastStatus: number | null
  /** Why the last attempt got no response. `null` if it did, or if there hasn't been an attempt. */
  readonly lastError: string | null
}

/** Response classes by first digit of the status, plus `none` for no response. */
export const RESPONSES = ['2xx', '3xx', '4xx', '5xx', 'none'] as const
/** A response class. */
export type ResponseClass = (typeof RESPONSES)[number]

/** A delivery with its event body and all attempts, oldest first. */
export interface DeliveryDetails extends Delivery {
  /** The envelope, exactly as sent. */
  readonly body: string
  readonly attemptLog: readonly DeliveryAttempt[]
}

/**
 * Filters deliveries. Missing properties match everything. When you call this from the host, times can be a `Date` or
 * ISO 8601 with a time zone. Stores only get ISO 8601.
 */
export interface DeliveryFilter<Moment = string, Type extends string = string> {
  readonly endpointId?: string | undefined
  readonly eventId?: string | undefined
  /** Only includes deliveries of events about this record. See `EventFilter.subjectId`. */
  readonly subjectId?: string | undefined
  readonly type?: Type | undefined
  readonly states?: readonly DeliveryState[] | undefined
  /** Only includes deliveries created at or after this time. */
  readonly since?: Moment | undefined
  /** Only includes deliveries created before this time. */
  readonly until?: Moment | undefined
}

// --- Purging, recovery and cancellation ---

/** The audit entry for a manual purge, written to each organization that had events purged. */
export type PurgeEntry = Omit<AuditRecord, 'subjectId'>

/** A request to purge one batch of old rows. */
export interface PurgeRequest {
  /**
   * Purge events older than this, in milliseconds, along with their deliveries and attempts. Events that have a pending
   * or sending delivery are kept.
   */
  readonly eventsAfterMs: number
  /**
   * Maximum number of rows of each kind, to keep batches short. Ten times as many deliveries are allowed, and a single
   * event with more deliveries than that can exceed the limit.
   */
  readonly limit: number
  /** `next` from the previous batch. Defaults to `null`, which starts with the oldest event. */
  readonly cursor?: string | null
  /**
   * Audit entry to write to each organization that had events purged, with the organization as its subject.
   * `details.events` is set to the number of events purged from the organization across all calls with this entry.
   * Delivery loops don't pass an entry when they purge.
   */
  readonly entry?: PurgeEntry
}

/** The number of purged rows. */
export interface PurgeReport {
  readonly events: number
  /** Number of expired idempotency keys. */
  readonly idempotencyKeys: number
  /** Cursor for the next batch, or `null` if there's nothing left to purge. */
  readonly next: string | null
}

/** A request to run the next batch of the purge that all delivery loops share. */
export interface SharedPurgeRequest extends Pick<PurgeRequest, 'eventsAfterMs' | 'limit'> {
  /** Fraction of time that all processes combined may spend purging, 0.25. */
  readonly share: number
}

/** An open delivery that is past the retention period. */
export interface RetainedDelivery extends EndpointRef {
  /** When the delivery was created. */
  readonly since: string
}

/** The result of a shared purge batch. */
export interface SharedPurgeReport extends Omit<PurgeReport, 'next'> {
  /** Number of entire days dropped, always 0 if the store deletes individual events. `events` is an estimate if set. */
  readonly days: number
  /**
   * The oldest open delivery of each endpoint that keeps days from being dropped after the retention period. Up to 100,
   * oldest first. Empty if no day was checked or if the store isn't partitioned by day.
   */
  readonly retained: readonly RetainedDelivery[]
  /** `true` if there's nothing left to purge or another process is already purging. */
  readonly isDone: boolean
  /** Milliseconds until the next batch can start. */
  readonly waitMs: number
  /**
   * How overdue the next event to purge is, in milliseconds. `0` if there's nothing to purge, `null` if it's too early
   * for the next batch.
   */
  readonly lagMs: number | null
}

/**
 * A request to send finished deliveries again. Deliveries to removed endpoints are skipped. If `filter.states` contains
 * `pending`, deliveries that are backing off are included, but not those that are already due.
 * `recover` returns the ids of all deliveries that are now pending, and adds their number to `details.recovered` in the
 * audit entry. Multiple calls can share an entry. If the entry's subject is a delivery, sending the call again doesn't
 * recover the delivery twice, and each call returns its id.
 */
export interface RecoveryRequest extends AuditedRequest {
  /** Ids of the deliveries to filter. */
  readonly ids: readonly string[]
  readonly filter: DeliveryFilter
  /** Maximum number of deliveries. */
  readonly limit: number
}

/** A request to send an event to a single endpoint. The store sets the audit entry's subject to the delivery. */
export interface EventRedelivery extends AuditedRequest {
  readonly eventId: string
  readonly endpointId: string
}

/** The result of redelivering an event. */
export interface EventRedelivered {
  /**
   * `open` means the event already has a pending or sending delivery to the endpoint. `no event` and `no endpoint` mean
   * the organization has no event or endpoint with that id.
   */
  readonly outcome: 'sent' | 'open' | 'no event' | 'no endpoint'
  /** `null` if the event or endpoint doesn't exist. */
  readonly deliveryId: string | null
}

/** A request to cancel a delivery. */
export interface CancellationRequest extends AuditedRequest {
  readonly deliveryId: string
}

// --- Store ---

/** The delivery methods of a store. New deliveries are written with their event, see `Creation` and `EventStore`. */
export interface DeliveryStore extends ClaimStore {
  /**
   * Lists matching deliveries, newest first.
   *
   * @param before id of the last delivery on the previous page, or `null` for the first page
   */
  list(
    organizationId: string,
    filter: DeliveryFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly Delivery[]>

  /**
   * Counts matching deliveries.
   *
   * @param max stop counting at this number
   */
  count(organizationId: string, filter: DeliveryFilter, max: number): Promise<number>
  /**
   * Same as `count`, but limited to deliveries that {@link DeliveryStore.recover} would accept, meaning finished
   * deliveries to existing endpoints.
   */
  countRecoverable(organizationId: string, filter: DeliveryFilter, max: number): Promise<number>

  /** Returns a delivery including its attempts, or `null` if it doesn't exist. */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails | null>

  /**
   * Lists the attempts of multiple deliveries.
   *
   * @returns the attempts by delivery id, oldest first. Deliveries that are unknown or have no attempts are omitted
   */
  listAttempts(
    organizationId: string,
    deliveryIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly DeliveryAttempt[]>>

  /**
   * Makes finished deliveries due now and starts a new round of attempts. The event id stays the same. For pending
   * deliveries, see {@link RecoveryRequest}.
   */
  recover(request: RecoveryRequest): Promise<readonly string[]>

  /**
   * Sends an event to one endpoint now, even if the endpoint was registered later or isn't subscribed to the type.
   * Starts a new round if the event has a finished delivery to the endpoint, otherwise creates a delivery.
   *
   * @returns the outcome. If you retry the call with the same entry, it's `sent` again
   */
  redeliverEvent(request: EventRedelivery): Promise<EventRedelivered>

  /**
   * Cancels a pending delivery, even one that is backing off or whose endpoint is paused.
   *
   * @returns `true` if the delivery was pending, or was already cancelled with the same entry
   */
  cancel(request: CancellationRequest): Promise<boolean>

  /**
   * Counts unfinished and failed deliveries. The cost doesn't grow with the number of deliveries, except that counting
   * `backingOff` for an organization or endpoint reads up to 10,001 pending deliveries per endpoint.
   *
   * @param target the organization or endpoint, or `null` for all organizations
   */
  countQueue(target: QueueTarget | null): Promise<QueueCounts>

  /** Returns delivery and attempt counts, over time and by endpoint. The cost doesn't depend on how many there are. */
  readActivity(request: ActivityRequest): Promise<StoredActivity>

  /**
   * Purges one batch of old rows after the cursor, oldest first. Events that must be kept are skipped, so even a call
   * that purges nothing may return a cursor.
   */
  purge(request: PurgeRequest): Promise<PurgeReport>

  /**
   * Runs the next batch of the shared purge, picking up where any other process left off. Only one process can purge at
   * a time, and there is a pause after each batch. Events that had to be kept are checked again once an hour. Stores
   * that drop entire days may retain an event until the end of its day and for several more days.
   */
  continuePurge(request: SharedPurgeRequest): Promise<SharedPurgeReport>
}
