import type { AuditedRequest } from '../access/audit.ts'
import type { Insertion } from '../access/insertion.ts'
import { ENDPOINT_CHOICES, type EndpointChoices, type SentChoice } from './endpoint-choices.ts'

// --- Types ---

/**
 * - `enabled`: events are sent.
 * - `paused`: deliveries stay pending until the endpoint is resumed.
 * - `disabled`: deliveries are recorded as skipped, and can be recovered later.
 */
export type EndpointState = 'enabled' | 'paused' | 'disabled'

/**
 * A webhook endpoint as an administrator sees the endpoint: without the signing secret and the values of the headers.
 */
export interface WebhookEndpoint extends EndpointChoices {
  /** `we_<ulid>`. */
  readonly id: string
  /** Number of changes by `update`, including header values. */
  readonly version: number
  /** The names of the organization's own headers, sent with every attempt. */
  readonly headerNames: readonly string[]
  readonly state: EndpointState
  /** The reason for state `disabled`: `administrator`, `gone` (responded with 410), `failing`; else null. */
  readonly disabledReason: string | null
  /** The time of the first failure since the last success; null: no failure. */
  readonly failingSince: string | null
  /** Failed attempts since the last success. */
  readonly failures: number
  /** The end of the overlap in which the previous secret signs too; null: only one secret signs. */
  readonly previousSecretExpiresAt: string | null
  readonly createdAt: string
}

/** What remains of a removed endpoint, for its delivery log. */
export type RemovedEndpoint = Pick<WebhookEndpoint, 'id' | 'url' | 'description' | 'types' | 'createdAt'>

/** A new endpoint in the form that a store keeps. */
export interface EndpointRecord
  extends EndpointChoices,
    Pick<WebhookEndpoint, 'id' | 'headerNames' | 'createdAt'> {
  /** The headers with the values, sealed; null without headers. */
  readonly sealedHeaders: string | null
  /** The signing secret, sealed: a store never holds the open secret. */
  readonly sealedSecret: string
}

/** The fields of an endpoint that an attempt needs as they are. */
type SentField = 'headerNames' | 'sealedHeaders' | SentChoice

/** {@link SentField} as a list. */
export const SENT_FIELDS: readonly SentField[] = [
  'headerNames',
  'sealedHeaders',
  ...ENDPOINT_CHOICES.flatMap((choice) => ('isSent' in choice ? [choice.field as SentChoice] : [])),
]

/** An endpoint's data for an attempt. */
export interface EndpointTarget extends Pick<EndpointRecord, SentField> {
  /** The sealed secrets, the current secret first; two during the overlap of a rotation. */
  readonly sealedSecrets: readonly string[]
}

/** The facts for sending to an endpoint at once. */
export interface TestTarget extends EndpointTarget, Pick<EndpointRecord, 'types'> {
  /** The store's clock, in milliseconds since 1970. */
  readonly storeTime: number
}

/** New headers of an endpoint. */
export interface HeaderChange extends Pick<EndpointRecord, 'headerNames' | 'sealedHeaders'> {
  /** The sealed headers on which the change is based: if the endpoint has other headers, nothing is changed. */
  readonly replaces: string | null
}

/** The fields of an endpoint that can be changed; absent fields stay. */
export interface EndpointChanges extends Partial<EndpointChoices> {
  readonly headers?: HeaderChange
}

/**
 * The outcome of a change, with the endpoint after the change:
 *
 * - `changed`: the given values are the present values, or were so before a later change.
 * - `conflict`: another call has changed what the change is based on; nothing was changed.
 */
export interface EndpointChangeOutcome {
  readonly outcome: 'changed' | 'conflict'
  readonly endpoint: WebhookEndpoint
}

/** Asks for a new endpoint. */
export interface EndpointInsertion extends AuditedRequest {
  readonly endpoint: EndpointRecord
  /** Maximum number of the organization's endpoints, the new endpoint included. */
  readonly limit: number
}

/** Names an endpoint that is removed. */
export interface EndpointRemoval extends AuditedRequest {
  readonly endpointId: string
}

/** Changes an endpoint. */
export interface EndpointChange extends AuditedRequest {
  readonly endpointId: string
  readonly changes: EndpointChanges
  /** If the endpoint has another version, nothing is changed. Undefined: any version. */
  readonly replaces?: number | undefined
}

/** Moves an endpoint to another state. */
export interface EndpointMove extends AuditedRequest {
  readonly endpointId: string
  readonly state: EndpointState
  /** The states from which the endpoint is moved; in any other state the endpoint stays. */
  readonly from: readonly EndpointState[]
}

/** Gives an endpoint a new current secret. */
export interface SecretReplacement extends AuditedRequest {
  readonly endpointId: string
  /** The id of this rotation, which an endpoint accepts once. Kept in the entry's `details.changeId`. */
  readonly changeId: string
  readonly sealedSecret: string
  /** Milliseconds, by the store's clock, for which the previous secret signs too; 0: only the new secret signs. */
  readonly overlapMs: number
}

