import type { AuditedRequest } from '../access/audit.ts'
import type { Insertion } from '../access/insertion.ts'
import { ENDPOINT_CHOICES, type EndpointChoices, type SentChoice } from './endpoint-choices.ts'

// --- Types ---

/**
 * - `enabled`: events are sent.
 * - `paused`: deliveries stay pending until the endpoint is resumed.
 * - `disabled`: deliveries are marked as skipped and can be recovered later.
 */
export type EndpointState = 'enabled' | 'paused' | 'disabled'

/** A webhook endpoint as seen by an administrator, without its signing secret and header values. */
export interface WebhookEndpoint extends EndpointChoices {
  /** `we_<ulid>` */
  readonly id: string
  /** Number of times the endpoint has been updated, including its header values. */
  readonly version: number
  /** Names of the organization's custom headers, which are sent with every attempt. */
  readonly headerNames: readonly string[]
  readonly state: EndpointState
  /** Why the endpoint is disabled: `administrator`, `gone` (responded with 410) or `failing`. Otherwise `null`. */
  readonly disabledReason: string | null
  /** Time of the first failure since the last success, or `null` if there was none. */
  readonly failingSince: string | null
  /** Number of failed attempts since the last success. */
  readonly failures: number
  /** When the previous secret stops signing after a rotation, or `null` if there is only one secret. */
  readonly previousSecretExpiresAt: string | null
  readonly createdAt: string
}

/** The properties of a removed endpoint that are kept for its delivery log. */
export type RemovedEndpoint = Pick<WebhookEndpoint, 'id' | 'url' | 'description' | 'types' | 'createdAt'>

/** A new endpoint as passed to a store. */
export interface EndpointRecord
  extends EndpointChoices,
    Pick<WebhookEndpoint, 'id' | 'headerNames' | 'createdAt'> {
  /** The sealed custom headers including values, or `null` if there are none. */
  readonly sealedHeaders: string | null
  /** The sealed signing secret. Stores never see the plain secret. */
  readonly sealedSecret: string
}

/** Fields of an endpoint that are passed to attempts unchanged. */
type SentField = 'headerNames' | 'sealedHeaders' | SentChoice

/** All {@link SentField}s. */
export const SENT_FIELDS: readonly SentField[] = [
  'headerNames',
  'sealedHeaders',
  ...ENDPOINT_CHOICES.flatMap((choice) => ('isSent' in choice ? [choice.field as SentChoice] : [])),
]

/** The data of an endpoint that is needed to make an attempt. */
export interface EndpointTarget extends Pick<EndpointRecord, SentField> {
  /** The sealed secrets, current one first. There are two during the overlap of a rotation. */
  readonly sealedSecrets: readonly string[]
}

/** The data needed to send a test delivery. */
export interface TestTarget extends EndpointTarget, Pick<EndpointRecord, 'types'> {
  /** The store's current time in milliseconds since 1970. */
  readonly storeTime: number
}

/** New headers for an endpoint. */
export interface HeaderChange extends Pick<EndpointRecord, 'headerNames' | 'sealedHeaders'> {
  /** The sealed headers that this change is based on. If the endpoint's headers are different, nothing is changed. */
  readonly replaces: string | null
}

/** The fields of an endpoint that can be changed. Absent fields remain unchanged. */
export interface EndpointChanges extends Partial<EndpointChoices> {
  readonly headers?: HeaderChange
}

/**
 * The outcome of a change and the resulting endpoint.
 *
 * - `changed`: the values were applied, either now or by an earlier call.
 * - `conflict`: the endpoint was changed by another call in the meantime, so nothing was changed.
 */
export interface EndpointChangeOutcome {
  readonly outcome: 'changed' | 'conflict'
  readonly endpoint: WebhookEndpoint
}

/** A request to create an endpoint. */
export interface EndpointInsertion extends AuditedRequest {
  readonly endpoint: EndpointRecord
  /** Maximum number of endpoints of the organization, including the new one. */
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
  /** The version this change is based on. If the endpoint has another one, nothing is changed. Optional. */
  readonly replaces?: number | undefined
}

/** A request to change the state of an endpoint. */
export interface EndpointMove extends AuditedRequest {
  readonly endpointId: string
  readonly state: EndpointState
  /** The states in which the change is allowed. In any other state, nothing happens. */
  readonly from: readonly EndpointState[]
}

/** A request to rotate the signing secret of an endpoint. */
export interface SecretReplacement extends AuditedRequest {
  readonly endpointId: string
  /** Id of this rotation. An endpoint accepts it only once. Stored in the audit entry's `details.changeId`. */
  readonly changeId: string
  readonly sealedSecret: string
  /** How long the previous secret continues to sign, in milliseconds by the store's clock. `0` for not at all. */
  readonly overlapMs: number
}

