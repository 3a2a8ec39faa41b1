import type { DeliveryWatch } from '../webhooks/claims.ts'
import { TIMER_EARLY_MS } from './wake-up.ts'

/** Time without a delivery after which a loop is idle, in ms. */
const IDLE_AFTER_MS = 1000
/** Poll interval of an idle loop, in ms. Every commit wakes the loop: a poll finds what is due for another reason, such as an expired lease. */
const IDLE_POLL_MS = 1000

/**
 * Returns a function that tells the milliseconds until the next poll. A loop that has had nothing to deliver for a second polls ten
 * times less by default, if the store wakes it for every commit meanwhile.
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
    // Also after a wake-up that brought nothing, because the commits that wake an idle loop are serialized.
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
    // One more claim finds the deliveries that were recorded before the store's promise.
    const waitMs = wasIdle ? Math.max(IDLE_POLL_MS, pollIntervalMs) : 0
    pollAt = performance.now() + waitMs
    return waitMs
  }
}
