import type { AuditRecord } from './audit.ts'
import type { EndpointState } from './endpoints.ts'

// --- Types ---

/**
 * - `pending`: waits for its time, and for its endpoint to be enabled.
 * - `in_flight`: claimed by a process, for as long as its lease lasts.
 * - `delivered`: answered with 2xx.
 * - `dead_lettered`: given up; `reason` tells why.
 * - `skipped`: its endpoint was disabled or removed.
 * - `cancelled`: an administrator did not want it sent any more.
 *
 * All but the first two are final until an administrator has it sent again.
 */
export type DeliveryState = 'pending' | 'in_flight' | 'delivered' | 'dead_lettered' | 'skipped' | 'cancelled'

/** One event on its way to one endpoint, as the delivery log shows it (specification, section 6, rule 5 of delivery). */
export interface Delivery {
  /** `dlv_<ulid>`. */
  readonly id: string
  readonly eventId: string
  readonly type: string
  readonly endpointId: string
  readonly state: DeliveryState
  /** Attempts made so far, of all rounds. */
  readonly attempts: number
  /** When the next attempt may be made; null unless pending. */
  readonly dueAt: string | null
  /** Why it was dead-lettered or skipped: `http_500`, `timeout`, `gone`, `endpoint_disabled` …; else null. */
  readonly reason: string | null
  readonly createdAt: string
  /** When it came to its final state; null before. */
  readonly finishedAt: string | null
}

/** One attempt of a delivery. */
export interface DeliveryAttempt {
  /** From 1, through all rounds. */
  readonly number: number
  readonly startedAt: string
  /** Milliseconds from the name look-up to the last byte read. */
  readonly durationMs: number
  /** The parts of the duration; null for what did not happen or was not measured. */
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  readonly firstByteMs: number | null
  /** The HTTP status; null when no answer came. */
  readonly status: number | null
  /** Why no answer came; null with a status. `interrupted`: the process that made it ended. */
  readonly error: string | null
  /** The beginning of the answer's body. */
  readonly bodyExcerpt: string
}

/** A delivery with what was sent and all its attempts, oldest first. */
export interface DeliveryDetails extends Delivery {
  /** The envelope as it is sent, byte for byte. */
  readonly body: string
  readonly attemptLog: readonly DeliveryAttempt[]
}

/** Which deliveries; what is absent does not count. */
export interface DeliveryFilter {
  readonly endpointId?: string
  readonly type?: string
  readonly states?: readonly DeliveryState[]
  /** Created at this moment or later, ISO 8601. */
  readonly since?: string
  /** Created before this moment, ISO 8601. */
  readonly until?: string
}

// --- Claims ---

/** An endpoint by name. */
export interface EndpointRef {
  readonly organizationId: string
  readonly endpointId: string
}

/** How many deliveries a process can take on now, so that no endpoint and no organization takes all. */
export interface Room {
  /** Of one endpoint that is not named below. */
  readonly endpoint: number
  /** Of one organization that is not named below. */
  readonly organization: number
  /** By endpoint id. */
  readonly endpoints: Readonly<Record<string, number>>
  /** By organization id. */
  readonly organizations: Readonly<Record<string, number>>
}

/** What a process asks for. */
export interface ClaimRequest {
  /** A name for this claim that no other claim has: it fences every later write. */
  readonly token: string
  /** Whether this claim was sent before and its answer was lost: what it claimed then is given first. */
  readonly isRepeat: boolean
  /** Deliveries at most. */
  readonly limit: number
  readonly room: Room
  /** How many endpoints to look at, at most. */
  readonly visits: number
  /** Where to go on in the circle of endpoints: after this one; null: from the first. */
  readonly after: EndpointRef | null
  /** How long the claims are this process's, in milliseconds by the store's clock. */
  readonly leaseMs: number
  /** Attempts of a round in all, so that an attempt that was interrupted can have been the last. */
  readonly maxAttempts: number
}

/** A delivery that this process is to attempt now. */
export interface ClaimedDelivery {
  readonly organizationId: string
  readonly id: string
  readonly endpointId: string
  readonly eventId: string
  readonly type: string
  readonly body: string
  readonly url: string
  /** The endpoint's own headers. */
  readonly headers: Readonly<Record<string, string>>
  /** As sealed, the current one first; two while a rotation's overlap lasts. */
  readonly sealedSecrets: readonly string[]
  /** Which attempt of its round this is, from 1; it is counted already. */
  readonly attempt: number
}

/** A delivery that has been given up. */
export interface DeadLetter extends EndpointRef {
  readonly deliveryId: string
  readonly eventId: string
  readonly type: string
  /** `http_500`, `timeout`, `gone`, `interrupted` … */
  readonly reason: string
}

/** The answer to a claim. */
export interface Claims {
  readonly deliveries: readonly ClaimedDelivery[]
  /** What this claim has dead-lettered, as the lease of the last attempt had ended. Not given again to a repeated claim. */
  readonly deadLetters: readonly DeadLetter[]
  /** The store's clock when it answered, in milliseconds since 1970. */
  readonly storeTime: number
  /** Where the next claim should go on; null when every endpoint with something pending has been looked at. */
  readonly next: EndpointRef | null
}

/** A claim by name; only the process that has the token can end it. */
export interface ClaimRef {
  readonly organizationId: string
  readonly deliveryId: string
  readonly token: string
}

