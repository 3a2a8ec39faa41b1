import type { EndpointTarget, WebhookEndpoint } from './endpoints.ts'
import type { AttemptTimings } from './webhook-sender.ts'

// The interface between delivery loops and stores: claims, attempts and results.

// --- Claims ---

/** Identifies an endpoint. */
export interface EndpointRef {
  readonly organizationId: string
  readonly endpointId: string
}

/** How many more deliveries a process can take, per endpoint and per organization. */
export interface Capacity {
  /** Capacity for each endpoint that isn't listed in `endpoints`. */
  readonly endpoint: number
  /** Capacity for each organization that isn't listed in `organizations`. */
  readonly organization: number
  /** Capacity by endpoint id. */
  readonly endpoints: Readonly<Record<string, number>>
  /** Capacity by organization id. */
  readonly organizations: Readonly<Record<string, number>>
}

/** A request for deliveries to attempt. */
export interface ClaimRequest {
  /** Unique token for this claim. Required for all later writes. */
  readonly token: string
  /** `true` if the claim is a retry after a lost response. Deliveries it already claimed are returned first. */
  readonly isRepeat: boolean
  /** Maximum number of deliveries. */
  readonly limit: number
  /**
   * Maximum combined size of all bodies, in bytes. A delivery whose body alone is larger is returned in
   * `Claims.unread`, without content. With `0`, this is the case for every delivery.
   */
  readonly maxBytes: number
  readonly capacity: Capacity
  /** Maximum number of endpoints to look at. */
  readonly scanLimit: number
  /** The round robin continues after this endpoint. `null` to start from the first one. */
  readonly cursor: EndpointRef | null
  /** Lease duration in milliseconds, by the store's clock. */
  readonly leaseMs: number
  /** Maximum number of attempts per round. Needed to fail deliveries whose final attempt was interrupted. */
  readonly maxAttempts: number
}

/** A delivery that this process must attempt now. */
export interface ClaimedDelivery extends EndpointTarget, EndpointRef {
  readonly id: string
  readonly eventId: string
  readonly type: string
  readonly body: string
  /** The attempt number within the round, starting at 1. The store has already counted this attempt. */
  readonly attempt: number
  /** Trace context from when the event was written (see `EventRecord.traceparent`). Never sent to the subscriber. */
  readonly traceparent?: string
}

/** A claimed delivery whose content must be read separately. See `ClaimStore.read`. */
export interface UnreadDelivery extends EndpointRef {
  readonly id: string
}

/** A delivery that failed permanently. */
export interface FailedDelivery extends EndpointRef {
  readonly deliveryId: string
  readonly eventId: string
  readonly type: string
  /** The failure reason, such as `http_500`, `timeout`, `gone`, `interrupted` or `unreadable`. */
  readonly reason: string
}

/** The result of a claim. */
export interface Claims {
  readonly deliveries: readonly ClaimedDelivery[]
  /** Deliveries claimed without content because their body is larger than `maxBytes`. */
  readonly unread: readonly UnreadDelivery[]
  /**
   * Deliveries that this claim marked as failed because the lease of their final attempt had expired. Not returned
   * again if the claim is retried.
   */
  readonly failed: readonly FailedDelivery[]
  /** The store's current time in milliseconds since 1970. */
  readonly storeTime: number
  /** Cursor for the next claim, or `null` if there are no more endpoints with pending deliveries. */
  readonly next: EndpointRef | null
  /**
   * Milliseconds until a rate-limited endpoint allows its next delivery or probe. `null` if no delivery was held back,
   * or if a probe is in flight.
   */
  readonly nextInMs: number | null
}

/** Identifies a claim. Only the process that has the token can end the claim. */
export interface ClaimRef {
  readonly organizationId: string
  readonly deliveryId: string
  readonly token: string
}

// --- Attempts and results ---

/** An attempt to send a delivery. */
export interface DeliveryAttempt extends AttemptTimings {
  /** The attempt number across all rounds, starting at 1. */
  readonly number: number
  readonly startedAt: string
  /** Milliseconds from the start of the DNS lookup to the last byte read. */
  readonly durationMs: number
  /** The HTTP status, or `null` if there was no response. */
  readonly status: number | null
  /**
   * Why there was no response, or `null` if there is a status. `interrupted` means the process stopped or died during
   * the attempt. `unreadable` means the delivery couldn't be read, so nothing was sent.
   */
  readonly error: string | null
  /** The beginning of the response body. */
  readonly bodyExcerpt: string
  /**
   * The redirect target (3xx) as an absolute URL, otherwise `null`. Up to 500 visible ASCII characters, with any
   * credentials, query and fragment removed.
   */
  readonly location: string | null
  /**
   * The logged headers, or `null` if no request was made or the process died. Stores also use `null` for 2xx responses
   * with no interesting headers.
   */
  readonly headers: AttemptHeaders | null
}

/** An attempt's headers, up to 2 KB in total. The settings add the headers that can be derived from the event. */
export interface AttemptHeaders {
  /**
   * The request headers, except `User-Agent` and `Accept`, which are added by the sender. Signatures and custom header
   * values are replaced with `(hidden)`.
   */
  readonly request: Readonly<Record<string, string>>
  /**
   * The signature headers, which the settings show along with the request headers. Not stored for 2xx responses. Hidden
   * for the first ten minutes, since anyone who can read the log could use them to replay the webhook.
   */
  readonly signed?: Readonly<Record<string, string>>
  /**
   * Response headers from an allowlist that excludes credentials. The allowlist is shorter for 2xx responses. Values
   * are truncated to 100 characters.
   */
  readonly response: Readonly<Record<string, string>>
}

