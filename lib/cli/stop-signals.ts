import { constants } from 'node:os'
import type { Signal, Terminal } from './terminal.ts'

/** npm forwards signals that the terminal has already sent us, so signals within this time count as one. */
const SAME_SIGNAL_MS = 300

/** The signals that stop a long-running command. */
export interface StopSignals {
  /** Aborted by the first signal. A second signal kills the process. */
  readonly stopping: AbortController
  end(): void
}

/** Listens for SIGINT and SIGTERM. */
export function listenForSignals({ signals, exit }: Terminal): StopSignals {
  let firstAt: number | undefined
  const stopping = new AbortController()
  const listeners = (['SIGINT', 'SIGTERM'] as const).map((signal) => {
    return [signal, () => onSignal(signal)] as const
  })
  function onSignal(signal: Signal): void {
    firstAt ??= performance.now()
    if (performance.now() - firstAt > SAME_SIGNAL_MS) exit(128 + constants.signals[signal])
    stopping.abort()
  }
  for (const [signal, listener] of listeners) signals.on(signal, listener)
  return {
    stopping,
    end() {
      for (const [signal, listener] of listeners) signals.off(signal, listener)
    },
  }
}
