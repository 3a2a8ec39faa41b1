import type { AuditedRequest, AuditRecord } from '../access/audit.ts'
import type { ActivityRequest, StoredActivity } from './activity.ts'
import type { ClaimStore, DeliveryAttempt, EndpointRef } from './claims.ts'
import type { QueueCounts, QueueTarget } from './queue-counts.ts'

// This file is longer than 250 lines because half of it documents the methods for authors of a store.

// --- Types ---

/**
 * - `pending`: will be sent once it's due and the endpoint is enabled.
 * - `sending`: claimed by a process until the lease expires.
 * - `delivered`: the endpoint responded with 2xx.
 * - `failed`: won't be attempted again, see `reason`.
 * - `skipped`: the endpoint was disabled or removed.
 * - `cancelled`: cancelled by an administrator.
 *
 * All states except `pending` and `sending` are final unless an administrator redelivers or recovers the delivery.
 */
export type DeliveryState = 'pending' | 'sending' | 'delivered' | 'failed' | 'skipped' | 'cancelled'

/** A delivery of an event to an endpoint, as shown in the delivery log (specification, section 6, delivery rule 5). */
export interface Delivery {
  /** `dlv_<ulid>` */
  readonly id: string
  readonly eventId: string
  readonly type: string
  /** The id of the record that the event is about, such as an invoice; null for an event without a record. */
  readonly subjectId: string | null
  readonly endpointId: string
  readonly state: DeliveryState
  /** Number of attempts so far, across all rounds. */
  readonly attempts: number
  /** When the next attempt can be made, or `null` if the delivery isn't pending. */
  readonly dueAt: string | null
  /** Why the delivery failed or was skipped, such as `http_500`, `gone` or `endpoint_disabled`, otherwise `null`. */
  readonly reason: string | null
  readonly createdAt: string
  /** When the delivery reached a final state, or `null` if it hasn't. */
  readonly finishedAt: string | null
  /** HTTP status of the last attempt, or `null` if there was no attempt or no response. */
  readonly lastStatus: number | null
  /** Why the last attempt got no response, or `null` if there was no attempt or it did get one. */
  readonly lastError: string | null
}

/** All response classes: the first digit of the status, or `none` if there was no response. */
export const RESPONSES = ['2xx', '3xx', '4xx', '5xx', 'none'] as const
/** The class of a response. */
export type ResponseClass = (typeof RESPONSES)[number]

/** A delivery with the event's body and all attempts, oldest first. */
export interface DeliveryDetails extends Delivery {
  /** The envelope exactly as it was sent. */
  readonly body: string
  readonly attemptLog: readonly DeliveryAttempt[]
}

/**
 * Filters deliveries. Absent properties match everything. Host calls accept times as a `Date` or as ISO 8601 with a
 * time zone, stores as ISO 8601.
 */
export interface DeliveryFilter<Moment = string, Type extends string = string> {
  readonly endpointId?: string | undefined
  readonly eventId?: string | undefined
  /** Only deliveries of this record's newest 5000 events, for example an invoice's. See `EventRecord.subjectId`. */
  readonly subjectId?: string | undefined
  readonly type?: Type | undefined
  readonly states?: readonly DeliveryState[] | undefined
  /** Only deliveries created at or after this time. */
  readonly since?: Moment | undefined
  /** Only deliveries created before this time. */
  readonly until?: Moment | undefined
}

// --- Purge and changes by hand ---

/** The audit entry for a manual purge. One is written for each organization that loses events. */
export type PurgeEntry = Omit<AuditRecord, 'subjectId'>

/** A request to purge some of the old rows. */
export interface PurgeRequest {
  /**
   * Minimum age of the events to purge, in milliseconds. Their deliveries and attempts are purged too. Events with a
   * delivery that is pending or being sent are kept.
   */
  readonly eventsAfterMs: number
  /**
   * Maximum number of rows of each kind, which keeps each part short. For deliveries the limit is ten times as high,
   * and it can be exceeded by the deliveries of a single event.
   */
  readonly limit: number
  /** The `next` of the previous part. Defaults to `null`, which starts with the oldest event. */
  readonly cursor?: string | null
  /**
   * Audit entry to write in each organization that loses events, with the organization as its subject. `details.events`
   * is set to the number of events the organization lost in all purges with this entry. If absent, as in the purge run
   * by delivery loops, no entry is written.
   */
  readonly entry?: PurgeEntry
}

/** The number of purged rows. */
export interface PurgeReport {
  readonly events: number
  /** Expired idempotency keys. */
  readonly idempotencyKeys: number
  /** The cursor for the next part, or `null` if nothing else can be purged. */
  readonly next: string | null
}

/** A request to run the next part of the purge, which all delivery loops share. */
export interface SharedPurgeRequest extends Pick<PurgeRequest, 'eventsAfterMs' | 'limit'> {
  /** Share of the time that all processes together may spend on purging, 0.25. */
  readonly share: number
}

/** An open delivery that is older than the retention period. */
export interface RetainedDelivery extends EndpointRef {
  /** When the delivery was created. */
  readonly since: string
}