/** An attempt to be logged. Missing properties are treated as `null`. */
export interface EndedAttempt
  extends Omit<DeliveryAttempt, 'number' | 'startedAt' | 'location' | 'headers'>,
    Partial<Pick<DeliveryAttempt, 'location' | 'headers'>> {}

/** An attempt's result and what happens next. Times are relative to the store's current time. */
export interface AttemptResult extends ClaimRef, EndedAttempt {
  /** The delivery's next state. `retry` means back to pending. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  /** The failure reason, or `null` if the delivery hasn't failed. */
  readonly reason: string | null
  /** `true` if the endpoint responded with 410, which disables it with reason `gone`. */
  readonly isGone: boolean
  /** Milliseconds from the end of this attempt to the retry, or `0` if there's no retry. */
  readonly delayMs: number
  /**
   * The backoff requested by the endpoint when it rejected the delivery (429, 503, or any failure with `Retry-After`),
   * in milliseconds. `0` for a rejection without a requested time, `null` if this wasn't a rejection.
   */
  readonly backOffMs: number | null
  /** How many milliseconds ago the attempt started and ended. */
  readonly startedAgoMs: number
  readonly endedAgoMs: number
}

/** When to disable a failing endpoint. Both limits must be reached. */
export interface FailureLimit {
  /** Number of failed attempts since the last success. */
  readonly failures: number
  /** Milliseconds since the first of those failures. */
  readonly failingMs: number
}

/** An endpoint's state after a failed attempt. */
export interface EndpointHealth
  extends EndpointRef,
    Pick<WebhookEndpoint, 'state' | 'failures' | 'failingSince' | 'disabledReason'> {
  /**
   * `true` if these results made the endpoint reach half of the failure limit for the first time since the
   * last success.
   */
  readonly isNewlyFailing: boolean
  /** `true` if these results caused the endpoint to be disabled. */
  readonly isNewlyDisabled: boolean
}

/** The changes that writing attempt results has made. */
export interface ResultReport {
  /** Claims that were no longer active, so their results were dropped. */
  readonly lost: readonly ClaimRef[]
  /** Endpoints with at least one failed attempt, except removed endpoints. */
  readonly endpoints: readonly EndpointHealth[]
  readonly failed: readonly FailedDelivery[]
}

// --- Store ---

/** The store methods for delivery loops. These aren't scoped to an organization. */
export interface ClaimStore {
  /**
   * Claims due deliveries to enabled endpoints. No two processes ever get the same delivery. Claimed deliveries change
   * to `sending`, and their attempt is counted. Within an endpoint, first attempts come before retries. Within each of
   * these groups, the ones due longest come first, then the oldest. Backfill deliveries come last and only use
   * leftover capacity.
   * Endpoints are visited round robin, ordered by (organization id, endpoint id) and starting after the cursor. Each
   * endpoint can fill its own capacity. Each claim also marks some of the pending deliveries to disabled and removed
   * endpoints as skipped.
   * Endpoints that rejected deliveries or have a `maxPerSecond` are rate-limited across all processes.
   * See endpoint-rate.ts.
   * The returned bodies add up to at most `maxBytes`. Anything that doesn't fit is left for the next claim. Stores must
   * know body sizes without reading the bodies, so a claim doesn't get slower with larger bodies.
   * A retried claim first returns the deliveries it already claimed. They count toward the capacity. Deliveries to
   * endpoints that have since been removed are omitted, and any that don't fit in `maxBytes` are released.
   * Before claiming anything, the store reclaims deliveries with an expired lease. The attempt still counts and is
   * logged as `interrupted`. The delivery is due again immediately, or fails with reason `interrupted` if this was the
   * round's final attempt.
   */
  claim(request: ClaimRequest): Promise<Claims>

  /** Reads the content of claimed deliveries. Omits any without an active claim and any whose endpoint was removed. */
  read(claims: readonly ClaimRef[]): Promise<readonly ClaimedDelivery[]>

  /**
   * Writes attempt results in the order the attempts ended. This updates the log, the deliveries, and each endpoint's
   * health and rate (see endpoint-rate.ts). Attempts that ended with `interrupted` or `unreadable` are counted, but not
   * held against the endpoint. Results without an active claim are dropped and reported as `lost`.
   * Writing the same results again is a no-op, and they aren't reported as lost. Since the first report may never
   * have arrived, failed deliveries and endpoints that became failing or disabled are reported again, with their
   * current state.
   */
  writeResults(results: readonly AttemptResult[], limit: FailureLimit): Promise<ResultReport>

  /** Releases claims. The deliveries are due again, and the attempt isn't counted. Inactive claims are ignored. */
  release(claims: readonly ClaimRef[]): Promise<void>

  /**
   * Calls `onDue` shortly after new deliveries are written. Immediate for commits by this process through this store
   * while its loop is busy. Other commits take a few milliseconds, and are only noticed if the store receives
   * notifications. Calls can be spurious or get lost, so loops still need to poll. Errors thrown by `onDue` are ignored.
   */
  watch(onDue: () => void): DeliveryWatch
}

/** A loop's subscription to new deliveries. */
export interface DeliveryWatch {
  /**
   * Tells the store whether the loop is idle. While idle, the loop can poll less often because `onDue` is called for
   * every commit with deliveries, including the host's own transactions.
   *
   * @returns `true` if the store supports this. One more claim is then needed to find deliveries written before the
   * call. If `false`, the loop must keep polling as before
   */
  setIdle(isIdle: boolean): Promise<boolean>
  /** Unsubscribes. */
  end(): void
}
