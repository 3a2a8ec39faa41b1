import * as v from 'valibot'
import * as field from '../base/fields.ts'

// --- Types ---

/**
 * Every action of an audit entry, with the fields of its `details`. No entry holds a secret; URLs and headers may hold
 * tokens, so an entry names changed fields and repeats no value.
 *
 * - `api_key.created`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.imported`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.updated`: `name`, the new name
 * - `api_key.revoked`: nothing
 * - `api_key.rotated`, of the key that is replaced: `successorId`, `overlapMs`
 * - `rate_limit.set`, of the organization: `rateLimit`, null for a return to the API's limit
 * - `endpoint.registered`: `types`, and `hasGivenSecret`, true for a signing secret of the host's
 * - `endpoint.updated`: `fields`, the names of the fields with a new value
 * - `endpoint.paused`, `endpoint.resumed`, `endpoint.disabled`, `endpoint.enabled`, `endpoint.removed`: nothing
 * - `endpoint.secret_rotated`: `overlapMs`, and `changeId`, the id of the rotation
 * - `endpoint.test_sent`: `type`, `eventId`
 * - `endpoint.backfilled`: `types`, and `events`, the number of events
 * - `delivery.redelivered`: `recovered`, which is 1; of an event that was sent to one endpoint also `eventId`, `endpointId`
 * - `deliveries.recovered`, of the filter's endpoint or else of the organization: `filter`, and `recovered`, the number
 *   of deliveries
 * - `delivery.cancelled`: nothing
 * - `events.purged`, of the organization, by a purge by hand: `olderThanMs`, and `events`, the number of events
 * - `payment.reversed`, of the payment: `invoiceId`, `reversalId`
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

/** An entry's action: a member of {@link AUDIT_ACTIONS}. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

/** A change of the settings or a reversed payment: the actor, the action, the subject and the time. */
export interface AuditEntry {
  /** `aud_<ulid>`. */
  readonly id: string
  /** By the store's clock. */
  readonly at: string
  /** The host's name for the person or program that made the change; null if the host gave no name. */
  readonly actor: string | null
  readonly action: AuditAction
  /**
   * The id of the key, endpoint, delivery or payment; of the organization, for a change that concerns the whole organization.
   */
  readonly subjectId: string
  /** Further facts, by action: see {@link AUDIT_ACTIONS}. */
  readonly details: Readonly<Record<string, unknown>>
}

/** An entry without the time, which the store adds: an argument of the verb that makes the change. */
export type AuditRecord = Omit<AuditEntry, 'at'>

/** The host's name for the person or program that makes a change. */
export const ActorSchema: v.OptionalSchema<v.GenericSchema<string | null>, null> = v.optional(
  v.nullable(field.text(1, 200)),
  null,
)

/** The request of every verb that changes the settings and writes the audit entry of the change. */
export interface AuditedRequest {
  readonly organizationId: string
  readonly entry: AuditRecord
}

/**
 * Selects entries; an absent field selects all. A host's calls take moments as a `Date`, or as ISO 8601 with a time zone, and a store as
 * ISO 8601.
 */
export interface AuditFilter<Moment = string> {
  /** The id of a key, an endpoint or a delivery, or the organization's own id for changes of the whole organization. */
  readonly subjectId?: string | undefined
  readonly action?: AuditAction | undefined
  /** The name that the host gave as the `actor`, in full. */
  readonly actor?: string | undefined
  /**
   * Made at this moment or later, by the store's clock. An entry of a process whose clock differs from the store's by more than a day
   * is not found by `since` and `until`.
   */
  readonly since?: Moment | undefined
  /** Made before this moment: as `since`. */
  readonly until?: Moment | undefined
}

/**
 * The most that the time of an entry's id, which is by the clock of the process that made the change, may differ from the
 * entry's `at`, which is by the store's clock: a store may use ids to find the entries of a period, within this margin.
 */
export const AUDIT_ID_MARGIN_MS: number = 24 * 60 * 60 * 1000

/** Bounds the tests of endpoints that an organization sends. */
export interface TestLimit {
  /** Maximum number of tests in any period of `windowMs`. */
  readonly max: number
  readonly windowMs: number
}

// --- Store ---

/**
 * The slice of a store for the audit. Verbs of other slices that take an {@link AuditRecord} write the entry together
 * with the change or not at all: no entry when nothing changes, a single entry for a verb that is sent several times.
 */
export interface AuditStore {
  /**
   * Lists the newest entries that the filter selects, newest id first.
   *
   * @param before the previous page's last id; null: from the newest
   */
  list(
    organizationId: string,
    filter: AuditFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly AuditEntry[]>

  /**
   * Records a test of an endpoint, which changes nothing else, unless the organization has as many entries of the action
   * `endpoint.test_sent` within the window before now: exact, by the store's clock, also among calls at the same time. A
   * second call with the same id changes nothing.
   *
   * @param entry of the action `endpoint.test_sent`
   * @returns whether the entry is recorded; false when the limit is reached
   */
  recordTest(organizationId: string, entry: AuditRecord, limit: TestLimit): Promise<boolean>
}
