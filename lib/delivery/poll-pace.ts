import type { DeliveryWatch } from '../webhooks/claims.ts'
import { TIMER_EARLY_MS } from './wake-up.ts'

/** A loop is considered idle after this time without a delivery, in milliseconds. */
const IDLE_AFTER_MS = 1000
/**
 * Poll interval of an idle loop in milliseconds. Commits wake the loop anyway, so polling only has to find what's due
 * for other reasons, for example after a lease has expired.
 */
const IDLE_POLL_MS = 1000

/**
 * Returns a function that returns the milliseconds until the next poll. If there was nothing to deliver for a second
 * and the store wakes the loop on every commit, it polls less often, by default a tenth as often.
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
    // This includes wake-ups without a delivery, because commits that wake an idle loop are serialized.
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
    // Claim once more to find any deliveries recorded before the store started waking the loop.
    const waitMs = wasIdle ? Math.max(IDLE_POLL_MS, pollIntervalMs) : 0
    pollAt = performance.now() + waitMs
    return waitMs
  }
}
