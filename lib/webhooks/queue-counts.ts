/** Selects an organization's deliveries, or one endpoint's. */
export interface QueueTarget {
  readonly organizationId: string
  /** Absent: all endpoints of the organization. */
  readonly endpointId?: string | undefined
}

/**
 * The deliveries that are not finished, and the failed ones. Each count is exact to {@link QUEUE_COUNT_MAX}; the next number,
 * 10,001, stands for every greater count. Counting ends there, so the counts cost the same with a thousand due deliveries
 * and with a million. A store may count too few, and miss the oldest, in a queue of more than 30,000 deliveries
 * and 1,000 endpoints. Of the deliveries that wait for a retry or are being sent, a store may read 10,000 only, those that are due
 * soonest. Among these, deliveries of disabled endpoints and other organizations don't count, so the count may be too low.
 */
export interface QueueCounts {
  /** Deliveries of enabled endpoints that are due. */
  readonly due: number
  /**
   * Milliseconds for which the oldest due delivery has been due; 0 without due deliveries. Deliveries of backfills, which wait
   * for all others of the organization, do not count here.
   */
  readonly oldestDueMs: number
  /** Deliveries that wait for a retry, to enabled and paused endpoints. */
  readonly backingOff: number
  /** Deliveries of paused endpoints that would be due. */
  readonly paused: number
  /** Claimed by any process. */
  readonly sending: number
  /** Failed deliveries that have not been recovered, also of removed endpoints. Purged with the event. */
  readonly failed: number
  /** True if a part of the store could not be reached, and its deliveries are not counted. Absent: all are. */
  readonly isPartial?: boolean | undefined
}

/** The maximum exact count of {@link QueueCounts}. */
export const QUEUE_COUNT_MAX = 10_000
