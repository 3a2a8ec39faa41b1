import { withDeadline } from '../base/time.ts'

/** How much too early a timer may fire, in milliseconds. */
export const TIMER_EARLY_MS = 2

/** Wakes a waiting task. If nothing is waiting, the next wait ends immediately. */
export interface WakeUp {
  wake(): void
  /**
   * Resolves at the next call of `wake` or when the time is up.
   *
   * @param ms timeout in milliseconds
   */
  wait(ms: number): Promise<void>
}

/** Creates a wake-up for a single task. */
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
