/** Decides when the next connection may be dialled, so a server that rejects connections is not dialled in a loop. */
export interface DialBackoff {
  /**
   * Milliseconds until the next dial is allowed; 0 for now.
   *
   * @param underWay dials that have not ended: after a failure a single dial probes the server
   * @returns null if the next dial must wait for the end of a dial under way
   */
  delay(underWay: number): number | null
  failed(): void
  succeeded(): void
}

const FIRST_MS = 20
const LONGEST_MS = 500

/** Creates the backoff of a store: 20 ms after a failed dial, doubled with each further failure, half a second at most. */
export function createDialBackoff(): DialBackoff {
  let failures = 0
  /** Time of the next allowed dial, on the monotonic clock. */
  let nextAt = 0

  return {
    delay(underWay) {
      if (failures === 0) return 0
      return underWay > 0 ? null : Math.max(0, nextAt - performance.now())
    },
    failed() {
      const now = performance.now()
      // Failures of dials that began together count once.
      if (failures > 0 && now < nextAt) return
      const longestMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** failures++)
      nextAt = now + longestMs * (0.5 + Math.random() / 2)
    },
    succeeded() {
      failures = 0
    },
  }
}
