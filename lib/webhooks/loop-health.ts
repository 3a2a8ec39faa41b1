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
  /**
   * The installation that the database belongs to, while the loop waits because its own is another; empty: one without a name, restored or
   * copied; otherwise null.
   */
  readonly heldBy?: string | null
}
