/** Cleans up everything the program has started, in reverse order, when it ends or receives a signal. */
export interface Ending {
  /** `true` after the first signal. Failures after that are a consequence of ending. */
  readonly hasBegun: boolean
  /** Adds something to do at the end. It runs before everything that was added earlier. */
  add(work: () => Promise<void> | void): void
  /** Cleans up and exits the process. */
  exit(code: number): Promise<never>
}

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

/**
 * Handles the signals that ask a program to end. The first signal cleans up in order. A second one exits immediately,
 * and the demo's PostgreSQL then stops on its own. In both cases, the exit code is that of a program killed by the
 * signal (130 for Ctrl-C), which is also what npm reports.
 */
export function createEnding(): Ending {
  const works: (() => Promise<void> | void)[] = []
  let hasBegun = false

  async function exit(code: number): Promise<never> {
    hasBegun = true
    for (const work of works.toReversed()) await work()
    process.exit(code)
  }

  for (const [signal, number] of Object.entries(SIGNAL_NUMBERS)) {
    process.on(signal, () => {
      if (hasBegun) process.exit(128 + number)
      void exit(128 + number)
    })
  }

  return {
    get hasBegun() {
      return hasBegun
    },
    add: (work) => void works.push(work),
    exit,
  }
}