/**
 * The outcome of a rotation and the resulting endpoint.
 *
 * - `rotated`: the given secret is the current one now. This includes the case that an earlier call succeeded but its
 *   result was lost.
 * - `already_exists`: a rotation with the same id but a different secret was made before, so nothing was changed.
 */
export interface SecretRotation {
  readonly outcome: 'rotated' | 'already_exists'
  readonly endpoint: WebhookEndpoint
}

/** The credentials of an endpoint as stored. */
export interface SealedForms {
  readonly sealedSecret: string
  /** The secret before the last rotation, or `null` if there was none or if it was erased after the overlap. */
  readonly previousSealedSecret: string | null
  readonly sealedHeaders: string | null
}

/** An endpoint with its sealed credentials. */
export interface SealedEndpoint extends SealedForms {
  readonly organizationId: string
  readonly endpointId: string
  /** The header names. They are needed to open the sealed headers. */
  readonly headerNames: readonly string[]
  /** `true` if there is a previous secret and its overlap is over, by the store's clock. */
  readonly isPreviousExpired: boolean
}

/** A request to replace the stored form of an endpoint's credentials without changing the credentials themselves. */
export interface SealedExchange {
  readonly organizationId: string
  readonly endpointId: string
  readonly from: SealedForms
  /** If `previousSealedSecret` is `null`, an expired previous secret is dropped. */
  readonly to: SealedForms
}

// --- Store ---

/** The part of a store that handles webhook endpoints. */
export interface EndpointStore {
  /**
   * Inserts an endpoint in state `enabled`, unless the id is taken or the limit is reached. The limit is exact even for
   * concurrent calls. Removed endpoints don't count toward it, but their ids remain taken. If the id exists and the
   * sealed secret is the same, it's treated as the same endpoint. Existing endpoints are kept even if the limit is
   * lower than their number.
   */
  insert(request: EndpointInsertion): Promise<Insertion<WebhookEndpoint>>

  /** Returns an endpoint, or `null` if it doesn't exist or was removed. */
  get(organizationId: string, endpointId: string): Promise<WebhookEndpoint | null>

  /** Lists the endpoints of the organization, newest first. Removed endpoints aren't included. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /**
   * Lists the removed endpoints that the store still keeps, newest first.
   *
   * @param before the id of the last endpoint on the previous page, or `null` to start with the newest
   */
  listRemoved(
    organizationId: string,
    limit: number,
    before: string | null,
  ): Promise<readonly RemovedEndpoint[]>

  /** Returns what is needed for a test delivery, regardless of the endpoint's state, or `null` if it doesn't exist. */
  getTarget(organizationId: string, endpointId: string): Promise<TestTarget | null>

  /**
   * Changes the given fields, all or none of them. The names of the fields whose value changed are stored in
   * `details.fields` of the audit entry. If nothing changed, no entry is written and the version stays the same.
   *
   * Changing the URL or `maxPerSecond` resets the learned rate.
   *
   * @returns the outcome, or `null` if the endpoint doesn't exist
   */
  update(request: EndpointChange): Promise<EndpointChangeOutcome | null>

  /**
   * Changes the state of an endpoint if its current state is in `from`. Enabling it resets its failures and learned
   * rate. Disabling it sets the reason to `administrator`.
   *
   * @returns the endpoint after the call, whether it was changed or not, or `null` if it doesn't exist
   */
  setState(request: EndpointMove): Promise<WebhookEndpoint | null>

  /**
   * Removes an endpoint and its secrets. It's no longer listed and nothing more is sent to it. Its delivery log is kept
   * until it's purged. Pending deliveries become skipped.
   *
   * @returns `true` if the endpoint existed, including when it was removed with the same entry before
   */
  remove(request: EndpointRemoval): Promise<boolean>

  /**
   * Makes the given secret the current one unless a rotation with the same id was made before. If two calls run at the
   * same time, only one of them rotates. The previous secret continues to sign for `overlapMs` by the store's clock,
   * older ones no longer do. Passing the same sealed secret again changes nothing.
   *
   * @returns the outcome, or `null` if the endpoint doesn't exist
   */
  rotateSecret(request: SecretReplacement): Promise<SecretRotation | null>

  /**
   * Lists the sealed credentials of all endpoints of all organizations, ordered by (organization id, endpoint id).
   * Removed endpoints aren't included.
   *
   * @param after the last endpoint of the previous part, or `null` to start with the first
   */
  listSealed(
    limit: number,
    after: Pick<SealedEndpoint, 'organizationId' | 'endpointId'> | null,
  ): Promise<readonly SealedEndpoint[]>

  /**
   * Replaces the stored credentials of an endpoint if they still match `from`. No audit entry is written, because this
   * isn't a change by an administrator.
   *
   * @returns `true` if the credentials were replaced, including by an earlier identical call, or `false` if they were
   * changed by another call or the endpoint doesn't exist
   */
  exchangeSealed(request: SealedExchange): Promise<boolean>
}