/** What became of an attempt and what follows from it. Times are relative: the store's clock makes moments of them. */
export interface AttemptResult extends ClaimRef, Omit<DeliveryAttempt, 'number' | 'startedAt'> {
  /** What the delivery becomes: `retry` is pending again. */
  readonly outcome: 'delivered' | 'retry' | 'dead_lettered'
  /** Of a dead letter; else null. */
  readonly reason: string | null
  /** Whether the endpoint has asked for no more (410): it is disabled, with the reason `gone`. */
  readonly isGone: boolean
  /** Of a retry: milliseconds from the end of this attempt to the next; else 0. */
  readonly delayMs: number
  /** How long ago the attempt began and ended, in milliseconds. */
  readonly startedAgoMs: number
  readonly endedAgoMs: number
}

/** When an endpoint that only fails is disabled: both must hold. */
export interface FailureLimit {
  /** Failed attempts since the last success. */
  readonly failures: number
  /** Milliseconds since the first of them. */
  readonly failingMs: number
}

/** How an endpoint stands after an attempt of it failed. */
export interface EndpointHealth extends EndpointRef {
  readonly state: EndpointState
  readonly failures: number
  readonly failingSince: string | null
  /** `gone`, `failing`, `administrator`; null while it is not disabled. */
  readonly disabledReason: string | null
  /**
   * Whether these results brought it to half of the failures that disable it, or beyond, for the first time since its
   * last success. Not those that disable it.
   */
  readonly isNewlyFailing: boolean
  /** Whether it was these results that disabled it. */
  readonly isNewlyDisabled: boolean
}

/** What the results of attempts have brought about. */
export interface RecordReport {
  /** Those of which an attempt failed, but for those removed. */
  readonly endpoints: readonly EndpointHealth[]
  readonly deadLetters: readonly DeadLetter[]
}

/** What is to be done at some time. */
export interface Backlog {
  /** Deliveries of enabled endpoints that are due, counted to at most 100,000. */
  readonly due: number
  /** How long the oldest of them has been due, in milliseconds; 0 when none is. */
  readonly oldestDueMs: number
  /** Claimed by any process. */
  readonly inFlight: number
}

/** What may be forgotten. */
export interface PurgeRequest {
  /** Events older than this, with their deliveries and attempts, unless one of them is still to be sent. Milliseconds. */
  readonly eventsAfterMs: number
  /** Rows of each kind at most, so that no purge is long. */
  readonly limit: number
}

/** What was forgotten. */
export interface PurgeReport {
  readonly events: number
  /** Entries of idempotency keys whose window was over. */
  readonly idempotencyKeys: number
}

// --- Store ---

/** What a store must do for deliveries. They come into being with their events: see `Creation` and `EventStore`. */
export interface DeliveryStore {
  /**
   * Claims deliveries that are due, of enabled endpoints, each for one process only: it is in flight then, and the
   * attempt is counted. Within an endpoint first attempts come before retries, then what has been due for longer.
   *
   * Endpoints are taken in the circle of (organization id, endpoint id), beginning after `after`, each at most as far as
   * there is room. Pending deliveries of disabled and removed endpoints that are met become skipped, some with each claim.
   *
   * A repeated claim gives first what it claimed before: that takes room too, and endpoints removed since are left out.
   *
   * Before that, deliveries whose lease has ended are set free: the attempt is logged as `interrupted` and counts, and
   * the delivery is due at once, or dead-lettered with the reason `interrupted` when it was the last of its round.
   */
  claim(request: ClaimRequest): Promise<Claims>

  /**
   * Records what became of attempts: the log, what the delivery becomes, and how its endpoint does, in the order in which
   * they ended. An attempt that was interrupted counts, but not against its endpoint. A result whose claim is not in force
   * any more is dropped whole.
   *
   * The same results again change nothing, but what they have dead-lettered, and which endpoints they have made failing or
   * disabled, is answered again, as it is then: the answer may have been lost.
   */
  record(results: readonly AttemptResult[], limit: FailureLimit): Promise<RecordReport>

  /** Gives claims back, due as before; the attempt is not counted. Claims that are not in force are passed over. */
  release(claims: readonly ClaimRef[]): Promise<void>

  /**
   * The newest deliveries that the filter lets through.
   *
   * @param before the id of the last delivery of the page before; null: from the newest
   */
  list(
    organizationId: string,
    filter: DeliveryFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly Delivery[]>

  /** One delivery with its attempts; `null` if there is no such delivery. */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails | null>

  /**
   * Has deliveries in a final state sent again, now: same event id, a new round of attempts. Those of removed endpoints
   * are passed over.
   *
   * The entry gets `details.replayed`: how many they were, of all replays that have this entry in common. Whose entry
   * names one delivery as its subject has that sent again once, however often it is sent, and gets its id each time.
   *
   * @param ids which; null: the oldest that the filter lets through, at most `limit`
   * @returns the ids of those that are pending now
   */
  replay(
    organizationId: string,
    ids: readonly string[] | null,
    filter: DeliveryFilter,
    limit: number,
    entry: AuditRecord,
  ): Promise<readonly string[]>

  /**
   * Cancels a delivery that is pending, also one that waits for its next attempt or for its endpoint.
   *
   * @returns whether it was pending; true again for the same entry
   */
  cancel(organizationId: string, deliveryId: string, entry: AuditRecord): Promise<boolean>

  /** What is to be done, of all organizations. */
  measure(): Promise<Backlog>

  /** Forgets what is old, a bounded part of it. Less than the limit of both: nothing is left to forget. */
  purge(request: PurgeRequest): Promise<PurgeReport>

  /**
   * Calls `onDue` soon after deliveries have been recorded: at once for what this process has committed through this
   * store, within some milliseconds for others where the store can tell. It may be called in vain, and calls can be lost:
   * a loop asks from time to time as well. One that throws harms nothing.
   *
   * @returns ends it
   */
  watch(onDue: () => void): () => void
}
