import { visible } from '../base/visible-text.ts'
import { describeFailure } from './failure.ts'
import type { Session } from './session.ts'
import { listenForSignals } from './stop-signals.ts'

/** Prints lines for a command that runs until it gets a signal. */
export interface Watch {
  /** Aborted by the first signal, or when the reader closes the pipe. */
  readonly signal: AbortSignal
  /** Prints a line, as either JSON or human-readable text. */
  print(value: object, toText: () => string): Promise<void>
  /** Reports that the database is unreachable, at most once every ten seconds. The command continues. */
  onUnavailable(error: unknown): void
}

/** There's nothing to gain from reporting the same outage more often. */
const NOTED_MS = 10_000

/** Runs until SIGINT or SIGTERM. A second signal kills the process. */
export async function watchUntilStopped(
  session: Session,
  work: (watch: Watch) => Promise<void>,
): Promise<void> {
  const { stopping, end } = listenForSignals(session.terminal)
  let notedAt = Number.NEGATIVE_INFINITY
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
    end()
  }
}
