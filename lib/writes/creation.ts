import type { EventRecord } from './event-envelope.ts'

/**
 * A record to create, including the events and idempotency key. The store writes the idempotency entry, the record, the
 * events and a delivery for each matching endpoint in one transaction. The caller provides all ids, so a creation can
 * be sent again if the result was lost, without creating anything twice.
 */
export interface Creation<NewRecord> {
  readonly organizationId: string
  /**
   * The API key in use, checked just a moment ago. The store must not write anything if the key is no longer active or
   * the organization was deleted. Absent if the host's own code made the call.
   */
  readonly apiKeyId?: string | undefined
  readonly record: NewRecord
  /**
   * The events in order. These are templates if the store assigns the record's number. An id like `evt_<ulid>` was
   * generated for this event, so it can't be taken. With any other id, an existing event wins.
   */
  readonly events: readonly EventRecord[]
  /** `null` if every call with a new record id creates a record. */
  readonly idempotency: KeyReservation | null
  /** How long the caller waits, in ms. The store must not start writing after that. Defaults to the store's limits. */
  readonly atMostMs?: number | undefined
}

/** A create request without the organization and the idempotency key. */
export interface PreparedCreation<NewRecord = unknown, Representation = unknown>
  extends Pick<Creation<NewRecord>, 'record' | 'events'> {
  /** The record, as returned to the caller. */
  readonly representation: Representation
}

/** Reserves an idempotency key (see section 4, rule 4 of the spec). */
export interface KeyReservation {
  /** Identifies the entry together with the organization and the key, for example `POST /api/v1/clients`. */
  readonly operation: string
  /** An opaque string of 1 to 200 visible ASCII characters. */
  readonly key: string
  /** SHA-256 of the validated input in lowercase hex. Reusing a key with a different fingerprint is a mismatch. */
  readonly fingerprint: string
  /** The exact string for a replay to return. It's a template if the store assigns the record's number. */
  readonly reply: string
  /** How long the entry lives, in ms (store's clock). */
  readonly windowMs: number
  /** How long to wait for an unfinished creation with this key, in ms. If `null`, as long as the transaction allows. */
  readonly waitMs: number | null
}

/**
 * The outcome of a creation. Nothing was written unless it's `created`.
 *
 * - `created`: Written by this call or an earlier call with the same ids.
 * - `replayed`: The key was already used with this fingerprint.
 * - `mismatch`: The key was already used with a different fingerprint.
 * - `in_progress`: Another creation held the key for all of `waitMs`.
 * - `unauthenticated`: The API key is no longer active.
 */
export type CreationOutcome =
  | { readonly outcome: 'created' | 'mismatch' | 'in_progress' | 'unauthenticated' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/** The outcome of a creation through the API, where the input can reference a business that doesn't exist. */
export type ApiCreationOutcome = CreationOutcome | { readonly outcome: 'no_business' }

/** The outcome of creating a numbered record. If it's `created`, `number` was assigned by the host or the store. */
export type NumberedOutcome =
  | { readonly outcome: 'created'; readonly number: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
