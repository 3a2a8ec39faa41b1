import type { DeliveryWatch } from '../webhooks/claims.ts'
import { TIMER_EARLY_MS } from './wake-up.ts'

/** A loop is idle after this many milliseconds without a delivery. */
const IDLE_AFTER_MS = 1000
/**
 * An idle loop's poll interval in milliseconds. Commits wake the loop anyway, so polling is only for deliveries that
 * become due in other ways, such as an expired lease.
 */
const IDLE_POLL_MS = 1000

/**
 * Returns a function that returns the number of milliseconds until the next poll. If nothing was delivered for a second
 * and the store wakes the loop on every commit, it polls less often (by default a tenth as often).
 */
export function createPollPace(
  pollIntervalMs: number,
  setIdle: DeliveryWatch['setIdle'],
): (received: number) => Promise<number> {
  let isIdle = false
  let receivedBefore = 0
  let busyAt = performance.now()
  let pollAt = 0

  return async (received) => {
    const now = performance.now()
    // Even wake-ups without a delivery count, because commits that wake an idle loop are serialized.
    const wasWoken = isIdle && now < pollAt - TIMER_EARLY_MS
    if (received !== receivedBefore || wasWoken) {
      receivedBefore = received
      busyAt = now
      if (isIdle) isIdle = await setIdle(false)
    }
    if (now - busyAt < IDLE_AFTER_MS) return pollIntervalMs
    const wasIdle = isIdle
    isIdle = await setIdle(true)
    if (!isIdle) {
      busyAt = now
      return pollIntervalMs
    }
    // Claim once more for deliveries that were written before the store started waking us.
    const waitMs = wasIdle ? Math.max(IDLE_POLL_MS, pollIntervalMs) : 0
    pollAt = performance.now() + waitMs
    return waitMs
  }
}
