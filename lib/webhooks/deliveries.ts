import type { AuditedRequest, AuditRecord } from '../access/audit.ts'
import type { ActivityRequest, StoredActivity } from './activity.ts'
import type { ClaimStore, DeliveryAttempt, EndpointRef } from './claims.ts'
import type { QueueCounts, QueueTarget } from './queue-counts.ts'

// Longer than 250 lines: half of the file documents the verbs, and authors of a store read it as a whole.

// --- Types ---

/**
 * - `pending`: waits for the due time, and for the endpoint to be enabled.
 * - `sending`: claimed by a process, until the end of its lease.
 * - `delivered`: answered with 2xx.
 * - `failed`: not attempted again; `reason` says why.
 * - `skipped`: the endpoint was disabled or removed.
 * - `cancelled`: cancelled by an administrator.
 *
 * All but `pending` and `sending` are final until an administrator redelivers or recovers the delivery.
 */
export type DeliveryState = 'pending' | 'sending' | 'delivered' | 'failed' | 'skipped' | 'cancelled'

/** An event on the way to an endpoint, as the delivery log shows it (specification, section 6, rule 5 of delivery). */
export interface Delivery {
  /** `dlv_<ulid>`. */
  readonly id: string
  readonly eventId: string
  readonly type: string
  readonly endpointId: string
  readonly state: DeliveryState
  /** Attempts so far, of all rounds. */
  readonly attempts: number
  /** When the next attempt may be made; null unless pending. */
  readonly dueAt: string | null
  /**
   * The reason for a failed or skipped delivery: `http_500`, `timeout`, `gone`, `unreadable`,
   * `endpoint_disabled` …; else null.
   */
  readonly reason: string | null
  readonly createdAt: string
  /** The time of the final state; null before. */
  readonly finishedAt: string | null
  /** The HTTP status of the last attempt; null without a response, and before the first attempt. */
  readonly lastStatus: number | null
  /** Why there was no response to the last attempt; null with a status, and before the first attempt. */
  readonly lastError: string | null
}

/** Every response class: the status's first digit, or no response. */
export const RESPONSES = ['2xx', '3xx', '4xx', '5xx', 'none'] as const
/** The class of a response. */
export type ResponseClass = (typeof RESPONSES)[number]

/** A delivery with the event's body and all attempts, oldest first. */
export interface DeliveryDetails extends Delivery {
  /** The envelope as sent, byte for byte. */
  readonly body: string
  readonly attemptLog: readonly DeliveryAttempt[]
}

/**
 * Selects deliveries; an absent property selects all. A host's calls take moments as a `Date`, or as ISO 8601 with a time zone, and a
 * store as ISO 8601.
 */
export interface DeliveryFilter<Moment = string, Type extends string = string> {
  readonly endpointId?: string | undefined
  readonly eventId?: string | undefined
  /** Of events about this record, such as an invoice: see `EventRecord.subjectId`. Of its newest 5000 events. */
  readonly subjectId?: string | undefined
  readonly type?: Type | undefined
  readonly states?: readonly DeliveryState[] | undefined
  /** Created at this moment or later. */
  readonly since?: Moment | undefined
  /** Created before this moment. */
  readonly until?: Moment | undefined
}

// --- Purge and changes by hand ---

/** The audit entry of a purge by hand, written for each organization that loses events. */
export type PurgeEntry = Omit<AuditRecord, 'subjectId'>

/** Asks for a part of a purge. */
export interface PurgeRequest {
  /**
   * Age of the events to purge with deliveries and attempts, in milliseconds. Events with a pending delivery or a delivery in
   * flight stay.
   */
  readonly eventsAfterMs: number
  /**
   * Maximum number of rows of each kind, so no part takes long. Of deliveries ten times as many are allowed, or all deliveries of a
   * single event.
   */
  readonly limit: number
  /** The `next` of the previous part. Default null: the purge begins with the oldest event. */
  readonly cursor?: string | null
  /**
   * The audit entry left in each organization that loses events, with the organization as the subject. `details.events`
   * gets the number of events that the organization has lost in all purges with this entry. Absent, as for the purge of
   * a loop: no entry.
   */
  readonly entry?: PurgeEntry
}

/** The purged rows. */
export interface PurgeReport {
  readonly events: number
  /** Expired entries of idempotency keys. */
  readonly idempotencyKeys: number
  /** The cursor of the next part; null: nothing that can be purged is left. */
  readonly next: string | null
}

/** Asks for the next part of the purge that all delivery loops share. */
export interface SharedPurgeRequest extends Pick<PurgeRequest, 'eventsAfterMs' | 'limit'> {
  /** The share of the time that parts may take, of all processes together: 0.25. */
  readonly share: number
}

/** An open delivery that is older than the retention. */
export interface RetainedDelivery extends EndpointRef {
  /** Creation of the delivery. */
  readonly since: string
}

