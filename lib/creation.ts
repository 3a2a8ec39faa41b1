import type { RecordedEvent } from './envelope.ts'

/**
 * A record to be created together with everything that belongs to it. A store writes the idempotency entry, the record,
 * the events and one delivery for each matching endpoint at once or not at all. The ids are the caller's, so a creation
 * whose answer was lost can be sent again unchanged: the record, its events and its deliveries exist once.
 */
export interface Creation<NewRecord> {
  readonly organizationId: string
  readonly record: NewRecord
  /** In the order in which they happened; of a creation that is given a number, with blanks for it. */
  readonly events: readonly RecordedEvent[]
  /** Null: every call with a new record id creates a record. */
  readonly idempotency: IdempotencyClaim | null
}

/** The claim of an idempotency key (specification, section 4, rule 4). */
export interface IdempotencyClaim {
  /** With the organization and the key it names the entry: `POST /api/v1/clients`. */
  readonly operation: string
  /** 1 to 200 visible ASCII characters, opaque. */
  readonly key: string
  /** SHA-256 of the validated input, lower-case hex: the same key with another fingerprint is a mismatch. */
  readonly fingerprint: string
  /** The exact text that a replay answers; of a creation that is given a number, with a blank for it. */
  readonly reply: string
  /** How long an entry lives, counted by the store's clock from the creation. */
  readonly windowMs: number
  /** How long to wait for another creation that holds the key and has not ended; null: as long as the transaction may. */
  readonly waitMs: number | null
}

/**
 * What became of a creation.
 *
 * - `created`: written, now or by an earlier attempt of this very creation.
 * - `replayed`: the key has a live entry with this fingerprint; nothing was written.
 * - `mismatch`: the key has a live entry with another fingerprint; nothing was written.
 * - `in_progress`: another creation held the key for all of `waitMs`; nothing was written.
 */
export type CreationOutcome =
  | { readonly outcome: 'created' | 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/** What became of a creation that has a number: `created` tells which one, as the store may have given it. */
export type NumberedOutcome =
  | { readonly outcome: 'created'; readonly number: string }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
