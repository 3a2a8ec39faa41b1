// --- Types ---

/**
 * Every action of an audit entry, with what is in its `details`. None holds a secret; URLs and headers may hold tokens,
 * so they are named and not repeated.
 *
 * - `api_key.created`: `name`, `scopes`, `expiresAt`, `rateLimit`
 * - `api_key.revoked`: nothing
 * - `api_key.rotated`, of the key that is replaced: `successorId`, `overlapMs`
 * - `rate_limit.set`, of the organization: `rateLimit`, null when it was returned to the API's
 * - `endpoint.registered`: `types`
 * - `endpoint.updated`: `fields`, the names of those that have another value now
 * - `endpoint.paused`, `endpoint.resumed`, `endpoint.disabled`, `endpoint.enabled`, `endpoint.removed`: nothing
 * - `endpoint.secret_rotated`: `overlapMs`, and `changeId`, the id of the rotation
 * - `endpoint.test_sent`: `type`, `eventId`
 * - `delivery.redelivered`: `recovered`, which is 1
 * - `deliveries.recovered`, of the filter's endpoint or else of the organization: `filter`, and `recovered`, how many
 * - `delivery.cancelled`: nothing
 * - `events.purged`, of the organization, by a purge by hand: `olderThanMs`, and `events`, how many
 */
export const AUDIT_ACTIONS = [
  'api_key.created',
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
  'delivery.redelivered',
  'deliveries.recovered',
  'delivery.cancelled',
  'events.purged',
] as const

/** What was done: one of {@link AUDIT_ACTIONS}. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

/** Who changed what, and when. */
export interface AuditEntry {
  /** `aud_<ulid>`. */
  readonly id: string
  /** By the store's clock. */
  readonly at: string
  /** The host's name for who did it; null where it gave none. */
  readonly actor: string | null
  readonly action: AuditAction
  /** The key, the endpoint or the delivery; the organization's own id for what concerns all of it. */
  readonly subjectId: string
  /** What else is to be known, by action: see {@link AUDIT_ACTIONS}. */
  readonly details: Readonly<Record<string, unknown>>
}

/** An entry as it is handed to the verb that makes the change. The store adds when. */
export type AuditRecord = Omit<AuditEntry, 'at'>

/** What every verb takes that makes a change of the settings and writes the change's entry. */
export interface AuditedRequest {
  readonly organizationId: string
  readonly entry: AuditRecord
}

/** Which entries; what is absent does not count. */
export interface AuditFilter {
  readonly subjectId?: string
}

// --- Store ---

/**
 * What a store must do for the audit. Verbs of other slices that take an {@link AuditRecord} write its entry together
 * with their change or not at all: none when there is nothing to change, one however often the verb is sent.
 */
export interface AuditStore {
  /**
   * The newest entries that the filter lets through, newest id first.
   *
   * @param before the id of the last entry of the page before; null: from the newest
   */
  list(
    organizationId: string,
    filter: AuditFilter,
    limit: number,
    before: string | null,
  ): Promise<readonly AuditEntry[]>

  /** Records what changes nothing in the store, as a test that is sent. The same id again changes nothing. */
  record(organizationId: string, entry: AuditRecord): Promise<void>
}
