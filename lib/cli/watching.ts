import { visible } from '../base/visible-text.ts'
import { describeFailure } from './failure.ts'
import type { Session } from './session.ts'
import { listenForSignals } from './stop-signals.ts'

/** Prints the lines of a command that watches until a signal stops it. */
export interface Watch {
  /** Aborted by the first signal, and when the reader of the lines has closed the pipe. */
  readonly signal: AbortSignal
  /** Prints a line: a JSON value, or text for people. */
  print(value: object, toText: () => string): Promise<void>
  /** Notes that the database cannot be reached, at most once in ten seconds. The watch goes on. */
  onUnavailable(error: unknown): void
}

/** More frequent notes about the same outage tell nothing new. */
const NOTED_MS = 10_000

/** Watches until SIGINT or SIGTERM. A second signal ends the process at once. */
export async function watchUntilStopped(
  session: Session,
  work: (watch: Watch) => Promise<void>,
): Promise<void> {
  const signals = listenForSignals(session.terminal)
  const stopping = new AbortController()
  let notedAt = Number.NEGATIVE_INFINITY
  void signals.first.then(() => stopping.abort())
  try {
    await work({
      signal: stopping.signal,
      async print(value, toText) {
        if (!(await session.print(value, () => `${visible(toText())}\n`))) stopping.abort()
      },
      onUnavailable(error) {
        if (performance.now() - notedAt < NOTED_MS) return
        notedAt = performance.now()
        session.note(`${describeFailure(session.explain(error)).line}; trying again`)
      },
    })
  } finally {
    signals.end()
  }
}
