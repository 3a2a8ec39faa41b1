import type { AuditRecord } from './audit.ts'
import type { EventType } from './events.ts'

// --- Types ---

/**
 * - `enabled`: events are sent.
 * - `paused`: deliveries are recorded and wait until it is resumed.
 * - `disabled`: deliveries are recorded as skipped, so that they can be sent after all.
 */
export type EndpointState = 'enabled' | 'paused' | 'disabled'

/** Where an organization wants its events, as an administrator sees it: everything but the signing secret. */
export interface WebhookEndpoint {
  /** `we_<ulid>`. */
  readonly id: string
  readonly url: string
  /** What the administrator calls it; may be empty. */
  readonly description: string
  /** The types it wants; null: every type, also those to come. */
  readonly types: readonly EventType[] | null
  /** Headers of the organization's own, sent with every attempt. */
  readonly headers: Readonly<Record<string, string>>
  readonly state: EndpointState
  /** Why it is disabled: `administrator`, `gone` (it answered 410), `failing`; null while it is not. */
  readonly disabledReason: string | null
  /** When the first of the failures since its last success happened; null: none has. */
  readonly failingSince: string | null
  /** Failed attempts since its last success. */
  readonly failures: number
  /** Until when the secret of before the last rotation signs too; null: one secret signs. */
  readonly previousSecretExpiresAt: string | null
  readonly createdAt: string
}

/** A new endpoint as a store keeps it. */
export interface EndpointRecord
  extends Pick<WebhookEndpoint, 'id' | 'url' | 'description' | 'types' | 'headers' | 'createdAt'> {
  /** The signing secret, sealed: the store never sees it open. */
  readonly sealedSecret: string
}

/** What is needed to send to an endpoint at once. */
export interface EndpointTarget extends Pick<WebhookEndpoint, 'url' | 'types' | 'headers'> {
  /** As sealed, the current one first; two while a rotation's overlap lasts. */
  readonly sealedSecrets: readonly string[]
  /** The store's clock, in milliseconds since 1970. */
  readonly storeTime: number
}

/** What of an endpoint can be changed; what is absent stays. */
export type EndpointChanges = Partial<Pick<WebhookEndpoint, 'url' | 'description' | 'types' | 'headers'>>

// --- Store ---

/** What a store must do for webhook endpoints. */
export interface EndpointStore {
  /** Stores a new endpoint, enabled. The same id again changes nothing. */
  insert(organizationId: string, endpoint: EndpointRecord, entry: AuditRecord): Promise<void>

  /** All endpoints of the organization that have not been removed, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /** What a test of the endpoint is sent with, whatever its state; `null` if there is no such endpoint. */
  getTarget(organizationId: string, endpointId: string): Promise<EndpointTarget | null>

  /**
   * Changes what is given. The entry gets `details.fields`: the names of those that have another value then; where none
   * has, nothing is recorded.
   *
   * @returns `null` if there is no such endpoint
   */
  update(
    organizationId: string,
    endpointId: string,
    changes: EndpointChanges,
    entry: AuditRecord,
  ): Promise<WebhookEndpoint | null>

  /**
   * Moves the endpoint to a state if it is in one of `from` now; enabling forgets its failures, and disabling has the
   * reason `administrator`.
   *
   * @returns the endpoint as it is afterwards, moved or not; `null` if there is no such endpoint
   */
  setState(
    organizationId: string,
    endpointId: string,
    state: EndpointState,
    from: readonly EndpointState[],
    entry: AuditRecord,
  ): Promise<WebhookEndpoint | null>

  /**
   * Removes the endpoint and its secrets: it is not listed any more and gets nothing any more. Its delivery log stays
   * until it is purged; what was waiting for it is skipped.
   *
   * @returns whether there was such an endpoint; true again for the same entry
   */
  remove(organizationId: string, endpointId: string, entry: AuditRecord): Promise<boolean>

  /**
   * Makes a secret the current one. The one before signs too for `overlapMs` by the store's clock, none for 0; one from
   * an earlier rotation does not sign any more. The same sealed secret again changes nothing.
   *
   * @returns `null` if there is no such endpoint
   */
  rotateSecret(
    organizationId: string,
    endpointId: string,
    sealedSecret: string,
    overlapMs: number,
    entry: AuditRecord,
  ): Promise<WebhookEndpoint | null>
}
