import { withDeadline } from '../base/time.ts'

/** Maximum time by which a timer fires early, in ms. */
export const TIMER_EARLY_MS = 2

/** Wakes a waiting task; a call while nothing waits counts for the next wait. */
export interface WakeUp {
  wake(): void
  /**
   * Resolves at the next call of `wake`, or when the time has passed.
   *
   * @param ms milliseconds
   */
  wait(ms: number): Promise<void>
}

/** Creates a wake-up for a single waiting task. */
export function createWakeUp(): WakeUp {
  let isWoken = false
  let endWait: (() => void) | undefined

  return {
    wake() {
      isWoken = true
      endWait?.()
    },
    async wait(ms) {
      if (!isWoken) {
        const woken = new Promise<void>((resolve) => {
          endWait = resolve
        })
        await withDeadline(woken, ms, () => {})
        endWait = undefined
      }
      isWoken = false
    },
  }
}
