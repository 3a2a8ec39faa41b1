/** Shares the event loop among connections that have a lot to read. */
export interface ReadingTurns {
  /** Queues a callback that reads something. It's never called synchronously and must be short. */
  wait(read: () => void): void
}

/** How long callbacks may run in each iteration of the event loop, in milliseconds. At least one is always called. */
const PASS_MS = 1

/**
 * Creates a queue that uses up to 1 ms per iteration of the event loop, so the rest of the process keeps running even
 * if lots of connections are flooded.
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
    // Streams pass on data in the next tick. When this runs, it has been parsed, so the time limit includes parsing.
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
