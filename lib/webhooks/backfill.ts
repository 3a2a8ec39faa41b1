import type { AuditedRequest } from '../access/audit.ts'
import type { BackfillType } from '../resources/backfill.ts'

/** A request to backfill one batch of events of one type to an endpoint. */
export interface BackfillRequest extends AuditedRequest {
  readonly endpointId: string
  readonly type: BackfillType
  /** Template for the event bodies. See `backfillTemplate`. */
  readonly template: string
  /** `next` from the previous batch of the same type, or `null` to start with the oldest record. */
  readonly after: string | null
  /** Maximum number of records to read. Keeps each batch short. */
  readonly limit: number
}

/**
 * The result of one batch.
 *
 * - `done`: the endpoint has an event for each of the `examined` records.
 * - `not_enabled`: nothing was written because the endpoint is paused or disabled.
 * - `not_wanted`: nothing was written because the endpoint isn't subscribed to the type.
 */
export type BackfillOutcome =
  | {
      readonly outcome: 'done'
      readonly examined: number
      /** Number of events created by this call. The remaining ones already existed. */
      readonly events: number
      /** `after` for the next batch, or `null` if there are no more records. */
      readonly next: string | null
    }
  | { readonly outcome: 'not_enabled' | 'not_wanted' }

/** The backfill methods of a store. */
export interface BackfillStore {
  /**
   * Creates one event per record from the record's current state, ordered by record id. Each event is delivered to the
   * given endpoint only. Event ids are derived from the endpoint, type and record, so this is idempotent for as long as
   * the events are retained. A record is skipped if its creation event has a delivery to the endpoint that is
   * delivered, pending or sending.
   * The deliveries are due immediately, but the organization's other deliveries come first. See `ClaimStore.claim`.
   * `details.events` in the audit entry is the total across all calls that use the entry. No entry is written if no
   * events were created.
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
