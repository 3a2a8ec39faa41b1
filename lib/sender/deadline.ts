import { INTERRUPTED, SendError, TIMEOUT } from './send-error.ts'

/** Ends an attempt from the outside, either when its time is up or when the caller interrupts it. */
export interface Deadline {
  /** Sets the callback for the end, replacing the previous one. Called right away if the attempt has been ended. */
  onEnd(stop: (error: SendError) => void): void
  interrupt(): void
  /** Must be called when the attempt has ended by itself. */
  clear(): void
}

/**
 * Starts the deadline of an attempt.
 *
 * @param timeoutMs timeout of the whole attempt in milliseconds
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
 * Returns the callbacks of a signal. We only add one listener per signal because all attempts of a loop share it. Node
 * warns about a leak at the 11th listener and scans all of them whenever one is added or removed.
 */
function listenersOf(signal: AbortSignal): Set<() => void> {
  const known = listeners.get(signal)
  if (known) return known
  const added = new Set<() => void>()
  listeners.set(signal, added)
  signal.addEventListener('abort', () => added.forEach((listener) => void listener()), { once: true })
  return added
}
