/** The state of a delivery loop at a moment, for a check of readiness. */
export interface LoopHealth {
  /** `running once`: during `runOnce`. `stopping`: from `stop` until the attempts have ended. */
  readonly state: 'stopped' | 'running' | 'running once' | 'stopping'
  /**
   * Milliseconds since the last claim that the store has answered, with or without deliveries; null before the first. A running
   * loop claims several times a second, or as soon as an attempt ends when all are in flight.
   */
  readonly lastClaimAgoMs: number | null
  /** Failed claims since then. */
  readonly failedClaims: number
  /** Why the loop waits, while the database belongs to another installation or may be a copy; otherwise null. */
  readonly heldBecause?: string | null
}
