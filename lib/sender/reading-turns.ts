/** Shares the event loop between connections that have a lot to read. */
export interface ReadingTurns {
  /** Queues a callback that reads something. Never called synchronously. Must be short. */
  wait(read: () => void): void
}

/** How long callbacks may run per event loop iteration, in milliseconds. At least one callback always runs. */
const PASS_MS = 1

/**
 * Creates a queue that takes up at most about 1 ms per event loop iteration. This keeps the rest of the process running
 * even if lots of connections are being flooded.
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
    // Streams pass data on in the next tick, so by now it has been parsed and the time limit covers parsing.
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
