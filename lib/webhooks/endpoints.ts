import type { AuditedRequest } from '../access/audit.ts'
import type { Insertion } from '../access/insertion.ts'
import { ENDPOINT_CHOICES, type EndpointChoices, type SentChoice } from './endpoint-choices.ts'

// --- Types ---

/**
 * - `enabled`: events are sent.
 * - `paused`: deliveries stay pending until the endpoint is resumed.
 * - `disabled`: deliveries are skipped, and can be recovered later.
 */
export type EndpointState = 'enabled' | 'paused' | 'disabled'

/** A webhook endpoint as administrators see it, without its signing secret and header values. */
export interface WebhookEndpoint extends EndpointChoices {
  /** `we_<ulid>` */
  readonly id: string
  /** Incremented on every update, including header changes. */
  readonly version: number
  /** Names of the endpoint's custom headers, which are sent with every attempt. */
  readonly headerNames: readonly string[]
  readonly state: EndpointState
  /** `administrator`, `gone` (responded with 410) or `failing`. `null` unless disabled. */
  readonly disabledReason: string | null
  /** When the first failure since the last success happened, or `null` if there were no failures. */
  readonly failingSince: string | null
  /** Number of failed attempts since the last success. */
  readonly failures: number
  /** When the previous secret expires after a rotation, or `null` if there's only one secret. */
  readonly previousSecretExpiresAt: string | null
  readonly createdAt: string
}

/** What we keep of a removed endpoint to display its delivery log. */
export type RemovedEndpoint = Pick<WebhookEndpoint, 'id' | 'url' | 'description' | 'types' | 'createdAt'>

/** A new endpoint, as passed to a store. */
export interface EndpointRecord
  extends EndpointChoices,
    Pick<WebhookEndpoint, 'id' | 'headerNames' | 'createdAt'> {
  /** The sealed custom headers (names and values), or `null` if there aren't any. */
  readonly sealedHeaders: string | null
  /** The sealed signing secret. Stores never see the secret itself. */
  readonly sealedSecret: string
}

/** Endpoint fields that are passed to attempts as is. */
type SentField = 'headerNames' | 'sealedHeaders' | SentChoice

/** All {@link SentField}s. */
export const SENT_FIELDS: readonly SentField[] = [
  'headerNames',
  'sealedHeaders',
  ...ENDPOINT_CHOICES.flatMap((choice) => ('isSent' in choice ? [choice.field as SentChoice] : [])),
]

/** The endpoint data needed to make an attempt. */
export interface EndpointTarget extends Pick<EndpointRecord, SentField> {
  /** The sealed secrets, newest first. There are two during a rotation's overlap period. */
  readonly sealedSecrets: readonly string[]
}

/** The endpoint data needed to send a test delivery. */
export interface TestTarget extends EndpointTarget, Pick<EndpointRecord, 'types'> {
  /** The store's current time in milliseconds since 1970. */
  readonly storeTime: number
}

/** New headers for an endpoint. */
export interface HeaderChange extends Pick<EndpointRecord, 'headerNames' | 'sealedHeaders'> {
  /** The sealed headers this change is based on. If they don't match the current ones, nothing is changed. */
  readonly replaces: string | null
}

/** The endpoint fields to change. Missing fields stay unchanged. */
export interface EndpointChanges extends Partial<EndpointChoices> {
  readonly headers?: HeaderChange
}

/**
 * The outcome of an update, along with the resulting endpoint.
 *
 * - `changed`: the values are applied, either by this call or an earlier one.
 * - `conflict`: nothing was changed because another call changed the endpoint in the meantime.
 */
export interface EndpointChangeOutcome {
  readonly outcome: 'changed' | 'conflict'
  readonly endpoint: WebhookEndpoint
}

/** A request to create an endpoint. */
export interface EndpointInsertion extends AuditedRequest {
  readonly endpoint: EndpointRecord
  /** Maximum number of endpoints in the organization, including this one. */
  readonly limit: number
}

/** A request to remove an endpoint. */
export interface EndpointRemoval extends AuditedRequest {
  readonly endpointId: string
}

/** A request to change an endpoint. */
export interface EndpointChange extends AuditedRequest {
  readonly endpointId: string
  readonly changes: EndpointChanges
  /** The expected version. If the endpoint has a different version, nothing is changed. */
  readonly replaces?: number | undefined
}

/** A request to change an endpoint's state. */
export interface EndpointMove extends AuditedRequest {
  readonly endpointId: string
  readonly state: EndpointState
  /** States from which the change is allowed. In any other state this is a no-op. */
  readonly from: readonly EndpointState[]
}

/** A request to rotate an endpoint's signing secret. */
export interface SecretReplacement extends AuditedRequest {
  readonly endpointId: string
  /** Id of this rotation. An endpoint accepts each id only once. Stored in the audit entry as `details.changeId`. */
  readonly changeId: string
  readonly sealedSecret: string
  /** How long the previous secret keeps signing, in milliseconds by the store's clock. `0` to stop right away. */
  readonly overlapMs: number
}

