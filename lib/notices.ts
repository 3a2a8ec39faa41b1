import type { DeadLetter, EndpointRef } from './deliveries.ts'

// What a host should hear of while its webhooks are delivered. Notices go to the host's own code and never to a subscriber:
// a webhook about webhooks that fail would fail with them.

// --- Types ---

/**
 * Half of the failures have come that disable an endpoint. Once for each row of failures, which ends with a success or
 * when an administrator enables the endpoint.
 */
export interface EndpointFailingNotice extends EndpointRef {
  readonly kind: 'endpoint_failing'
  /** Failed attempts since its last success. */
  readonly failures: number
  /** When the first of them ended; null if there has been a success since. */
  readonly failingSince: string | null
}

/** An endpoint was disabled, but by an administrator. Once each time. */
export interface EndpointDisabledNotice extends EndpointRef {
  readonly kind: 'endpoint_disabled'
  /** `failing`: too often and for too long. `gone`: it answered 410. */
  readonly reason: 'failing' | 'gone'
  /** As of {@link EndpointFailingNotice}. */
  readonly failures: number
  readonly failingSince: string | null
}

/**
 * A delivery was given up. At least once for each round of attempts: twice when a result comes too late that says the same
 * as the one that counted. Only of a last attempt whose process died it may not come: the claim that finds it tells of it,
 * and the answer to a claim can be lost.
 */
export interface DeliveryDeadLetteredNotice extends DeadLetter {
  readonly kind: 'delivery_dead_lettered'
}

/** The signing secret of before the last rotation will soon not sign any more. Once for each rotation. */
export interface SecretExpiringNotice extends EndpointRef {
  readonly kind: 'secret_expiring'
  readonly expiresAt: string
}

/** An API key will soon not be in force any more. Once for each key, and again when it is given another expiry. */
export interface ApiKeyExpiringNotice {
  readonly kind: 'api_key_expiring'
  readonly organizationId: string
  readonly keyId: string
  readonly name: string
  readonly expiresAt: string
}

/** What will soon end. */
export type ExpiryNotice = SecretExpiringNotice | ApiKeyExpiringNotice

/**
 * What a host should hear of. Each comes when what it tells of has been written, to the one process that has written it:
 * "once" is over all processes. A process that dies in that moment takes the notice with it, and a crash of the database,
 * after which some attempts are made again, can bring one again; what is so is also in the list of endpoints, the delivery
 * log and the list of keys.
 */
export type Notice =
  | EndpointFailingNotice
  | EndpointDisabledNotice
  | DeliveryDeadLetteredNotice
  | ExpiryNotice

// --- Store ---

/** What a process asks for. */
export interface ExpiryRequest {
  /** A name for this request that no other one has. */
  readonly token: string
  /** How long before their end signing secrets are given, in milliseconds; null: none. */
  readonly secretsWithinMs: number | null
  /** As of secrets. */
  readonly apiKeysWithinMs: number | null
  /** Of each kind, at most. */
  readonly limit: number
}

/** What a store must do for notices that nothing brings about but time. */
export interface NoticeStore {
  /**
   * Gives what will soon expire, of all organizations, what ends first first, and marks it in the same step: each expiry
   * is given once, to one process. A secret that is rotated again and a key with another expiry are given anew; what has
   * expired, was revoked or belongs to a removed endpoint is not given.
   *
   * The same token again gives again what it gave, as far as that still holds, and more up to the limit.
   */
  claimExpiring(request: ExpiryRequest): Promise<readonly ExpiryNotice[]>
}
