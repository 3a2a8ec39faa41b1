import type { AuditedRequest, AuditRecord } from '../access/audit.ts'
import type { EndpointState, EndpointTarget } from './endpoints.ts'
import type { QueueCounts, QueueTarget } from './queue-counts.ts'

// Longer than 250 lines, because a store's author reads the contract of one slice as a whole.

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
  /** The HTTP status of the last attempt; null when no answer came, and before the first attempt. */
  readonly lastStatus: number | null
  /** Why no answer came to the last attempt; null with a status, and before the first attempt. */
  readonly lastError: string | null
}

/** The class of a response: the first digit of the status, or no response. */
export type ResponseClass = '2xx' | '3xx' | '4xx' | '5xx' | 'none'

/** An attempt of a delivery. */
export interface DeliveryAttempt {
  /** From 1, through all rounds. */
  readonly number: number
  readonly startedAt: string
  /** Milliseconds from the name lookup to the last byte read. */
  readonly durationMs: number
  /** The parts of the duration; null for a part that did not happen or was not measured. */
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  readonly firstByteMs: number | null
  /** The HTTP status; null when no answer came. */
  readonly status: number | null
  /**
   * The reason for a missing answer; null with a status. `interrupted`: the attempt ended with its process.
   * `unreadable`: the delivery could not be read, and nothing was sent.
   */
  readonly error: string | null
  /** The beginning of the answer's body. */
  readonly bodyExcerpt: string
  /**
   * Where a redirect (3xx) points: an absolute URL of up to 500 visible ASCII characters, without credentials, query and fragment; null
   * for every other answer.
   */
  readonly location: string | null
}

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

// --- Claims ---

/** Identifies an endpoint. */
export interface EndpointRef {
  readonly organizationId: string
  readonly endpointId: string
}

/** The deliveries that a process has capacity for, limited for each endpoint and each organization. */
export interface Capacity {
  /** Capacity of each endpoint that is not listed below. */
  readonly endpoint: number
  /** Capacity of each organization that is not listed below. */
  readonly organization: number
  /** By endpoint id. */
  readonly endpoints: Readonly<Record<string, number>>
  /** By organization id. */
  readonly organizations: Readonly<Record<string, number>>
}

/** Asks for deliveries to attempt. */
export interface ClaimRequest {
  /** A name that no other claim has. The token fences every later write. */
  readonly token: string
  /** True if this claim was sent before and the answer was lost: the deliveries claimed then come first. */
  readonly isRepeat: boolean
  /** Greatest number of deliveries. */
  readonly limit: number
  /**
   * Greatest number of bytes of all bodies. A delivery with a larger body is claimed without its content: see `Claims.unread`. 0:
   * every delivery is claimed without content.
   */
  readonly maxBytes: number
  readonly capacity: Capacity
  /** Greatest number of endpoints to inspect. */
  readonly scanLimit: number
  /** The round robin of endpoints continues after this endpoint; null: at the first. */
  readonly cursor: EndpointRef | null
  /** Duration of the claims in milliseconds by the store's clock. */
  readonly leaseMs: number
  /** Attempts of a round in all, because an interrupted attempt can have been the last. */
  readonly maxAttempts: number
}

/** A delivery that this process must attempt now. */
export interface ClaimedDelivery extends EndpointTarget, EndpointRef {
  readonly id: string
  readonly eventId: string
  readonly type: string
  readonly body: string
  /** The number of this attempt in the round, from 1; already counted. */
  readonly attempt: number
  /** The trace in which the event was written: see `EventRecord.traceparent`; absent: none. Never sent to the subscriber. */
  readonly traceparent?: string
}

/** A claimed delivery whose content must be read on its own: see `DeliveryStore.read`. */
export interface UnreadDelivery extends EndpointRef {
  readonly id: string
}

/** A failed delivery. */
export interface FailedDelivery extends EndpointRef {
  readonly deliveryId: string
  readonly eventId: string
  readonly type: string
  /** `http_500`, `timeout`, `gone`, `interrupted`, `unreadable` … */
  readonly reason: string
}

/** The answer to a claim. */
export interface Claims {
  readonly deliveries: readonly ClaimedDelivery[]
  /** Deliveries claimed without their content, because the body alone is larger than `maxBytes`. */
  readonly unread: readonly UnreadDelivery[]
  /**
   * Deliveries that fail with this claim, because the lease of the last attempt had expired. A repeated claim does not
   * list these deliveries again.
   */
  readonly failed: readonly FailedDelivery[]
  /** The store's clock at the time of the answer, in milliseconds since 1970. */
  readonly storeTime: number
  /** The cursor of the next claim; null when every endpoint with pending deliveries has been inspected. */
  readonly next: EndpointRef | null
  /**
   * Milliseconds until a delivery that this claim had to leave has its turn by the rate of its endpoint; null if there is none, and for
   * endpoints that back off.
   */
  readonly nextInMs: number | null
}

/** Identifies a claim; only the process that has the token can end it. */
export interface ClaimRef {
  readonly organizationId: string
  readonly deliveryId: string
  readonly token: string
}

/** The result of an attempt and its consequences. Times are relative to now by the store's clock. */
export interface AttemptResult extends ClaimRef, Omit<DeliveryAttempt, 'number' | 'startedAt' | 'location'> {
  /** Absent: null. */
  readonly location?: string | null
  /** The delivery's next state: `retry` is pending again. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  /** Why the delivery failed; null for any other outcome. */
  readonly reason: string | null
  /** True if the endpoint answered 410, which disables the endpoint with the reason `gone`. */
  readonly isGone: boolean
  /** Milliseconds from the end of this attempt to the retry; 0 if there is none. */
  readonly delayMs: number
  /**
   * Milliseconds for which the endpoint asked to be left alone when it rejected the delivery (429, 503, or any failure with
   * `Retry-After`), 0 if it named no time; null if the attempt was not rejected.
   */
  readonly backOffMs: number | null
  /** Milliseconds since the attempt began, and since the attempt ended. */
  readonly startedAgoMs: number
  readonly endedAgoMs: number
}

