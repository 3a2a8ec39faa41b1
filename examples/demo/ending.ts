/** Ends everything that the program has begun, in reverse order, at the program's end or at a signal. */
export interface Ending {
  /** True from the first signal on: later failures are consequences of the ending. */
  readonly hasBegun: boolean
  /** Something to do at the end, before everything that was added earlier. */
  add(work: () => Promise<void> | void): void
  /** Runs all ends and exits the process. */
  exit(code: number): Promise<never>
}

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

/**
 * Takes over the signals that ask a program to end. The first signal ends everything in order, a second signal exits at
 * once, and the PostgreSQL of the demo then ends by itself. In both cases the exit code is the code of a program ended
 * by the signal, as npm reports it too: 130 for Ctrl-C.
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
