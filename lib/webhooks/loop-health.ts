/** A delivery loop's current state, for use in readiness checks. */
export interface LoopHealth {
  /** `running once` during `runOnce`. `stopping` from the call to `stop` until the last attempt has ended. */
  readonly state: 'stopped' | 'running' | 'running once' | 'stopping'
  /**
   * Milliseconds since the last successful claim, even if it was empty, or `null` before the first one. A running loop
   * claims several times per second, or as soon as an attempt ends if it's at capacity.
   */
  readonly lastClaimAgoMs: number | null
  /** Number of failed claims since the last successful one. */
  readonly failedClaims: number
  /** Why the loop is waiting, if the database belongs to another installation or may be a copy. Otherwise `null`. */
  readonly heldBecause?: string | null
}
