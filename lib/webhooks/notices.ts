import type { EndpointRef, FailedDelivery } from './claims.ts'

// Notices for the host's operators, sent while webhooks are being delivered. They are passed to the host's code, never
// to a subscriber, because a webhook about failing webhooks would fail too.

// --- Types ---

/**
 * An endpoint has reached half of the failures that disable it. Sent once per series of failures. A series ends with a
 * success or when an administrator enables the endpoint.
 */
export interface EndpointFailingNotice extends EndpointRef {
  readonly kind: 'endpoint_failing'
  /** Number of failed attempts since the last success. */
  readonly failures: number
  /** When the first of these failures ended, or `null` if there has been a success since. */
  readonly failingSince: string | null
}

/** An endpoint was disabled because of failures. Not sent if it was disabled by an administrator. */
export interface EndpointDisabledNotice extends EndpointRef {
  readonly kind: 'endpoint_disabled'
  /** `failing` if it failed too often for too long, `gone` if it responded with 410. */
  readonly reason: 'failing' | 'gone'
  /** See {@link EndpointFailingNotice}. */
  readonly failures: number
  readonly failingSince: string | null
}

/**
 * Deliveries of an endpoint failed for good. Covers the first failure and any that follow within five seconds of the
 * previous one. With `deliveryNotices: 'each'`, a separate notice is sent for each delivery.
 *
 * Each delivery is counted at least once per round of attempts, and may be counted twice if a late result is the same
 * as the one that counted. A delivery is only missed if a process dies before the notice is sent.
 */
export interface DeliveryFailedNotice extends FailedDelivery {
  readonly kind: 'delivery_failed'
  /** Number of the endpoint's deliveries that failed together, including this first one. */
  readonly count: number
}

/** The previous signing secret of a rotation is about to expire. Sent once per rotation. */
export interface SecretExpiringNotice extends EndpointRef {
  readonly kind: 'secret_expiring'
  readonly expiresAt: string
}

/** An API key is about to expire. Sent once per key, and again if its expiry changes. */
export interface ApiKeyExpiringNotice {
  readonly kind: 'api_key_expiring'
  readonly organizationId: string
  readonly keyId: string
  readonly name: string
  readonly expiresAt: string
}

/**
 * An endpoint's signing secret or headers are stored as plain text even though there are keys, and
 * `allowPlaintextSecrets` permits using them. Sent once per endpoint and process.
 */
export interface SecretUnsealedNotice extends EndpointRef {
  readonly kind: 'secret_unsealed'
}

/** The purge of old events is behind. Sent once per process, and again after it has succeeded or caught up. */
export interface RetentionBehindNotice {
  readonly kind: 'retention_behind'
  /** `failing` if three parts of the purge failed in a row, `slow` if it has been an hour behind for 10 minutes. */
  readonly reason: 'failing' | 'slow'
  /** Age at which events are purged, in milliseconds. */
  readonly retentionMs: number
  /** How much older than `retentionMs` the oldest event to purge is, in milliseconds. `null` if `failing`. */
  readonly lagMs: number | null
  /** Number of failed parts since the last successful one. */
  readonly failures: number
}

/**
 * Events past their retention are kept, along with their whole day, because a delivery of that day is still open. This
 * happens if an endpoint was paused for longer than the retention. Sent once per process and endpoint while a day is
 * kept because of the endpoint. If a day has open deliveries of several endpoints, each of them is reported in turn.
 */
export interface EventsKeptNotice extends EndpointRef {
  readonly kind: 'events_kept'
  /** When an open delivery in the oldest such day was created. */
  readonly since: string
}

/**
 * The database belongs to another installation, or it has no name and was restored, copied or upgraded since a loop
 * first started. Sent once per loop, and again if the installation changes.
 */
export interface InstallationDiffersNotice {
  readonly kind: 'installation_differs'
  /**
   * Whether the loop is waiting. `false` if neither the loop nor the database has a name, because a copy can't be
   * distinguished from `pg_upgrade`.
   */
  readonly isWaiting: boolean
  /** The loop's installation, or `null` if the `installation` option isn't set. */
  readonly installation: string | null
  /** The database's installation, or `null` if it has no name. */
  readonly databaseInstallation: string | null
  /** How to resolve this. */
  readonly advice: string
}

/** A notice about a secret or API key that is about to expire. */
export type ExpiryNotice = SecretExpiringNotice | ApiKeyExpiringNotice

/**
 * A notice for operators, sent by the process that caused it after writing the cause. So "once" applies across all
 * processes. A notice is lost if that process dies right then, and it's sent again if the database crashes and loses
 * some attempts. The endpoint list, delivery log and key list always show the current state.
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

/** Log level and message of each notice. Failed deliveries are `info` because a dead endpoint causes lots of them. */
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

/** A request to claim notices about upcoming expiries. */
export interface ExpiryRequest {
  /** A unique token for this request. */
  readonly token: string
  /** How long before a previous signing secret expires to send a notice, in milliseconds. `null` for no notices. */
  readonly secretsWithinMs: number | null
  /** How long before an API key expires to send a notice, in milliseconds. `null` for no notices. */
  readonly apiKeysWithinMs: number | null
  /** Maximum number of notices of each kind. */
  readonly limit: number
}

/** The part of a store that handles notices caused by the passage of time. */
export interface NoticeStore {
  /**
   * Claims notices about secrets and keys of any organization that are about to expire, ordered by expiry. Each expiry
   * is only claimed once, by one process. It can be claimed again if the secret is rotated again or the key's expiry
   * changes. Leaves out expired secrets and keys, revoked keys and secrets of removed endpoints.
   *
   * Also erases previous secrets whose overlap is over, up to the limit.
   *
   * If the token is reused, the same notices are returned if they still apply, plus others up to the limit.
   */
  claimExpiring(request: ExpiryRequest): Promise<readonly ExpiryNotice[]>
}
