/** Wakes something that waits; a ring while nobody waits is not lost. */
export interface Alarm {
  ring(): void
  /** Resolves when it rings, or after `ms`. */
  wait(ms: number): Promise<void>
}

/** An alarm for one that waits. */
export function createAlarm(): Alarm {
  let hasRung = false
  let wake: (() => void) | undefined

  return {
    ring() {
      hasRung = true
      wake?.()
    },
    async wait(ms) {
      if (!hasRung) {
        let timer: NodeJS.Timeout | undefined
        await new Promise<void>((resolve) => {
          wake = resolve
          timer = setTimeout(resolve, ms)
        })
        clearTimeout(timer)
        wake = undefined
      }
      hasRung = false
    },
  }
}
