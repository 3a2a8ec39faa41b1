import type { EndpointTarget, WebhookEndpoint } from './endpoints.ts'
import type { AttemptTimings } from './webhook-sender.ts'

// The interface between delivery loops and stores for claims, attempts and results.

// --- Claims ---

/** Identifies an endpoint. */
export interface EndpointRef {
  readonly organizationId: string
  readonly endpointId: string
}

/** How many deliveries a process can take, with limits per endpoint and per organization. */
export interface Capacity {
  /** Capacity of any endpoint not listed in `endpoints`. */
  readonly endpoint: number
  /** Capacity of any organization not listed in `organizations`. */
  readonly organization: number
  /** Capacity by endpoint id. */
  readonly endpoints: Readonly<Record<string, number>>
  /** Capacity by organization id. */
  readonly organizations: Readonly<Record<string, number>>
}

/** A request for deliveries to attempt. */
export interface ClaimRequest {
  /** A unique token for this claim. All later writes have to present it. */
  readonly token: string
  /** `true` if this claim was sent before and the result was lost. Deliveries claimed then are returned first. */
  readonly isRepeat: boolean
  /** Maximum number of deliveries. */
  readonly limit: number
  /**
   * Maximum total size of the bodies in bytes. Deliveries with a larger body are claimed without content, see
   * `Claims.unread`. If `0`, this applies to every delivery.
   */
  readonly maxBytes: number
  readonly capacity: Capacity
  /** Maximum number of endpoints to inspect. */
  readonly scanLimit: number
  /** The endpoint after which the round robin continues, or `null` to start with the first. */
  readonly cursor: EndpointRef | null
  /** How long the claims are valid, in milliseconds by the store's clock. */
  readonly leaseMs: number
  /** Maximum number of attempts per round. Needed since an interrupted attempt may have been the last one. */
  readonly maxAttempts: number
}

/** A delivery that this process has to attempt now. */
export interface ClaimedDelivery extends EndpointTarget, EndpointRef {
  readonly id: string
  readonly eventId: string
  readonly type: string
  readonly body: string
  /** Number of this attempt within the round, starting at 1. Already counted by the store. */
  readonly attempt: number
  /** Trace context in which the event was written, see `EventRecord.traceparent`. Never sent to the subscriber. */
  readonly traceparent?: string
}

/** A claimed delivery whose content has to be read separately. See `ClaimStore.read`. */
export interface UnreadDelivery extends EndpointRef {
  readonly id: string
}

/** A delivery that failed for good. */
export interface FailedDelivery extends EndpointRef {
  readonly deliveryId: string
  readonly eventId: string
  readonly type: string
  /** Why it failed, for example `http_500`, `timeout`, `gone`, `interrupted` or `unreadable`. */
  readonly reason: string
}

/** The result of a claim. */
export interface Claims {
  readonly deliveries: readonly ClaimedDelivery[]
  /** Deliveries claimed without content because their body alone exceeds `maxBytes`. */
  readonly unread: readonly UnreadDelivery[]
  /**
   * Deliveries that failed during this claim because the lease of their last attempt had expired. They aren't returned
   * again if the claim is repeated.
   */
  readonly failed: readonly FailedDelivery[]
  /** The store's current time in milliseconds since 1970. */
  readonly storeTime: number
  /** The cursor for the next claim, or `null` if all endpoints with pending deliveries have been inspected. */
  readonly next: EndpointRef | null
  /**
   * Milliseconds until a delivery that had to be left behind may be claimed according to its endpoint's rate, including
   * as a probe. `null` if there isn't one or if a probe is currently being sent.
   */
  readonly nextInMs: number | null
}

/** Identifies a claim. A claim can only be ended by the process that has the token. */
export interface ClaimRef {
  readonly organizationId: string
  readonly deliveryId: string
  readonly token: string
}

// --- Attempts and results ---

/** An attempt of a delivery. */
export interface DeliveryAttempt extends AttemptTimings {
  /** Number of the attempt, starting at 1 and counted across all rounds. */
  readonly number: number
  readonly startedAt: string
  /** Milliseconds from the DNS lookup to the last byte read. */
  readonly durationMs: number
  /** The HTTP status, or `null` if there was no response. */
  readonly status: number | null
  /**
   * Why there was no response, or `null` if there is a status. `interrupted` means that the process stopped or died
   * during the attempt. `unreadable` means that the delivery couldn't be read, so nothing was sent.
   */
  readonly error: string | null
  /** The start of the response body. */
  readonly bodyExcerpt: string
  /**
   * The target of a redirect (3xx) as an absolute URL, or `null` for all other responses. Up to 500 visible ASCII
   * characters, without credentials, query or fragment.
   */
  readonly location: string | null
  /**
   * The logged headers. `null` if no request was made or the process died. In a store also `null` for a 2xx response
   * with nothing worth keeping.
   */
  readonly headers: AttemptHeaders | null
}

/** The headers of an attempt, up to 2 KB in total. The settings add headers derived from the event. */
export interface AttemptHeaders {
  /**
   * The request headers, except `User-Agent` and `Accept`, which are added by the sender. Values of custom headers are
   * replaced with `(hidden)`, and so are signatures, which are only available in `signed`.
   */
  readonly request: Readonly<Record<string, string>>
  /**
   * The signature headers, which the settings show as part of the request. Not kept for 2xx responses. Hidden for ten
   * minutes, because until then someone who can read the log could use them and the body to forge a valid webhook.
   */
  readonly signed?: Readonly<Record<string, string>>
  /**
   * The response headers that are on an allowlist without credentials. The list is shorter for 2xx responses. Values
   * are truncated to 100 characters.
   */
  readonly response: Readonly<Record<string, string>>
}

