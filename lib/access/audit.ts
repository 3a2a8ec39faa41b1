import * as v from 'valibot'
import * as field from '../base/fields.ts'

// --- Types ---

/**
 * All actions of audit entries and the fields of their `details`. Entries never contain secrets. Because URLs and
 * headers may contain tokens, an entry lists only the names of changed fields and not their values.
 *
 * - `api_key.created`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.imported`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.updated`: `name`, the new name
 * - `api_key.revoked`: no details
 * - `api_key.rotated`: `successorId`, `overlapMs`. The subject is the old key
 * - `rate_limit.set`: `rateLimit`, which is `null` if the API's limit was restored. The subject is the organization
 * - `endpoint.registered`: `types`, and `hasGivenSecret`, which is `true` if the host provided the signing secret
 * - `endpoint.updated`: `fields`, the names of the changed fields
 * - `endpoint.paused`, `endpoint.resumed`, `endpoint.disabled`, `endpoint.enabled`, `endpoint.removed`: no details
 * - `endpoint.secret_rotated`: `overlapMs`, and `changeId`, the rotation's id
 * - `endpoint.test_sent`: `type`, `eventId`
 * - `endpoint.backfilled`: `types`, and `events`, the number of events
 * - `delivery.redelivered`: `recovered`, always 1. Includes `eventId` and `endpointId` if an event was sent to
 *   one endpoint
 * - `deliveries.recovered`: `filter`, and `recovered`, the number of deliveries. The subject is the filter's endpoint,
 *   or the organization if there is none
 * - `delivery.cancelled`: no details
 * - `events.purged`: `olderThanMs`, and `events`, the number of events. A manual purge, whose subject
 *   is the organization
 * - `payment.reversed`: `invoiceId`, `reversalId`. The subject is the payment
 */
export const AUDIT_ACTIONS = [
  'api_key.created',
  'api_key.imported',
  'api_key.updated',
  'api_key.revoked',
  'api_key.rotated',
  'rate_limit.set',
  'endpoint.registered',
  'endpoint.updated',
  'endpoint.paused',
  'endpoint.resumed',
  'endpoint.disabled',
  'endpoint.enabled',
  'endpoint.removed',
  'endpoint.secret_rotated',
  'endpoint.test_sent',
  'endpoint.backfilled',
  'delivery.redelivered',
  'deliveries.recovered',
  'delivery.cancelled',
  'events.purged',
  'payment.reversed',
] as const

/** The action of an entry, one of {@link AUDIT_ACTIONS}. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

/** Records who changed a setting or reversed a payment, and when. */
export interface AuditEntry {
  /** `aud_<ulid>`. */
  readonly id: string
  /** The time of the change, by the store's clock. */
  readonly at: string
  /** The person or program that made the change, as named by the host, or `null` if the host didn't name one. */
  readonly actor: string | null
  readonly action: AuditAction
  /** The id of the key, endpoint, delivery or payment, or of the organization if it is affected as a whole. */
  readonly subjectId: string
  /** Additional data that depends on the action. See {@link AUDIT_ACTIONS}. */
  readonly details: Readonly<Record<string, unknown>>
}

/** An entry without the time, which is set by the store. Passed to the method that makes the change. */
export type AuditRecord = Omit<AuditEntry, 'at'>

/** A schema for the host's name of the person or program that makes a change. */
export const ActorSchema: v.OptionalSchema<v.GenericSchema<string | null>, null> = v.optional(
  v.nullable(field.text(1, 200)),
  null,
)

/** The base of all requests that change settings and write an audit entry. */
export interface AuditedRequest {
  readonly organizationId: string
  readonly entry: AuditRecord
}

/** Selects entries. An absent field matches all of them. In calls, times can be a `Date` or ISO 8601. */
export interface AuditFilter<Moment = string> {
  /** The id of a key, an endpoint or a delivery, or the organization's own id for changes to the whole organization. */
  readonly subjectId?: string | undefined
  readonly action?: AuditAction | undefined
  /** The full name passed as `actor` by the host. */
  readonly actor?: string | undefined
  /**
   * Made at or after this time, by the store's clock. An entry isn't found by `since` and `until` if the clock of the
   * process that wrote it was off by more than a day.
   */
  readonly since?: Moment | undefined
  /** Made before this time. The note on `since` applies as well. */
  readonly until?: Moment | undefined
}

/**
 * Maximum difference between the time in an entry's id (clock of the process) and its `at` (clock of the store), in ms.
 * Stores can rely on it to find the entries of a period by id.
 */
export const AUDIT_ID_MARGIN_MS: number = 24 * 60 * 60 * 1000

/** Limits how many test events an organization can send to its endpoints. */
export interface TestLimit {
  /** The maximum number of tests in any period of `windowMs`. */
  readonly max: number
  readonly windowMs: number
}

// --- Store ---

/**
 * The part of a store that keeps the audit. Methods of other slices that take an {@link AuditRecord} write the entry in
 * the same transaction as the change. There is no entry without a change, and only one for repeated calls.
 */
export interface AuditStore {
  /**
   * Lists the newest matching entries by descending id.
   *
   * @param before the last id of the previous page, or `null` to start with the newest
   */
  list(
    organizationId: string,
    filter: AuditFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly AuditEntry[]>

  /**
   * Records a test of an endpoint, unless the limit of `endpoint.test_sent` entries within the window is reached. The
   * limit is exact by the store's clock, even for concurrent calls. Repeating a call has no effect.
   *
   * @param entry its action must be `endpoint.test_sent`
   * @returns `true` if the entry was recorded, `false` if the limit is reached
   */
  recordTest(organizationId: string, entry: AuditRecord, limit: TestLimit): Promise<boolean>
}
