/** Selects the deliveries of an organization or of one endpoint. */
export interface QueueTarget {
  readonly organizationId: string
  /** All endpoints of the organization if absent. */
  readonly endpointId?: string | undefined
}

/**
 * Counts of unfinished and failed deliveries. Each count is exact up to {@link QUEUE_COUNT_MAX}, and 10,001 means that
 * there are more. Since counting stops there, a million due deliveries cost no more to count than ten thousand. If the
 * queue has more than 30,000 deliveries and 1,000 endpoints, a store may count too few and miss the oldest one. A store
 * may also only read the 10,000 deliveries that are due soonest among those waiting for a retry or being sent. Since
 * that includes deliveries of disabled endpoints and other organizations, the count can be too low.
 */
export interface QueueCounts {
  /** Due deliveries of enabled endpoints. */
  readonly due: number
  /**
   * How long the oldest due delivery has been due, in milliseconds, or 0 if none are due. Ignores backfill deliveries,
   * as they have to wait for all other deliveries of the organization.
   */
  readonly oldestDueMs: number
  /** Deliveries waiting for a retry, for both enabled and paused endpoints. */
  readonly backingOff: number
  /** Deliveries of paused endpoints that would be due otherwise. */
  readonly paused: number
  /** Deliveries claimed by any process. */
  readonly sending: number
  /** Failed deliveries that haven't been recovered, even of removed endpoints. Purged along with their event. */
  readonly failed: number
  /** `true` if part of the store couldn't be reached, so its deliveries aren't included. */
  readonly isPartial?: boolean | undefined
}

/** Counts of {@link QueueCounts} are exact up to this number. */
export const QUEUE_COUNT_MAX = 10_000
