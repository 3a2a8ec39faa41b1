/** Shares the event loop between connections that have much to read. */
export interface ReadingTurns {
  /** Runs a piece of reading when its turn has come, never at once. Each must be short; they run in the order given. */
  wait(read: () => void): void
}

/** How long the turns of one pass of the event loop last together, in milliseconds; one is always taken. */
const PASS_MS = 1

/**
 * Makes a queue of reading that takes at most a millisecond of each pass of the event loop: however many connections
 * are flooded, everything else in the process goes on between two of their turns.
 */
export function createReadingTurns(): ReadingTurns {
  const queue: (() => void)[] = []
  let isPassComing = false

  function plan(): void {
    if (isPassComing || queue.length === 0) return
    isPassComing = true
    setImmediate(() => {
      isPassComing = false
      takeTurns(performance.now() + PASS_MS)
    })
  }

  function takeTurns(until: number): void {
    queue.shift()?.()
    // Streams hand their data on in the next tick: by the time of this one it has been parsed, and shows in the clock.
    process.nextTick(() => {
      if (queue.length > 0 && performance.now() < until) takeTurns(until)
      else plan()
    })
  }

  return {
    wait(read) {
      queue.push(read)
      plan()
    },
  }
}
