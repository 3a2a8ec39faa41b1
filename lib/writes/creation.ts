import type { EventRecord } from './event-envelope.ts'

/**
 * A record to be created, with the events and the idempotency key of the creation. A store writes the idempotency entry, the
 * record, the events and a delivery for each matching endpoint at once or not at all. The caller makes the ids, so after a lost
 * result the same creation can be sent again: the record, the events and the deliveries exist once.
 */
export interface Creation<NewRecord> {
  readonly organizationId: string
  /**
   * The API key behind the creation, checked a moment ago: nothing may be written if the key is no longer active, or the organization
   * was deleted. Absent: the host's own code asks.
   */
  readonly apiKeyId?: string | undefined
  readonly record: NewRecord
  /**
   * In the order of the events; templates if the store gives the record a number. An id of the form `evt_<ulid>` was made for the event
   * and belongs to no other event; for an id of another form an earlier event stands.
   */
  readonly events: readonly EventRecord[]
  /** Null: every call with a new record id creates a record. */
  readonly idempotency: KeyReservation | null
  /**
   * Milliseconds for which the caller waits. Later the store must not begin to write. Absent: the store's own limits apply.
   */
  readonly atMostMs?: number | undefined
}

/** A prepared creation. Only the organization and the idempotency key are missing. */
export interface PreparedCreation<NewRecord = unknown, Representation = unknown>
  extends Pick<Creation<NewRecord>, 'record' | 'events'> {
  /** The record as the result shows it. */
  readonly representation: Representation
}

/** The reservation of an idempotency key (specification, section 4, rule 4). */
export interface KeyReservation {
  /** Names the entry together with the organization and the key: `POST /api/v1/clients`. */
  readonly operation: string
  /** 1 to 200 visible ASCII characters, opaque. */
  readonly key: string
  /** SHA-256 of the validated input, lower-case hex: the same key with another fingerprint is a mismatch. */
  readonly fingerprint: string
  /** The exact string that a replay returns; a template if the store gives the record a number. */
  readonly reply: string
  /** Lifetime of the entry, in ms, by the store's clock. */
  readonly windowMs: number
  /** Maximum wait for an unfinished creation that holds the key, in ms; null: as long as the transaction may wait. */
  readonly waitMs: number | null
}

/**
 * The outcome of a creation.
 *
 * - `created`: written, now or by an earlier call with the same ids.
 * - `replayed`: the key has a live entry with this fingerprint; nothing was written.
 * - `mismatch`: the key has a live entry with another fingerprint; nothing was written.
 * - `in_progress`: another creation held the key for all of `waitMs`; nothing was written.
 * - `unauthenticated`: the creation's API key is not active; nothing was written.
 */
export type CreationOutcome =
  | { readonly outcome: 'created' | 'mismatch' | 'in_progress' | 'unauthenticated' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/** The outcome of a creation by the API, which may also name a business that the organization does not have. */
export type ApiCreationOutcome = CreationOutcome | { readonly outcome: 'no_business' }

/** The outcome of creating a numbered record: `created` carries the number, given by the host or by the store. */
export type NumberedOutcome =
  | { readonly outcome: 'created'; readonly number: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
