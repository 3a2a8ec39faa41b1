/** The current state of a delivery loop, for use in readiness checks. */
export interface LoopHealth {
  /** `running once` during `runOnce`, `stopping` after `stop` until all attempts have ended. */
  readonly state: 'stopped' | 'running' | 'running once' | 'stopping'
  /**
   * Milliseconds since the last successful claim, with or without deliveries, or `null` before the first. A running
   * loop claims several times a second, or if it's at capacity, as soon as an attempt ends.
   */
  readonly lastClaimAgoMs: number | null
  /** Number of failed claims since then. */
  readonly failedClaims: number
  /** Why the loop is waiting if the database belongs to another installation or may be a copy. Otherwise `null`. */
  readonly heldBecause?: string | null
}