/** The result of a {@link SharedPurgeRequest}. */
export interface SharedPurgeReport extends Omit<PurgeReport, 'next'> {
  /** Days that were dropped whole; 0 in a store that deletes event by event. The events of a dropped day are estimated in `events`. */
  readonly days: number
  /**
   * The open deliveries for which days beyond the retention are retained: the oldest of each endpoint, max 100, oldest first. Empty if
   * no day was checked, and in a store without days.
   */
  readonly retained: readonly RetainedDelivery[]
  /** True if nothing that can be purged is left, or if another process is purging. */
  readonly isDone: boolean
  /** Milliseconds until the next part may begin. */
  readonly waitMs: number
  /**
   * Milliseconds by which the first event that the purge has not reached is later than it may be; 0 without such an event. Null if the
   * next part may not begin yet.
   */
  readonly lagMs: number | null
}

/**
 * Asks for deliveries in a final state to be sent again. Deliveries of removed endpoints are left out.
 *
 * `recover` returns the ids of the deliveries that are pending now, and adds their number to the entry's `details.recovered`, which
 * calls with the same entry share. An entry with a delivery as its subject recovers that delivery once, even if the call is sent
 * several times, and each result has the id of the delivery.
 */
export interface RecoveryRequest extends AuditedRequest {
  /** The filter selects among these deliveries. */
  readonly ids: readonly string[]
  readonly filter: DeliveryFilter
  /** Maximum number of deliveries. */
  readonly limit: number
}

/** Asks for an event to be sent to one endpoint. The store gives the entry the delivery as its subject. */
export interface EventRedelivery extends AuditedRequest {
  readonly eventId: string
  readonly endpointId: string
}

/** The result of an {@link EventRedelivery}. */
export interface EventRedelivered {
  /**
   * `open`: the event's delivery to the endpoint is pending or sending. `no event`, `no endpoint`: the id does not exist in the
   * organization.
   */
  readonly outcome: 'sent' | 'open' | 'no event' | 'no endpoint'
  /** Null without an event or an endpoint. */
  readonly deliveryId: string | null
}

/** Names the delivery to cancel. */
export interface CancellationRequest extends AuditedRequest {
  readonly deliveryId: string
}

// --- Store ---

/** The deliveries of a store. A delivery is written together with the event: see `Creation` and `EventStore`. */
export interface DeliveryStore extends ClaimStore {
  /**
   * Lists the newest deliveries that the filter selects.
   *
   * @param before the id of the previous page's last delivery; null: from the newest
   */
  list(
    organizationId: string,
    filter: DeliveryFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly Delivery[]>

  /**
   * Counts the deliveries that the filter selects.
   *
   * @param max maximum count: counting ends there
   */
  count(organizationId: string, filter: DeliveryFilter, max: number): Promise<number>
  /** Counts the deliveries that {@link DeliveryStore.recover} takes: finished, and of endpoints that are not removed. As `count`. */
  countRecoverable(organizationId: string, filter: DeliveryFilter, max: number): Promise<number>

  /** Reads a delivery with the attempts; `null` if there is no such delivery. */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails | null>

  /**
   * Reads the attempts of several deliveries.
   *
   * @returns the attempts by delivery id, oldest first; without deliveries that have no attempt, and without unknown ids
   */
  listAttempts(
    organizationId: string,
    deliveryIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly DeliveryAttempt[]>>

  /** Makes deliveries in a final state due now, with the same event id and a new round of attempts. */
  recover(request: RecoveryRequest): Promise<readonly string[]>

  /**
   * Sends an event to one endpoint now, also to an endpoint that was registered later or does not want the type: a finished delivery
   * begins a new round of attempts, and without a delivery one is made.
   *
   * @returns `sent`, and again for the same entry
   */
  redeliverEvent(request: EventRedelivery): Promise<EventRedelivered>

  /**
   * Cancels a pending delivery, also during a backoff and while the endpoint is paused.
   *
   * @returns true if the delivery was pending, and again for the same entry
   */
  cancel(request: CancellationRequest): Promise<boolean>

  /**
   * Counts the deliveries that are not finished, and the failed ones, at a cost that does not grow with their number. Of an
   * organization or endpoint, at most 10,001 pending deliveries of each endpoint are read for `backingOff`.
   *
   * @param target the organization or endpoint; null: all organizations
   */
  countQueue(target: QueueTarget | null): Promise<QueueCounts>

  /** Reads the counts of deliveries and attempts by time and by endpoint, at a cost that does not grow with their number. */
  readActivity(request: ActivityRequest): Promise<StoredActivity>

  /**
   * Purges a bounded part of the old rows, oldest first, after the cursor. Events that must stay are skipped, so a part may
   * purge nothing although more is left.
   */
  purge(request: PurgeRequest): Promise<PurgeReport>

  /**
   * Purges the next part, after the previous part of any process. One process at a time purges, and no part begins before the
   * pause after the previous part has ended. Events that had to stay are inspected again once an hour. A store that forgets days as
   * a whole may keep an event for the rest of the day and some days longer.
   */
  continuePurge(request: SharedPurgeRequest): Promise<SharedPurgeReport>
}
