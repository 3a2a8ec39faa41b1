import type { KeyReservation } from './creation.ts'
import type { EventRecord } from './event-envelope.ts'

/**
 * A change to a record, including its events and idempotency key. The store checks the record's current state and then
 * writes the idempotency entry, the record, the events and a delivery for each matching endpoint in one transaction.
 * Changes to the same record run one after the other, so the second one sees the result of the first.
 */
export interface Change<Changes> {
  readonly organizationId: string
  /** The change's id. A change is only applied once, even if repeated after a lost result. */
  readonly id: string
  readonly recordId: string
  /** The states that allow the change, or `null` if all do. */
  readonly from: readonly string[] | null
  /** The new values. Absent fields don't change. */
  readonly set: Changes
  /** Templates (see `placeholders.ts`) in the order of the events. */
  readonly events: readonly EventRecord[]
  /** `null` if each new id is a new change. */
  readonly idempotency: ChangeKeyReservation | null
}

/** Reserves an idempotency key for a change. A replay returns the record after the change as JSON. */
export type ChangeKeyReservation = Omit<KeyReservation, 'reply'>

/**
 * The outcome of a change. Nothing was written unless it's `changed`.
 *
 * - `changed`: written by this call or by an earlier call with the same id. Contains the record after the change.
 * - `not_found`: the organization has no record with this id.
 * - `refused`: the record's state doesn't allow the change, or the change breaks another rule of the method.
 * - `replayed`, `mismatch`, `in_progress`: see `CreationOutcome`.
 */
export type ChangeOutcome<Representation, Reason extends string = never> =
  | { readonly outcome: 'changed'; readonly representation: Representation }
  | { readonly outcome: 'not_found' }
  | { readonly outcome: 'refused'; readonly state: string; readonly reason: Reason | 'state' }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
