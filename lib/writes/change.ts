import type { KeyReservation } from './creation.ts'
import type { EventRecord } from './event-envelope.ts'

/**
 * A change of a record, with the events and the idempotency key of the change. A store judges the present state of the record,
 * and writes the idempotency entry, the record, the events and a delivery for each matching endpoint at once or not at all. Two
 * changes of the same record happen one after the other, and the second change judges the result of the first.
 */
export interface Change<Changes> {
  readonly organizationId: string
  /** The id of this change. A change that is sent again after a lost result happens once, also after other changes. */
  readonly id: string
  readonly recordId: string
  /** The states that allow the change; null: every state. */
  readonly from: readonly string[] | null
  /** The new values; absent fields keep the present values. */
  readonly set: Changes
  /** Templates (see `placeholders.ts`), in the order of the events. */
  readonly events: readonly EventRecord[]
  /** Null: each new id is another change. */
  readonly idempotency: ChangeKeyReservation | null
}

/** The reservation of an idempotency key by a change: a replay returns the record after the change, as JSON. */
export type ChangeKeyReservation = Omit<KeyReservation, 'reply'>

/**
 * The outcome of a change. Nothing was written unless the outcome is `changed`.
 *
 * - `changed`: written, now or by an earlier call with the same id; with the representation after the change.
 * - `not_found`: the organization has no record with this id.
 * - `refused`: the present state does not allow the change, or the change breaks a rule that the verb names.
 * - `replayed`, `mismatch`, `in_progress`: see `CreationOutcome`.
 */
export type ChangeOutcome<Representation, Reason extends string = never> =
  | { readonly outcome: 'changed'; readonly representation: Representation }
  | { readonly outcome: 'not_found' }
  | { readonly outcome: 'refused'; readonly state: string; readonly reason: Reason | 'state' }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
