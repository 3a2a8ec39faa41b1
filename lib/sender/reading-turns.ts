/** Shares the event loop between connections that have much to read. */
export interface ReadingTurns {
  /** Runs a piece of reading at its turn, never at once, in the order of the calls. A piece must be short. */
  wait(read: () => void): void
}

/** Maximum duration of all turns in one pass of the event loop, in ms; at least one turn is taken. */
const PASS_MS = 1

/**
 * Creates a reading queue that takes up to 1 ms of each pass of the event loop: even if many connections are flooded, the rest of the
 * process goes on between two turns.
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
    // Streams hand data on in the next tick. By this later tick the data has been parsed, so the clock includes the
    // parsing.
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
