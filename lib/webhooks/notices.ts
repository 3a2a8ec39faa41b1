import type { EndpointRef, FailedDelivery } from './claims.ts'

// Notices for the host's operators, sent while webhooks are delivered. Notices go to the host's own code and never to a
// subscriber: a webhook about failing webhooks would fail as well.

// --- Types ---

/**
 * An endpoint has reached half of the failures that disable it. Sent once for each series of failures, which ends with a
 * success or when an administrator enables the endpoint.
 */
export interface EndpointFailingNotice extends EndpointRef {
  readonly kind: 'endpoint_failing'
  /** Failed attempts since the last success. */
  readonly failures: number
  /** When the first of these failures ended; null after a later success. */
  readonly failingSince: string | null
}

/** An endpoint was disabled by failures. Not sent when an administrator disables the endpoint. */
export interface EndpointDisabledNotice extends EndpointRef {
  readonly kind: 'endpoint_disabled'
  /** `failing`: too many failures for too long. `gone`: the endpoint responded with 410. */
  readonly reason: 'failing' | 'gone'
  /** As in {@link EndpointFailingNotice}. */
  readonly failures: number
  readonly failingSince: string | null
}

/**
 * Deliveries of an endpoint failed for good: the first, and all that followed within five seconds of the previous. With
 * `deliveryNotices: 'each'`, a notice for each delivery.
 *
 * Every delivery is counted at least once for each round of attempts, and twice when a late result equals the result that counted.
 * A delivery can be missing only when a process dies before the notice is sent.
 */
export interface DeliveryFailedNotice extends FailedDelivery {
  readonly kind: 'delivery_failed'
  /** Deliveries of the endpoint that failed together, with this first one. */
  readonly count: number
}

/** The previous signing secret of a rotation will soon expire. Sent once for each rotation. */
export interface SecretExpiringNotice extends EndpointRef {
  readonly kind: 'secret_expiring'
  readonly expiresAt: string
}

/** An API key will soon expire. Sent once for each key, and again after a change of the expiry. */
export interface ApiKeyExpiringNotice {
  readonly kind: 'api_key_expiring'
  readonly organizationId: string
  readonly keyId: string
  readonly name: string
  readonly expiresAt: string
}

/**
 * The signing secret or the headers of an endpoint are stored unsealed although there are keys, and were used because
 * `allowPlaintextSecrets` is set. Sent once for each endpoint and process.
 */
export interface SecretUnsealedNotice extends EndpointRef {
  readonly kind: 'secret_unsealed'
}

/**
 * Old events are not purged in time. Sent once by each process, and again after the purge has succeeded or has caught up.
 */
export interface RetentionBehindNotice {
  readonly kind: 'retention_behind'
  /** `failing`: three parts of the purge in a row have failed. `slow`: for 10 minutes the purge has been an hour behind. */
  readonly reason: 'failing' | 'slow'
  /** Age at which events are purged, in milliseconds. */
  readonly retentionMs: number
  /** How far the oldest event that the purge hasn't reached exceeds `retentionMs`, in ms; null for `failing`. */
  readonly lagMs: number | null
  /** Failed parts since the last successful part. */
  readonly failures: number
}

/**
 * Events older than the retention are retained with their whole day, because a delivery of that day is still open: an endpoint was
 * paused for longer than the retention. Sent once by each process for each endpoint, while a day is retained for the endpoint. A day
 * with open deliveries of several endpoints is retained for each endpoint in turn.
 */
export interface EventsKeptNotice extends EndpointRef {
  readonly kind: 'events_kept'
  /** Creation of an open delivery in the oldest such day. */
  readonly since: string
}

/**
 * The database belongs to another installation, or has no name and was restored, copied or upgraded since a loop first started. Sent once
 * by each loop, and again for another installation.
 */
export interface InstallationDiffersNotice {
  readonly kind: 'installation_differs'
  /** True: the loop waits. False if neither loop nor database has a name, because `pg_upgrade` looks the same as a copy. */
  readonly isWaiting: boolean
  /** The loop's installation; null: option `installation` is not set. */
  readonly installation: string | null
  /** Null: the installation has no name. */
  readonly databaseInstallation: string | null
  /** How to go on. */
  readonly advice: string
}

/** A notice of a secret or an API key about to expire. */
export type ExpiryNotice = SecretExpiringNotice | ApiKeyExpiringNotice

/**
 * A notice for operators. The process that has written the cause sends the notice after the write: "once" counts over
 * all processes. A notice is lost when that process dies at the same moment, and sent again after a crash of the
 * database that undoes some attempts. The list of endpoints, the delivery log and the list of keys always show the
 * present state.
 */
export type Notice =
  | EndpointFailingNotice
  | EndpointDisabledNotice
  | DeliveryFailedNotice
  | SecretUnsealedNotice
  | RetentionBehindNotice
  | EventsKeptNotice
  | InstallationDiffersNotice
  | ExpiryNotice

/** Log level and message of each notice. A failed delivery is `info`, because a dead endpoint makes many. */
export const NOTICE_LINES: Readonly<Record<Notice['kind'], readonly ['info' | 'warn', string]>> = {
  endpoint_failing: ['warn', 'Webhook endpoint failing'],
  endpoint_disabled: ['warn', 'Webhook endpoint disabled'],
  delivery_failed: ['info', 'Webhook deliveries failed'],
  retention_behind: ['warn', 'Old events not purged in time'],
  events_kept: ['warn', 'Old events kept for an open delivery'],
  installation_differs: ['warn', 'The database belongs to another installation, or is a copy'],
  secret_unsealed: ['warn', 'Signing secret or headers stored unsealed'],
  secret_expiring: ['info', 'Signing secret about to expire'],
  api_key_expiring: ['warn', 'API key about to expire'],
}

// --- Store ---

/** Asks for notices of expiries. */
export interface ExpiryRequest {
  /** A name that no other request has. */
  readonly token: string
  /** Time between a notice and the expiry of a previous signing secret, in milliseconds; null: no notice. */
  readonly secretsWithinMs: number | null
  /** Time between a notice and the expiry of an API key, in milliseconds; null: no notice. */
  readonly apiKeysWithinMs: number | null
  /** Maximum number of notices of each kind. */
  readonly limit: number
}

/** The notices of a store that are caused by time alone. */
export interface NoticeStore {
  /**
   * Claims the notices of secrets and keys about to expire, of all organizations, by expiry: each expiry is claimed
   * once, by one process. A secret that is rotated again and a key with another expiry are claimed anew. Expired
   * secrets and keys, revoked keys and secrets of removed endpoints are left out.
   *
   * Previous secrets whose overlap has ended are erased, up to the limit.
   *
   * The same token again answers the same notices that still hold, and more up to the limit.
   */
  claimExpiring(request: ExpiryRequest): Promise<readonly ExpiryNotice[]>
}
