import type { EventRecord } from './event-envelope.ts'

/**
 * A record to create, including its events and idempotency key. The store writes the idempotency entry, the record, the
 * events and a delivery for each matching endpoint in one transaction. Because the caller provides the ids, a creation
 * can be sent again if its result is lost, without creating anything twice.
 */
export interface Creation<NewRecord> {
  readonly organizationId: string
  /**
   * The API key that was used, which was checked a moment ago. The store must not write anything if the key is no
   * longer active or the organization was deleted. Absent if called by the host's own code.
   */
  readonly apiKeyId?: string | undefined
  readonly record: NewRecord
  /**
   * The events in order, as templates if the store assigns the record's number. An id such as `evt_<ulid>` was
   * generated for this event and can't belong to another one. For other ids, an existing event is kept.
   */
  readonly events: readonly EventRecord[]
  /** `null` if each call with a new record id creates a record. */
  readonly idempotency: KeyReservation | null
  /** How long the caller waits, in ms. The store can't start to write after that. Defaults to the store's limits. */
  readonly atMostMs?: number | undefined
}

/** A creation that only lacks the organization and the idempotency key. */
export interface PreparedCreation<NewRecord = unknown, Representation = unknown>
  extends Pick<Creation<NewRecord>, 'record' | 'events'> {
  /** The record as it's returned to the caller. */
  readonly representation: Representation
}

/** Reserves an idempotency key (specification, section 4, rule 4). */
export interface KeyReservation {
  /** Identifies the entry together with the organization and the key, for example `POST /api/v1/clients`. */
  readonly operation: string
  /** An opaque string of 1 to 200 visible ASCII characters. */
  readonly key: string
  /** SHA-256 of the validated input in lowercase hex. The same key with a different fingerprint is a mismatch. */
  readonly fingerprint: string
  /** The exact string returned by a replay. It's a template if the store assigns the record's number. */
  readonly reply: string
  /** Lifetime of the entry in ms, by the store's clock. */
  readonly windowMs: number
  /** Maximum wait for an unfinished creation with this key, in ms. `null` to wait as long as the transaction allows. */
  readonly waitMs: number | null
}

/**
 * The outcome of a creation. Nothing was written unless it's `created`.
 *
 * - `created`: written by this call or by an earlier call with the same ids.
 * - `replayed`: the key was already used with this fingerprint.
 * - `mismatch`: the key was already used with a different fingerprint.
 * - `in_progress`: another creation held the key for the whole `waitMs`.
 * - `unauthenticated`: the API key is no longer active.
 */
export type CreationOutcome =
  | { readonly outcome: 'created' | 'mismatch' | 'in_progress' | 'unauthenticated' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/** The outcome of a creation through the API. It can refer to a business that the organization doesn't have. */
export type ApiCreationOutcome = CreationOutcome | { readonly outcome: 'no_business' }

/** The outcome of creating a numbered record. If `created`, `number` was assigned by the host or the store. */
export type NumberedOutcome =
  | { readonly outcome: 'created'; readonly number: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