/**
 * The outcome of a rotation, along with the resulting endpoint.
 *
 * - `rotated`: the given secret is now current. Also returned if an earlier call succeeded but its result was lost.
 * - `already_exists`: nothing was changed because the id was already used to rotate to a different secret.
 */
export interface SecretRotation {
  readonly outcome: 'rotated' | 'already_exists'
  readonly endpoint: WebhookEndpoint
}

/** An endpoint's credentials as stored. */
export interface SealedForms {
  readonly sealedSecret: string
  /** The secret before the last rotation, or `null` if there was none or it was erased after the overlap period. */
  readonly previousSealedSecret: string | null
  readonly sealedHeaders: string | null
}

/** An endpoint with its sealed credentials. */
export interface SealedEndpoint extends SealedForms {
  readonly organizationId: string
  readonly endpointId: string
  /** The header names, needed to open the sealed headers. */
  readonly headerNames: readonly string[]
  /** `true` if there is a previous secret whose overlap period has ended, by the store's clock. */
  readonly isPreviousExpired: boolean
}

/** A request to re-encrypt an endpoint's stored credentials. The credentials themselves don't change. */
export interface SealedExchange {
  readonly organizationId: string
  readonly endpointId: string
  readonly from: SealedForms
  /** Set `previousSealedSecret` to `null` to drop an expired secret. */
  readonly to: SealedForms
}

// --- Store ---

/** The endpoint methods of a store. */
export interface EndpointStore {
  /**
   * Inserts an endpoint in state `enabled`, unless the id is taken or the organization is at its limit. The limit is
   * enforced even for concurrent calls. Removed endpoints don't count toward the limit, but their ids stay taken. If an
   * endpoint with the same id and sealed secret exists, it's treated as the result of an earlier call. Lowering the
   * limit doesn't remove any endpoints.
   */
  insert(request: EndpointInsertion): Promise<Insertion<WebhookEndpoint>>

  /** Returns an endpoint, or `null` if it doesn't exist or was removed. */
  get(organizationId: string, endpointId: string): Promise<WebhookEndpoint | null>

  /** Lists an organization's endpoints except removed ones, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /**
   * Lists the removed endpoints still known to the store, newest first.
   *
   * @param before id of the last endpoint on the previous page, or `null` for the first page
   */
  listRemoved(
    organizationId: string,
    limit: number,
    before: string | null,
  ): Promise<readonly RemovedEndpoint[]>

  /** Returns the data needed for a test delivery in any endpoint state, or `null` if the endpoint doesn't exist. */
  getTarget(organizationId: string, endpointId: string): Promise<TestTarget | null>

  /**
   * Updates the given fields atomically. Lists the fields that actually changed in `details.fields` of the audit entry.
   * If no field changed, there's no audit entry and no new version.
   * Changing the URL or `maxPerSecond` resets the learned rate.
   *
   * @returns the outcome, or `null` if the endpoint doesn't exist
   */
  update(request: EndpointChange): Promise<EndpointChangeOutcome | null>

  /**
   * Changes the endpoint's state if the current state is in `from`. Enabling resets the failure count and learned rate.
   * Disabling sets the reason to `administrator`.
   *
   * @returns the resulting endpoint, even if unchanged, or `null` if it doesn't exist
   */
  setState(request: EndpointMove): Promise<WebhookEndpoint | null>

  /**
   * Removes an endpoint and its secrets. The endpoint is no longer listed and gets no more deliveries. Pending
   * deliveries are skipped. The delivery log is kept until the next purge.
   *
   * @returns `true` if the endpoint existed, or was already removed with the same entry
   */
  remove(request: EndpointRemoval): Promise<boolean>

  /**
   * Makes the given secret current, unless the rotation id was already used. If calls race, only one of them rotates.
   * The previous secret keeps signing for `overlapMs` by the store's clock, and any older secret stops. Calling this
   * again with the same sealed secret is a no-op.
   *
   * @returns the outcome, or `null` if the endpoint doesn't exist
   */
  rotateSecret(request: SecretReplacement): Promise<SecretRotation | null>

  /**
   * Lists the sealed credentials of every endpoint in all organizations, ordered by (organization id, endpoint id).
   * Removed endpoints are omitted.
   *
   * @param after the last endpoint of the previous page, or `null` to start from the beginning
   */
  listSealed(
    limit: number,
    after: Pick<SealedEndpoint, 'organizationId' | 'endpointId'> | null,
  ): Promise<readonly SealedEndpoint[]>

  /**
   * Replaces an endpoint's stored credentials if they still match `from`. There's no audit entry because an
   * administrator didn't change anything.
   *
   * @returns `true` if the credentials were replaced, now or by an earlier identical call. `false` if another call
   * changed them or the endpoint doesn't exist
   */
  exchangeSealed(request: SealedExchange): Promise<boolean>
}
