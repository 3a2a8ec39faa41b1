import type { DeliveryWatch } from '../webhooks/claims.ts'
import { TIMER_EARLY_MS } from './wake-up.ts'

/**
 * A loop becomes idle after a second with at most `toIdle` deliveries, and busy as soon as a second has more than
 * `toBusy`. The gap keeps it from switching back and forth. The commits that wake an idle loop are serialized. At 30 a
 * second, commits of 10 ms keep their lock for a third of the time.
 */
const LIMITS = { toIdle: 15, toBusy: 30 }
const WINDOW_MS = 1000
/**
 * An idle loop's poll interval in milliseconds. Commits wake the loop anyway, so polling is only for deliveries that
 * become due in other ways, such as an expired lease.
 */
const IDLE_POLL_MS = 1000

/**
 * Returns a function that returns the number of milliseconds until the next poll. If there is little to deliver and the
 * store wakes the loop on every commit, it polls less often (by default a tenth as often).
 */
export function createPollPace(
  pollIntervalMs: number,
  setIdle: DeliveryWatch['setIdle'],
): (received: number) => Promise<number> {
  let isIdle = false
  let receivedBefore = 0
  let countInWindow = 0
  let windowEndsAt = performance.now() + WINDOW_MS
  let pollAt = 0

  return async (received) => {
    const now = performance.now()
    // Wake-ups without a delivery count too, because the commits were serialized all the same.
    const wasWoken = isIdle && now < pollAt - TIMER_EARLY_MS
    countInWindow += Math.max(received - receivedBefore, wasWoken ? 1 : 0)
    receivedBefore = received
    const wasIdle = isIdle
    if (now >= windowEndsAt || (isIdle && countInWindow > LIMITS.toBusy)) {
      const wantsIdle = countInWindow <= (isIdle ? LIMITS.toBusy : LIMITS.toIdle)
      if (isIdle || wantsIdle) isIdle = await setIdle(wantsIdle)
      countInWindow = 0
      windowEndsAt = performance.now() + WINDOW_MS
    }
    if (!isIdle) return pollIntervalMs
    // On becoming idle, claim once more for deliveries that were written before the store started waking us.
    const waitMs = wasIdle ? Math.max(IDLE_POLL_MS, pollIntervalMs) : 0
    pollAt = performance.now() + waitMs
    return waitMs
  }
}
