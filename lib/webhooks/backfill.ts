import type { AuditedRequest } from '../access/audit.ts'
import type { BackfillType } from '../resources/backfill.ts'

/** A request to backfill part of the events of one type to an endpoint. */
export interface BackfillRequest extends AuditedRequest {
  readonly endpointId: string
  readonly type: BackfillType
  /** The template for the event bodies. See `backfillTemplate`. */
  readonly template: string
  /** The `next` of the previous part for the same type, or `null` to start with the oldest record. */
  readonly after: string | null
  /** Maximum number of records to read, which keeps each part short. */
  readonly limit: number
}

/**
 * The result of one part.
 *
 * - `done`: all `examined` records have an event for the endpoint.
 * - `not_enabled`: the endpoint is paused or disabled, so nothing was written.
 * - `not_wanted`: the endpoint isn't subscribed to the type, so nothing was written.
 */
export type BackfillOutcome =
  | {
      readonly outcome: 'done'
      readonly examined: number
      /** Number of events created by this call. The rest were created by an earlier part or along with the record. */
      readonly events: number
      /** The `after` of the next part, or `null` if there are no more records. */
      readonly next: string | null
    }
  | { readonly outcome: 'not_enabled' | 'not_wanted' }

/** The part of a store that handles backfills. */
export interface BackfillStore {
  /**
   * Creates an event from the current state of each record, in order of record id. Each event has one delivery to the
   * given endpoint and isn't sent to any other. Event ids are derived from the endpoint, type and record, so running
   * the same part again creates nothing as long as the event is kept. Records are skipped if their creation event
   * already has a delivery to the endpoint that is delivered, pending or sending.
   *
   * Deliveries are due immediately but come after all other deliveries of the organization. See `ClaimStore.claim`.
   *
   * `details.events` of the audit entry is the total number of events from all calls with that entry. If a call creates
   * no events, no entry is written.
   *
   * @returns the outcome, or `null` if the endpoint doesn't exist
   */
  backfill(request: BackfillRequest): Promise<BackfillOutcome | null>

  /**
   * Counts the records that have an event of the given type.
   *
   * @param max stop counting at this number
   */
  count(organizationId: string, type: BackfillType, max: number): Promise<number>
}
