import type { IdempotencyClaim } from './creation.ts'
import type { RecordedEvent } from './envelope.ts'

/**
 * A change of one record together with everything that belongs to it. A store judges the record as it is at that moment,
 * and writes the idempotency entry, the record, the events and one delivery for each matching endpoint at once or not at
 * all. Two changes of one record happen one after the other, and the second judges what the first has left.
 */
export interface Change<Changes> {
  readonly organizationId: string
  /** This change's own id: sent again with it after a lost answer, it happens once, also if others came between. */
  readonly id: string
  readonly recordId: string
  /** The states in which the record may be; null: any. */
  readonly from: readonly string[] | null
  /** What the record gets; what is absent stays. */
  readonly set: Changes
  /** In the order in which they happen, with blanks (see `blanks.ts`) for what the store knows. */
  readonly events: readonly RecordedEvent[]
  /** Null: every call with a new id is a change of its own. */
  readonly idempotency: ChangeClaim | null
}

/** The claim of an idempotency key by a change: a replay answers the record as it was after the change, as JSON. */
export type ChangeClaim = Omit<IdempotencyClaim, 'reply'>

/**
 * What became of a change. Nothing was written unless it is `changed`.
 *
 * - `changed`: written, now or by an earlier attempt of this very change; with the record as it is after it.
 * - `not_found`: the organization has no record of that id.
 * - `refused`: the record is in a state that does not allow it, or breaks a rule that the verb names.
 * - `replayed`, `mismatch`, `in_progress`: as for a creation.
 */
export type ChangeOutcome<Item, Reason extends string = never> =
  | { readonly outcome: 'changed'; readonly item: Item }
  | { readonly outcome: 'not_found' }
  | { readonly outcome: 'refused'; readonly state: string; readonly reason: Reason | 'state' }
  | { readonly outcome: 'mismatch' | 'in_progress' }
  | { readonly outcome: 'replayed'; readonly reply: string }
