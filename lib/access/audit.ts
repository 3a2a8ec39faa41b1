import * as v from 'valibot'
import * as field from '../base/fields.ts'

// --- Types ---

/**
 * All audit actions and their `details` fields. Entries never contain secrets. URLs and headers may contain tokens, so
 * entries only list which fields changed, not their values.
 *
 * - `api_key.created`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.imported`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.updated`: `name` (the new one)
 * - `api_key.revoked`: no details
 * - `api_key.rotated`: `successorId`, `overlapMs`. The subject is the old key
 * - `rate_limit.set`: `rateLimit`, or `null` if the API's default was restored. The subject is the organization
 * - `endpoint.registered`: `types`, and `hasGivenSecret`, which is `true` if the host provided the signing secret
 * - `endpoint.updated`: `fields` (names of the changed fields)
 * - `endpoint.paused`, `endpoint.resumed`, `endpoint.disabled`, `endpoint.enabled`, `endpoint.removed`: no details
 * - `endpoint.secret_rotated`: `overlapMs`, and `changeId`, which identifies the rotation
 * - `endpoint.test_sent`: `type`, `eventId`
 * - `endpoint.backfilled`: `types`, and `events` (the number of events)
 * - `delivery.redelivered`: `recovered`, always 1. If an event was sent to a single endpoint,
 *   `eventId` and `endpointId`
 * - `deliveries.recovered`: `filter`, and `recovered` (the number of deliveries). The subject is the endpoint in the
 *   filter, or the organization if the filter has none
 * - `delivery.cancelled`: no details
 * - `events.purged`: `olderThanMs`, and `events` (the number of events). Only for manual purges. The subject
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

/** An audit action, one of {@link AUDIT_ACTIONS}. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

/** Records who changed a setting or reversed a payment, and when. */
export interface AuditEntry {
  /** `aud_<ulid>`. */
  readonly id: string
  /** When the change was made, by the store's clock. */
  readonly at: string
  /** The person or program that made the change, or `null` if the host didn't pass a name. */
  readonly actor: string | null
  readonly action: AuditAction
  /** The id of the key, endpoint, delivery or payment, or the organization's id for organization-wide changes. */
  readonly subjectId: string
  /** Additional data, depending on the action. See {@link AUDIT_ACTIONS}. */
  readonly details: Readonly<Record<string, unknown>>
}

/** An entry without the time, which the store sets. Passed to the method that makes the change. */
export type AuditRecord = Omit<AuditEntry, 'at'>

/** Schema for the name of the person or program making a change. */
export const ActorSchema: v.OptionalSchema<v.GenericSchema<string | null>, null> = v.optional(
  v.nullable(field.text(1, 200)),
  null,
)

/** The base type for all requests that change settings and write an audit entry. */
export interface AuditedRequest {
  readonly organizationId: string
  readonly entry: AuditRecord
}

/** Filters audit entries. Omitted fields match everything. In calls, times can be a `Date` or ISO 8601. */
export interface AuditFilter<Moment = string> {
  /** The id of a key, endpoint or delivery, or the organization's own id for organization-wide changes. */
  readonly subjectId?: string | undefined
  readonly action?: AuditAction | undefined
  /** The exact name that the host passed as `actor`. */
  readonly actor?: string | undefined
  /**
   * Made at or after this time, by the store's clock. Entries from a process whose clock was off by over a
   * day aren't found.
   */
  readonly since?: Moment | undefined
  /** Made before this time. See the note on `since`. */
  readonly until?: Moment | undefined
}

/**
 * Maximum difference between the time in an entry's id (process clock) and its `at` (store clock), in ms. Stores can
 * find a period's entries by id.
 */
export const AUDIT_ID_MARGIN_MS: number = 24 * 60 * 60 * 1000

/** Limits how many test events an organization can send to its endpoints. */
export interface TestLimit {
  /** Maximum number of tests in any `windowMs` period. */
  readonly max: number
  readonly windowMs: number
}

// --- Store ---

/**
 * The part of a store that keeps the audit log. Methods in other slices that take an {@link AuditRecord} write the
 * entry in the same transaction as the change. Repeated calls and calls without any effect don't write an entry.
 */
export interface AuditStore {
  /**
   * Lists the newest matching entries by descending id.
   *
   * @param before the last id on the previous page, or `null` to start with the newest
   */
  list(
    organizationId: string,
    filter: AuditFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly AuditEntry[]>

  /**
   * Records an endpoint test, unless the window already has the maximum number of `endpoint.test_sent` entries. The
   * limit is exact by the store's clock, even for concurrent calls. Idempotent.
   *
   * @param entry its action must be `endpoint.test_sent`
   * @returns `true` if the entry was recorded, `false` if the limit is reached
   */
  recordTest(organizationId: string, entry: AuditRecord, limit: TestLimit): Promise<boolean>
}