/**
 * The outcome of a rotation, with the endpoint after the rotation:
 *
 * - `rotated`: the given secret is the current secret. An earlier call for the same rotation, whose result was lost, counts too.
 * - `already_exists`: a rotation of the same id was made before, with another secret; nothing was changed.
 */
export interface SecretRotation {
  readonly outcome: 'rotated' | 'already_exists'
  readonly endpoint: WebhookEndpoint
}

/** The credentials of an endpoint as stored. */
export interface SealedForms {
  readonly sealedSecret: string
  /** The secret before the last rotation, until it is erased after the overlap; null before the first rotation. */
  readonly previousSealedSecret: string | null
  readonly sealedHeaders: string | null
}

/** An endpoint with its sealed credentials. */
export interface SealedEndpoint extends SealedForms {
  readonly organizationId: string
  readonly endpointId: string
  /** The names of the headers; the sealed headers open only beside these names. */
  readonly headerNames: readonly string[]
  /** True if the overlap of the previous secret has ended, by the store's clock; false without a previous secret. */
  readonly isPreviousExpired: boolean
}

/** Asks for other sealed forms of the same credentials. */
export interface SealedExchange {
  readonly organizationId: string
  readonly endpointId: string
  readonly from: SealedForms
  /** `previousSealedSecret`: null drops a previous secret that has expired. */
  readonly to: SealedForms
}

// --- Store ---

/** The slice of a store for webhook endpoints. */
export interface EndpointStore {
  /**
   * Inserts an endpoint, enabled, unless the id is taken or the limit reached: exact also among calls at the same time.
   * Removed endpoints do not count, but their ids stay taken. A stored endpoint with the same id and the same sealed
   * form of the current secret is the same endpoint. A limit below the present number of endpoints removes no endpoint.
   */
  insert(request: EndpointInsertion): Promise<Insertion<WebhookEndpoint>>

  /** Reads an endpoint; `null` if there is no such endpoint, and after the removal. */
  get(organizationId: string, endpointId: string): Promise<WebhookEndpoint | null>

  /** Lists the endpoints of the organization that have not been removed, newest first. */
  list(organizationId: string): Promise<readonly WebhookEndpoint[]>

  /**
   * Lists the removed endpoints that the store still keeps, newest first.
   *
   * @param before the id of the previous page's last endpoint; null: from the newest
   */
  listRemoved(
    organizationId: string,
    limit: number,
    before: string | null,
  ): Promise<readonly RemovedEndpoint[]>

  /** Reads the facts for a test delivery, in every state of the endpoint; `null` if there is no such endpoint. */
  getTarget(organizationId: string, endpointId: string): Promise<TestTarget | null>

  /**
   * Changes the given fields, all or none. The entry gets `details.fields`, the names of the fields with a new value;
   * if no value is new, no entry is written and the version stays.
   *
   * Another URL or `maxPerSecond` forgets the learned rate.
   *
   * @returns `null` if there is no such endpoint
   */
  update(request: EndpointChange): Promise<EndpointChangeOutcome | null>

  /**
   * Moves the endpoint to a state if the present state is in `from`. Enabling forgets the failures and the learned rate;
   * disabling has the reason `administrator`.
   *
   * @returns the endpoint after the call, moved or not; `null` if there is no such endpoint
   */
  setState(request: EndpointMove): Promise<WebhookEndpoint | null>

  /**
   * Removes the endpoint and the secrets: the endpoint is no longer listed, and nothing more is sent. The delivery log
   * stays until the purge; pending deliveries become skipped.
   *
   * @returns true if there was such an endpoint; true again for the same entry
   */
  remove(request: EndpointRemoval): Promise<boolean>

  /**
   * Makes a secret the current secret, unless a rotation of the same id was made before: of two calls at the same time only
   * one rotates. The previous secret signs too for `overlapMs` by the store's clock; older secrets sign no longer. The same
   * sealed secret again changes nothing.
   *
   * @returns `null` if there is no such endpoint
   */
  rotateSecret(request: SecretReplacement): Promise<SecretRotation | null>

  /**
   * Lists the sealed credentials of all organizations' endpoints that haven't been removed, by (organization id, endpoint id).
   *
   * @param after the last endpoint of the previous part; null: from the first
   */
  listSealed(
    limit: number,
    after: Pick<SealedEndpoint, 'organizationId' | 'endpointId'> | null,
  ): Promise<readonly SealedEndpoint[]>

  /**
   * Exchanges the sealed credentials of an endpoint, if the request names the present forms. No audit entry is written,
   * because no administrator has changed anything.
   *
   * @returns true if the endpoint has the new forms, also for the same request again; false when another call has
   *   changed a form, and when there is no such endpoint
   */
  exchangeSealed(request: SealedExchange): Promise<boolean>
}
