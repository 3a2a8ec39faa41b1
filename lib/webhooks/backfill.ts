import type { AuditedRequest } from '../access/audit.ts'
import type { BackfillType } from '../resources/backfill.ts'

/** A request for one part of a backfill: one event type to one endpoint. */
export interface BackfillRequest extends AuditedRequest {
  readonly endpointId: string
  readonly type: BackfillType
  /** The body of the events: see `backfillTemplate`. */
  readonly template: string
  /** The `next` of the previous part, for the same type; null: from the oldest record. */
  readonly after: string | null
  /** Records to read at most, so no part takes long. */
  readonly limit: number
}

/**
 * The outcome of one part.
 *
 * - `done`: each of the `examined` records has an event for the endpoint.
 * - `not_enabled`: the endpoint is paused or disabled; nothing was written.
 * - `not_wanted`: the endpoint does not want the type; nothing was written.
 */
export type BackfillOutcome =
  | {
      readonly outcome: 'done'
      readonly examined: number
      /** Events made by this call. An earlier part, or the creation of the record, made the others. */
      readonly events: number
      /** The `after` of the next part; null: no record is left. */
      readonly next: string | null
    }
  | { readonly outcome: 'not_enabled' | 'not_wanted' }

/** The slice of a store for backfills. */
export interface BackfillStore {
  /**
   * Makes an event from the present state of each record, in the order of the records' ids, with a single delivery, to the endpoint.
   * No other endpoint gets the event. The id of the event follows from the endpoint, the type and the record, so the same
   * part again makes nothing while the event is kept. A record is also left out if the event of its creation has a delivery to
   * the endpoint that is delivered, pending or sending.
   *
   * The deliveries are due at once and stand behind all other deliveries of the organization: see `ClaimStore.claim`.
   *
   * The entry gets `details.events`, the number of events from all calls with this entry; a call without events writes no entry.
   *
   * @returns `null` if there is no such endpoint
   */
  backfill(request: BackfillRequest): Promise<BackfillOutcome | null>

  /**
   * Counts the records with an event of a type.
   *
   * @param max maximum count: counting ends there
   */
  count(organizationId: string, type: BackfillType, max: number): Promise<number>
}
