/** Exponential backoff for connection attempts. */
export interface DialBackoff {
  /**
   * Returns the delay before the next attempt in milliseconds, or 0 to start now. After a failure, only one attempt at
   * a time probes the server, and `null` means that one of the `underWay` attempts must finish first.
   */
  delay(underWay: number): number | null
  failed(): void
  succeeded(): void
}

const FIRST_MS = 20
const LONGEST_MS = 500

/** Creates a store's backoff. The delay starts at 20 ms and doubles with each failure, up to 500 ms. */
export function createDialBackoff(): DialBackoff {
  let failures = 0
  /** Earliest time of the next attempt, on the monotonic clock. */
  let nextAt = 0

  return {
    delay(underWay) {
      if (failures === 0) return 0
      return underWay > 0 ? null : Math.max(0, nextAt - performance.now())
    },
    failed() {
      const now = performance.now()
      // Attempts that started together count as one failure.
      if (failures > 0 && now < nextAt) return
      const longestMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** failures++)
      nextAt = now + longestMs * (0.5 + Math.random() / 2)
    },
    succeeded() {
      failures = 0
    },
  }
}
