/** Ends what has been begun, in reverse order, whether the program ends by itself or is told to. */
export interface Ending {
  /** True from the first signal on: what fails after it fails because of it. */
  readonly hasBegun: boolean
  /** Something to do at the end, before everything that was added earlier. */
  add(work: () => Promise<void> | void): void
  /** Does it all and exits the process. */
  exit(code: number): Promise<never>
}

const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

/**
 * Takes over the signals that ask a program to end. The first one ends everything in order, a second one exits at once;
 * the PostgreSQL of the demo ends by itself then. Either way the exit code is that of a program ended by the signal: 130
 * for Ctrl-C, which is also what npm makes of it.
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
