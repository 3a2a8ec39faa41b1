/** An organization or one of its endpoints. */
export interface QueueTarget {
  readonly organizationId: string
  /** If missing, includes all of the organization's endpoints. */
  readonly endpointId?: string | undefined
}

/**
 * Number of unfinished and failed deliveries. Counts are exact up to {@link QUEUE_COUNT_MAX}. Counting stops after
 * that, so 10,001 means "more", and counting a million due deliveries is as cheap as counting ten thousand. With over
 * 30,000 deliveries and 1,000 endpoints, a store may undercount and miss the oldest delivery. For retries and
 * sending deliveries, a store may only look at the 10,000 that are due soonest. Some of those may belong to disabled
 * endpoints or other organizations, so the counts can be too low.
 */
export interface QueueCounts {
  /** Deliveries to enabled endpoints that are due now. */
  readonly due: number
  /**
   * Milliseconds since the oldest due delivery became due, or 0 if nothing is due. Excludes backfill deliveries, which
   * wait for all of the organization's other deliveries.
   */
  readonly oldestDueMs: number
  /** Deliveries waiting for a retry, to enabled or paused endpoints. */
  readonly backingOff: number
  /** Deliveries that would be due if their endpoint weren't paused. */
  readonly paused: number
  /** Deliveries claimed by any process. */
  readonly sending: number
  /** Failed deliveries that haven't been recovered, even if the endpoint was removed. Purged along with their event. */
  readonly failed: number
  /** `true` if deliveries are missing because part of the store couldn't be reached. */
  readonly isPartial?: boolean | undefined
}

/** {@link QueueCounts} are exact up to this number. */
export const QUEUE_COUNT_MAX = 10_000
