import { INTERRUPTED, SendError, TIMEOUT } from './send-error.ts'

/** Ends an attempt from the outside, either on timeout or because the caller interrupts it. */
export interface Deadline {
  /** Replaces the callback for when the attempt ends. Called right away if it has already ended. */
  onEnd(stop: (error: SendError) => void): void
  interrupt(): void
  /** Must be called once the attempt has ended by itself. */
  clear(): void
}

/**
 * Starts an attempt's deadline.
 *
 * @param timeoutMs timeout for the entire attempt, in milliseconds
 * @param signal interrupts the attempt when aborted
 */
export function startDeadline(timeoutMs: number, signal: AbortSignal | undefined): Deadline {
  let error: SendError | undefined
  let stop: ((error: SendError) => void) | undefined

  function end(reason: SendError): void {
    error ??= reason
    stop?.(error)
  }

  const timer = setTimeout(() => end(new SendError(TIMEOUT, `no response within ${timeoutMs} ms`)), timeoutMs)
  const interrupt = () => end(new SendError(INTERRUPTED, 'the attempt was interrupted'))
  if (signal?.aborted) interrupt()
  else if (signal) listenersOf(signal).add(interrupt)

  return {
    interrupt,
    onEnd(next) {
      stop = next
      if (error) next(error)
    },
    clear() {
      stop = undefined
      clearTimeout(timer)
      if (signal) listenersOf(signal).delete(interrupt)
    },
  }
}

const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Returns a signal's callbacks. All attempts of a loop share a signal, so we only add one listener to it. Node warns
 * about a possible leak at 11 listeners, and does a linear scan whenever one is added or removed.
 */
function listenersOf(signal: AbortSignal): Set<() => void> {
  const known = listeners.get(signal)
  if (known) return known
  const added = new Set<() => void>()
  listeners.set(signal, added)
  signal.addEventListener('abort', () => added.forEach((listener) => void listener()), { once: true })
  return added
}
