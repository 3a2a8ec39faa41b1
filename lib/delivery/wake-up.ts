import { withDeadline } from '../base/time.ts'

/** Timers can fire this many milliseconds too early. */
export const TIMER_EARLY_MS = 2

/** Wakes a waiting task. If nothing is waiting, the next wait returns immediately. */
export interface WakeUp {
  wake(): void
  /**
   * Resolves on the next call to `wake` or after the timeout.
   *
   * @param ms timeout in milliseconds
   */
  wait(ms: number): Promise<void>
}

/** Creates a wake-up for one task. */
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