/** An attempt to be logged. Absent properties are treated as `null`. */
export interface EndedAttempt
  extends Omit<DeliveryAttempt, 'number' | 'startedAt' | 'location' | 'headers'>,
    Partial<Pick<DeliveryAttempt, 'location' | 'headers'>> {}

/** The result of an attempt and what should happen next. All times are relative to the store's current time. */
export interface AttemptResult extends ClaimRef, EndedAttempt {
  /** The next state of the delivery. `retry` means pending again. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  /** Why the delivery failed, or `null` if it didn't. */
  readonly reason: string | null
  /** `true` if the endpoint responded with 410. The endpoint is then disabled with the reason `gone`. */
  readonly isGone: boolean
  /** Milliseconds between the end of this attempt and the retry, or `0` if there is none. */
  readonly delayMs: number
  /**
   * How long the endpoint asked us to back off when it rejected the delivery (429, 503 or any failure with
   * `Retry-After`), in milliseconds. `0` if it didn't say how long, and `null` if it wasn't a rejection.
   */
  readonly backOffMs: number | null
  /** Milliseconds since the attempt started and ended. */
  readonly startedAgoMs: number
  readonly endedAgoMs: number
}

/** When to disable a failing endpoint. Both limits must be reached. */
export interface FailureLimit {
  /** Number of failed attempts since the last success. */
  readonly failures: number
  /** Milliseconds since the first of these failures. */
  readonly failingMs: number
}

/** The state of an endpoint after a failed attempt. */
export interface EndpointHealth
  extends EndpointRef,
    Pick<WebhookEndpoint, 'state' | 'failures' | 'failingSince' | 'disabledReason'> {
  /**
   * `true` if these results brought the endpoint to half of its failure limit for the first time since
   * its last success.
   */
  readonly isNewlyFailing: boolean
  /** `true` if these results disabled the endpoint. */
  readonly isNewlyDisabled: boolean
}

/** The effects of writing attempt results. */
export interface ResultReport {
  /** Claims whose results were dropped because the claim was no longer active. */
  readonly lost: readonly ClaimRef[]
  /** Endpoints with a failed attempt, not including removed ones. */
  readonly endpoints: readonly EndpointHealth[]
  readonly failed: readonly FailedDelivery[]
}

// --- Store ---

/** The store methods used by a delivery loop. All of them work across organizations. */
export interface ClaimStore {
  /**
   * Claims due deliveries of enabled endpoints. A delivery is only ever claimed by one process. It is then in state
   * `sending`, and the attempt is counted. For each endpoint, first attempts come before retries, and within both
   * groups, deliveries that have been due longer or are older come first. Backfill deliveries come last, after all
   * other deliveries of the claim, and only use the remaining capacity.
   *
   * Endpoints are visited round robin in order of (organization id, endpoint id), starting after the cursor, and
   * each one can fill its capacity. Every claim marks some of the pending deliveries of disabled and removed
   * endpoints as skipped.
   *
   * Endpoints that have rejected deliveries or have a `maxPerSecond` don't get more than their rate allows, across all
   * processes. See endpoint-rate.ts.
   *
   * The total size of the returned bodies is limited to `maxBytes`, and whatever doesn't fit is left for the
   * next claim. The store must know body sizes without reading the bodies, so that the cost of a claim doesn't
   * depend on them.
   *
   * If a claim is repeated, the deliveries claimed by the earlier call are returned first. They count toward
   * the capacity. If their endpoint has been removed since, they are left out, and if they exceed `maxBytes`,
   * they are released.
   *
   * Before claiming anything, the store reclaims deliveries with an expired lease. Their attempt counts and is logged
   * as `interrupted`. The delivery is due immediately, or failed with the reason `interrupted` if that was the last
   * attempt of its round.
   */
  claim(request: ClaimRequest): Promise<Claims>

  /** Reads the content of claimed deliveries. Skips deliveries without an active claim or with a removed endpoint. */
  read(claims: readonly ClaimRef[]): Promise<readonly ClaimedDelivery[]>

  /**
   * Writes attempt results in the order in which the attempts ended. This updates the log, the state of each
   * delivery, and each endpoint's health and rate (see endpoint-rate.ts). Attempts with the error `interrupted` or
   * `unreadable` count as attempts but not against the endpoint. If its claim is no longer active, a result is
   * dropped and reported as `lost`.
   *
   * Writing the same results again has no effect, and they aren't reported as lost. Since the first report may have
   * been lost, the report again includes the failed deliveries and the endpoints that became failing or disabled, in
   * their current state.
   */
  writeResults(results: readonly AttemptResult[], limit: FailureLimit): Promise<ResultReport>

  /** Releases claims. Deliveries are due as before, and attempts aren't counted. Inactive claims are ignored. */
  release(claims: readonly ClaimRef[]): Promise<void>

  /**
   * Calls `onDue` shortly after deliveries were written. For writes committed by this process through this
   * store, that's immediately. For other processes, it takes a few milliseconds and only works if the store
   * receives notifications. Calls can be superfluous or get lost, so loops must poll as well. Errors thrown by
   * `onDue` are ignored.
   */
  watch(onDue: () => void): DeliveryWatch
}

/** A subscription of a loop to new deliveries. */
export interface DeliveryWatch {
  /**
   * Tells the store whether the loop is idle. While it is, the store calls `onDue` for the deliveries of every commit,
   * including transactions that the host runs itself, so the loop can poll less often.
   *
   * @returns `true` if the store does this. Deliveries recorded before the call can then be found with one more claim.
   * If `false`, keep polling as before.
   */
  setIdle(isIdle: boolean): Promise<boolean>
  /** Stops the calls. */
  end(): void
}
