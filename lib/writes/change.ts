import type { KeyReservation } from './creation.ts'
import type { EventRecord } from './event-envelope.ts'

/**
 * A change to a record, including the events and idempotency key. The store checks the record's current state, then
 * writes the idempotency entry, the record, the events and a delivery for each matching endpoint in one transaction.
 * Changes to the same record run one at a time, so each change sees the previous result.
 */
export interface Change<Changes> {
  readonly organizationId: string
  /** The change's id. If the result was lost, a retry with the same id is safe: the change is applied only once. */
  readonly id: string
  readonly recordId: string
  /** States in which the change is allowed, or `null` to always allow it. */
  readonly from: readonly string[] | null
  /** The new values. Omitted fields don't change. */
  readonly set: Changes
  /** Templates (see `placeholders.ts`), in event order. */
  readonly events: readonly EventRecord[]
  /** `null` if every call with a new id is a new change. */
  readonly idempotency: ChangeKeyReservation | null
}

/** Reserves an idempotency key for a change. A replay returns the changed record as JSON. */
export type ChangeKeyReservation = Omit<KeyReservation, 'reply'>

/**
 * The outcome of a change. Nothing was written unless it's `changed`.
 *
 * - `changed`: Written by this call or an earlier call with the same id. Includes the changed record.
 * - `not_found`: The organization doesn't have a record with this id.
 * - `refused`: The record's state doesn't allow the change, or the change breaks one of the method's other rules.
 * - `replayed`, `mismatch`, `in_progress`: See `CreationOutcome`.
 */
export type ChangeOutcome<Representation, Reason extends string = never> =
  | { readonly outcome: 'changed'; readonly representation: Representation }
  | { readonly outcome: 'not_found' }
  | { readonly outcome: 'refused'; readonly state: string; readonly reason: Reason | 'state' }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
