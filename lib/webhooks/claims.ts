import type { EndpointTarget, WebhookEndpoint } from './endpoints.ts'
import type { AttemptTimings } from './webhook-sender.ts'

// The contract between a delivery loop and a store: claims, attempts and results.

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
  /** True if this claim was sent before and the result was lost: the deliveries claimed then come first. */
  readonly isRepeat: boolean
  /** Maximum number of deliveries. */
  readonly limit: number
  /**
   * Maximum size of all bodies together, in bytes. A delivery with a larger body is claimed without its content: see `Claims.unread`. 0:
   * every delivery is claimed without content.
   */
  readonly maxBytes: number
  readonly capacity: Capacity
  /** Maximum number of endpoints to inspect. */
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

/** A claimed delivery whose content must be read on its own: see `ClaimStore.read`. */
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

/** The result of a claim. */
export interface Claims {
  readonly deliveries: readonly ClaimedDelivery[]
  /** Deliveries claimed without their content, because the body alone is larger than `maxBytes`. */
  readonly unread: readonly UnreadDelivery[]
  /**
   * Deliveries that fail with this claim, because the lease of the last attempt had expired. A repeated claim does not
   * list these deliveries again.
   */
  readonly failed: readonly FailedDelivery[]
  /** The store's clock at the time of the result, in milliseconds since 1970. */
  readonly storeTime: number
  /** The cursor of the next claim; null when every endpoint with pending deliveries has been inspected. */
  readonly next: EndpointRef | null
  /**
   * Milliseconds until a delivery that this claim left behind is due by the endpoint's rate, or can be the next probe; null without
   * such a delivery, or while a probe is being sent.
   */
  readonly nextInMs: number | null
}

/** Identifies a claim; only the process that has the token can end it. */
export interface ClaimRef {
  readonly organizationId: string
  readonly deliveryId: string
  readonly token: string
}

// --- Attempts and results ---

/** An attempt of a delivery. */
export interface DeliveryAttempt extends AttemptTimings {
  /** From 1, through all rounds. */
  readonly number: number
  readonly startedAt: string
  /** Milliseconds from the name lookup to the last byte read. */
  readonly durationMs: number
  /** The HTTP status; null without a response. */
  readonly status: number | null
  /**
   * The reason for a missing response; null with a status. `interrupted`: the attempt ended with its process.
   * `unreadable`: the delivery could not be read, and nothing was sent.
   */
  readonly error: string | null
  /** The beginning of the response body. */
  readonly bodyExcerpt: string
  /**
   * Where a redirect (3xx) points: an absolute URL of up to 500 visible ASCII characters, without credentials, query and fragment; null
   * for every other response.
   */
  readonly location: string | null
  /** The headers; null for an attempt without a request, or whose process died. A store also has null for a 2xx with nothing to keep. */
  readonly headers: AttemptHeaders | null
}

/** The headers of an attempt, at most 2 KB in all. Settings show those that follow from the event too. */
export interface AttemptHeaders {
  /**
   * As sent, without `User-Agent` and `Accept`, which the sender adds. The values of the endpoint's own headers are never kept, and
   * those of the signature only in `signed`: `(hidden)` stands for them.
   */
  readonly request: Readonly<Record<string, string>>
  /**
   * The headers of the signature, which settings show among the request's; not kept for a 2xx. A store hides them for ten minutes:
   * together with the body, a reader of the log could send a webhook that a subscriber accepts.
   */
  readonly signed?: Readonly<Record<string, string>>
  /** The response's, by a list of names without credentials, shorter for a 2xx; values are cut after 100 characters. */
  readonly response: Readonly<Record<string, string>>
}

/** An attempt for the log. Absent: null. */
export interface EndedAttempt
  extends Omit<DeliveryAttempt, 'number' | 'startedAt' | 'location' | 'headers'>,
    Partial<Pick<DeliveryAttempt, 'location' | 'headers'>> {}

/** The result of an attempt and its consequences. Times are relative to now by the store's clock. */
export interface AttemptResult extends ClaimRef, EndedAttempt {
  /** The delivery's next state: `retry` is pending again. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  /** Why the delivery failed; null for any other outcome. */
  readonly reason: string | null
  /** True if the endpoint responded with 410, which disables the endpoint with the reason `gone`. */
  readonly isGone: boolean
  /** Milliseconds from the end of this attempt to the retry; 0 if there is none. */
  readonly delayMs: number
  /**
   * How long the endpoint asked to back off when rejecting the delivery (429, 503, or any failure with `Retry-After`), in ms; 0 without
   * a given time; null if the attempt was not rejected.
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
export interface EndpointHealth
  extends EndpointRef,
    Pick<WebhookEndpoint, 'state' | 'failures' | 'failingSince' | 'disabledReason'> {
  /**
   * True if the endpoint, still enabled, reached half of the failures that disable it with these results, for the first
   * time since the last success.
   */
  readonly isNewlyFailing: boolean
  /** True if these results disabled the endpoint. */
  readonly isNewlyDisabled: boolean
}

/** The effects of attempt results. */
export interface ResultReport {
  /** Results that were dropped, because the claim was no longer active. */
  readonly lost: readonly ClaimRef[]
  /** Endpoints with a failed attempt, except removed endpoints. */
  readonly endpoints: readonly EndpointHealth[]
  readonly failed: readonly FailedDelivery[]
}

// --- Store ---

/** The verbs of a delivery loop. Each serves all organizations. */
export interface ClaimStore {
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
   * The bodies of the result have at most `maxBytes` together: deliveries beyond that limit are left for the next claim. The
   * store knows the sizes without reading the bodies, so the cost of a claim does not depend on the size of bodies.
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
   * Reads the content of claimed deliveries. Deliveries without a claim active, or with a removed endpoint, are left
   * out.
   */
  read(claims: readonly ClaimRef[]): Promise<readonly ClaimedDelivery[]>

  /**
   * Writes attempt results: the log, each delivery's next state and each endpoint's health, in the order in which the attempts ended;
   * and each endpoint's rate, by endpoint-rate.ts. Attempts with the error `interrupted` or `unreadable` count, but not against the
   * endpoint. A result without a claim active is dropped as a whole, and is `lost` in the report.
   *
   * The same results again change nothing and are not lost, and the report lists again, as of now, the resulting dead
   * letters and the endpoints that became failing or disabled, because the previous report may be lost.
   */
  writeResults(results: readonly AttemptResult[], limit: FailureLimit): Promise<ResultReport>

  /**
   * Releases claims: the deliveries are due as before, and the attempts are not counted. Claims that are not active are
   * ignored.
   */
  release(claims: readonly ClaimRef[]): Promise<void>

  /**
   * Calls `onDue` soon after deliveries have been written: at once for writes that this process has committed through this
   * store, and within some milliseconds for writes of other processes, if the store gets notifications. Calls can be
   * superfluous, and can be lost: a loop polls as well. An `onDue` that throws disturbs nothing.
   */
  watch(onDue: () => void): DeliveryWatch
}

/** A loop's watch over new deliveries. */
export interface DeliveryWatch {
  /**
   * Tells the store whether the loop has nothing to do. While it is idle, the store calls `onDue` for the deliveries of every commit,
   * also of a transaction that the host makes itself, so the loop can poll less.
   *
   * @returns true if the store does that: deliveries recorded before are found by one more claim. False: poll as before
   */
  setIdle(isIdle: boolean): Promise<boolean>
  /** Ends the calls. */
  end(): void
}