/** The result of a {@link SharedPurgeRequest}. */
export interface SharedPurgeReport extends Omit<PurgeReport, 'next'> {
  /** Number of days dropped whole (0 if the store deletes single events). If there are any, `events` is an estimate. */
  readonly days: number
  /**
   * The oldest open delivery of each endpoint for which days are kept past the retention period. Up to 100, oldest
   * first. Empty if no day was checked or if the store doesn't use days.
   */
  readonly retained: readonly RetainedDelivery[]
  /** `true` if nothing else can be purged or another process is purging. */
  readonly isDone: boolean
  /** Milliseconds until the next part can start. */
  readonly waitMs: number
  /**
   * How far the next event to purge is past its retention period, in milliseconds. `0` if there is none, or `null` if
   * it's too early for the next part.
   */
  readonly lagMs: number | null
}

/**
 * A request to send finished deliveries again. Deliveries of removed endpoints are left out.
 *
 * `recover` returns the ids of the deliveries that are pending now. Their number is added to the `details.recovered` of
 * the audit entry, which several calls can share. If the subject of the entry is a delivery, the delivery is recovered
 * only once even if the call is sent several times, and all calls return its id.
 */
export interface RecoveryRequest extends AuditedRequest {
  /** The deliveries to which the filter is applied. */
  readonly ids: readonly string[]
  readonly filter: DeliveryFilter
  /** Maximum number of deliveries. */
  readonly limit: number
}

/** A request to send an event to one endpoint. The store sets the delivery as the subject of the audit entry. */
export interface EventRedelivery extends AuditedRequest {
  readonly eventId: string
  readonly endpointId: string
}

/** The result of an {@link EventRedelivery}. */
export interface EventRedelivered {
  /**
   * `open` means that the event's delivery to the endpoint is pending or being sent already. `no event` and `no
   * endpoint` mean that the id doesn't exist in the organization.
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

/** The part of a store that handles deliveries. They are written with their event, see `Creation` and `EventStore`. */
export interface DeliveryStore extends ClaimStore {
  /**
   * Lists the newest deliveries that match the filter.
   *
   * @param before the id of the last delivery on the previous page, or `null` to start with the newest
   */
  list(
    organizationId: string,
    filter: DeliveryFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly Delivery[]>

  /**
   * Counts the deliveries that match the filter.
   *
   * @param max stop counting at this number
   */
  count(organizationId: string, filter: DeliveryFilter, max: number): Promise<number>
  /**
   * Like `count`, but only counts deliveries that {@link DeliveryStore.recover} would accept. These must be finished
   * and their endpoint must not be removed.
   */
  countRecoverable(organizationId: string, filter: DeliveryFilter, max: number): Promise<number>

  /** Returns a delivery with its attempts, or `null` if it doesn't exist. */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails | null>

  /**
   * Lists the attempts of several deliveries.
   *
   * @returns the attempts by delivery id, oldest first. Leaves out unknown deliveries and deliveries without attempts
   */
  listAttempts(
    organizationId: string,
    deliveryIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly DeliveryAttempt[]>>

  /** Makes finished deliveries due now. The event id stays the same and a new round of attempts begins. */
  recover(request: RecoveryRequest): Promise<readonly string[]>

  /**
   * Sends an event to one endpoint now, even if the endpoint was registered later or isn't subscribed to the type. If
   * there is a finished delivery, it begins a new round of attempts. If there is no delivery, one is created.
   *
   * @returns the outcome, which is `sent` again if the entry is the same
   */
  redeliverEvent(request: EventRedelivery): Promise<EventRedelivered>

  /**
   * Cancels a pending delivery. This also works while it's backing off or the endpoint is paused.
   *
   * @returns `true` if the delivery was pending, or if it was cancelled with the same entry before
   */
  cancel(request: CancellationRequest): Promise<boolean>

  /**
   * Counts unfinished and failed deliveries. The cost doesn't depend on their number. For an organization or endpoint,
   * up to 10,001 pending deliveries of each endpoint are read to determine `backingOff`.
   *
   * @param target the organization or endpoint, or `null` for all organizations
   */
  countQueue(target: QueueTarget | null): Promise<QueueCounts>

  /** Returns the counts of deliveries and attempts over time and by endpoint. Its cost doesn't depend on them. */
  readActivity(request: ActivityRequest): Promise<StoredActivity>

  /**
   * Purges a limited number of old rows, oldest first, starting after the cursor. Events that have to be kept are
   * skipped, so a call may purge nothing even though there is more to purge.
   */
  purge(request: PurgeRequest): Promise<PurgeReport>

  /**
   * Runs the next part of the purge, continuing where any process left off. Only one process purges at a time, and the
   * next part can't start until the pause after the previous one is over. Events that had to be kept are checked again
   * once an hour. A store that drops whole days may keep an event until its day is over and for some days after that.
   */
  continuePurge(request: SharedPurgeRequest): Promise<SharedPurgeReport>
}