/** When an endpoint that only fails is disabled: both limits must be reached. */
export interface FailureLimit {
  /** Failed attempts since the last success. */
  readonly failures: number
  /** Milliseconds since the first of these failures. */
  readonly failingMs: number
}

/** The state of an endpoint after a failed attempt. */
export interface EndpointHealth extends EndpointRef {
  readonly state: EndpointState
  readonly failures: number
  readonly failingSince: string | null
  /** `gone`, `failing`, `administrator`; null unless the endpoint is disabled. */
  readonly disabledReason: string | null
  /**
   * True if the endpoint, still enabled, reached half of the failures that disable it with these results, for the first
   * time since the last success.
   */
  readonly isNewlyFailing: boolean
  /** True if these results disabled the endpoint. */
  readonly isNewlyDisabled: boolean
}

/** The consequences of the results of attempts. */
export interface ResultReport {
  /** Results that were dropped, because the claim was no longer in force. */
  readonly lost: readonly ClaimRef[]
  /** Endpoints with a failed attempt, except removed endpoints. */
  readonly endpoints: readonly EndpointHealth[]
  readonly failed: readonly FailedDelivery[]
}

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
   * Greatest number of rows of each kind, so that no part takes long. Of deliveries ten times as many are allowed, or all
   * deliveries of a single event.
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

/** The answer to a {@link SharedPurgeRequest}. */
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
 * `recover` answers the ids of the deliveries that are pending now, and adds the number of these deliveries to
 * `details.recovered` of the entry, which calls with the same entry share. An entry with a delivery as its subject
 * recovers that delivery once, even if the call is sent several times, and each answer has the id of the delivery.
 */
export interface RecoveryRequest extends AuditedRequest {
  /** The filter selects among these deliveries. */
  readonly ids: readonly string[]
  readonly filter: DeliveryFilter
  /** Greatest number of deliveries. */
  readonly limit: number
}

/** Names the delivery to cancel. */
export interface CancellationRequest extends AuditedRequest {
  readonly deliveryId: string
}

// --- Store ---

/** The deliveries of a store. A delivery is written together with the event: see `Creation` and `EventStore`. */
export interface DeliveryStore {
  /**
   * Claims due deliveries of enabled endpoints, each for one process only: a claimed delivery is being sent, and the
   * attempt is counted. Of one endpoint, first attempts come before retries, and of each kind those that have been due
   * for longer, or the older deliveries. Deliveries of backfills come last, after all other deliveries of the claim, and within the
   * capacity that these leave.
   *
   * Endpoints are taken by round robin in the order of (organization id, endpoint id), beginning after the cursor, each
   * up to the endpoint's capacity. Pending deliveries of disabled and removed endpoints become skipped, some with each
   * claim.
   *
   * An endpoint that has rejected deliveries, or has a `maxPerSecond`, gets no more than its rate allows, of all processes together:
   * see endpoint-rate.ts.
   *
   * The bodies of the answer have at most `maxBytes` together: deliveries beyond that limit are left for the next claim. The
   * store knows the sizes without reading the bodies, so that the cost of a claim does not depend on the size of bodies.
   *
   * A repeated claim first gives the deliveries that the earlier call claimed. These take capacity too, deliveries of
   * endpoints removed since are left out, and deliveries beyond `maxBytes` are released.
   *
   * Before the claim, deliveries whose lease has expired are reclaimed: the attempt counts and is logged as
   * `interrupted`, and the delivery is due at once, or failed with the reason `interrupted` after the last
   * attempt of its round.
   */
  claim(request: ClaimRequest): Promise<Claims>

  /**
   * Reads the content of claimed deliveries. Deliveries without a claim in force, or with a removed endpoint, are left
   * out.
   */
  read(claims: readonly ClaimRef[]): Promise<readonly ClaimedDelivery[]>

  /**
   * Writes the results of attempts: the log, the next state of each delivery, and the health of each endpoint, in the
   * order in which the attempts ended; and the rate of each endpoint, by endpoint-rate.ts. Attempts with the error
   * `interrupted` or `unreadable` count, but not against the endpoint. A result without a claim in force is dropped as a whole, and is `lost` in the report.
   *
   * The same results again change nothing and are not lost, and the answer lists again, as of now, the resulting dead
   * letters and the endpoints that became failing or disabled, because the previous answer may be lost.
   */
  writeResults(results: readonly AttemptResult[], limit: FailureLimit): Promise<ResultReport>

  /**
   * Gives claims back: the deliveries are due as before, and the attempts are not counted. Claims that are not in force are
   * ignored.
   */
  release(claims: readonly ClaimRef[]): Promise<void>

  /**
   * Lists the newest deliveries that the filter selects.
   *
   * @param before the id of the last delivery of the previous page; null: from the newest
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
   * @param max the greatest answer: counting ends there
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

  /**
   * Calls `onDue` soon after deliveries have been written: at once for writes that this process has committed through this
   * store, and within some milliseconds for writes of other processes, if the store gets notifications. Calls can be
   * superfluous, and can be lost: a loop polls as well. An `onDue` that throws disturbs nothing.
   *
   * @returns a function that ends the calls
   */
  watch(onDue: () => void): () => void
}
