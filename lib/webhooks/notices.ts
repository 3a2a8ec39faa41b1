import type { EndpointRef, FailedDelivery } from './claims.ts'

// Notices for the host's operators. They're passed to the host's code and never sent to subscribers, since a webhook
// about failing webhooks would fail too.

// --- Types ---

/**
 * An endpoint is halfway to being disabled for failing. Sent once per streak of failures. A streak ends with a success,
 * or when an administrator enables the endpoint.
 */
export interface EndpointFailingNotice extends EndpointRef {
  readonly kind: 'endpoint_failing'
  /** Number of failed attempts since the last success. */
  readonly failures: number
  /** When the first of those failures ended, or `null` if there has since been a success. */
  readonly failingSince: string | null
}

/** An endpoint was disabled because of failures. Not sent when an administrator disables an endpoint. */
export interface EndpointDisabledNotice extends EndpointRef {
  readonly kind: 'endpoint_disabled'
  /** `failing` if the failure limit was reached, `gone` after a 410. */
  readonly reason: 'failing' | 'gone'
  /** See {@link EndpointFailingNotice}. */
  readonly failures: number
  readonly failingSince: string | null
}

/**
 * Deliveries to an endpoint failed permanently. A notice covers the first failure and any others that each follow
 * within five seconds of the previous one. With `deliveryNotices: 'each'`, you get a separate notice per delivery.
 * Every delivery is counted at least once per round of attempts. It may be counted twice if a late result is identical
 * to the one that counted. It's only missed if a process dies before sending the notice.
 */
export interface DeliveryFailedNotice extends FailedDelivery {
  readonly kind: 'delivery_failed'
  /** Number of the endpoint's deliveries that failed together, including this one. */
  readonly count: number
}

/** The previous signing secret is about to expire. Sent once per rotation. */
export interface SecretExpiringNotice extends EndpointRef {
  readonly kind: 'secret_expiring'
  readonly expiresAt: string
}

/** An API key is about to expire. Sent once per key, and again if the expiry date changes. */
export interface ApiKeyExpiringNotice {
  readonly kind: 'api_key_expiring'
  readonly organizationId: string
  readonly keyId: string
  readonly name: string
  readonly expiresAt: string
}

/**
 * An endpoint's signing secret or headers are stored as plain text even though there are keys. They still work because
 * of `allowPlaintextSecrets`. Sent once per endpoint and process.
 */
export interface SecretUnsealedNotice extends EndpointRef {
  readonly kind: 'secret_unsealed'
}

/** Purging of old events has fallen behind. Sent once per process, and again if it falls behind after recovering. */
export interface RetentionBehindNotice {
  readonly kind: 'retention_behind'
  /** `failing` after three failed batches in a row, `slow` after ten minutes of being at least an hour behind. */
  readonly reason: 'failing' | 'slow'
  /** The retention period in milliseconds. */
  readonly retentionMs: number
  /** How overdue the oldest event is, in milliseconds. `null` if `failing`. */
  readonly lagMs: number | null
  /** Number of failed batches since the last successful one. */
  readonly failures: number
}

/**
 * Expired events can't be purged because a delivery from the same day is still open, for example because an endpoint
 * has been paused for longer than the retention period. Sent once per process and endpoint for as long as the
 * endpoint keeps a day from being dropped. Multiple endpoints with open deliveries in the same day are reported one
 * after the other.
 */
export interface EventsKeptNotice extends EndpointRef {
  readonly kind: 'events_kept'
  /** When an open delivery on the oldest of those days was created. */
  readonly since: string
}

/**
 * The database belongs to another installation, or has no name and was restored, copied or upgraded since a loop first
 * started on it. Sent once per loop, and again if the installation changes.
 */
export interface InstallationDiffersNotice {
  readonly kind: 'installation_differs'
  /**
   * Whether the loop is waiting. `false` if neither the loop nor the database has a name, since we can't tell a copy
   * from `pg_upgrade`.
   */
  readonly isWaiting: boolean
  /** The loop's installation name, or `null` if the `installation` option isn't set. */
  readonly installation: string | null
  /** The database's installation name, or `null` if it doesn't have one. */
  readonly databaseInstallation: string | null
  /** How to resolve this. */
  readonly advice: string
}

/** A notice about a secret or API key that is about to expire. */
export type ExpiryNotice = SecretExpiringNotice | ApiKeyExpiringNotice

/**
 * A notice for operators, sent right after its cause was written, by the same process. "Once" means once across all
 * processes. Notices are lost if the process dies at that moment, and repeated if the database crashes and loses
 * attempts. The endpoint list, delivery log and key list always have the current state.
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

/** Each notice's log level and message. Failed deliveries are `info` because one dead endpoint causes lots of them. */
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

/** A request to claim expiry notices. */
export interface ExpiryRequest {
  /** A unique token for this request. */
  readonly token: string
  /** How long before a previous signing secret expires to send the notice, in milliseconds. `null` to disable. */
  readonly secretsWithinMs: number | null
  /** How long before an API key expires to send the notice, in milliseconds. `null` to disable. */
  readonly apiKeysWithinMs: number | null
  /** Maximum number of notices of each kind. */
  readonly limit: number
}

/** The expiry notice methods of a store. */
export interface NoticeStore {
  /**
   * Claims notices about secrets and keys that are about to expire, in any organization, ordered by expiry. Each expiry
   * is claimed only once, unless the secret is rotated again or the key's expiry date changes. Omits secrets and keys
   * that have already expired, revoked keys, and secrets of removed endpoints.
   * Also erases previous secrets after their overlap period, up to the limit.
   * If the token was used before, the same notices are returned if they still apply, plus new ones up to the limit.
   */
  claimExpiring(request: ExpiryRequest): Promise<readonly ExpiryNotice[]>
}
