import { INTERRUPTED, SendError, TIMEOUT } from './send-error.ts'

/** The end of an attempt from outside, at any moment: by the time limit or by the caller. */
export interface Deadline {
  /** Sets the action at the end, run at once if the deadline has passed. Replaces the previous action. */
  onEnd(stop: (error: SendError) => void): void
  /** Ends the attempt. */
  interrupt(): void
  /** The attempt has ended by itself. */
  clear(): void
}

/**
 * Starts the time of an attempt.
 *
 * @param timeoutMs milliseconds for the whole attempt
 * @param signal ends the attempt when aborted
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
 * Returns the callbacks of a signal. A signal gets only one listener from here, because a loop gives all its attempts
 * the same signal: Node warns of a leak at the 11th listener, and searches all listeners whenever a listener is added
 * or removed.
 */
function listenersOf(signal: AbortSignal): Set<() => void> {
  const known = listeners.get(signal)
  if (known) return known
  const added = new Set<() => void>()
  listeners.set(signal, added)
  signal.addEventListener('abort', () => added.forEach((listener) => void listener()), { once: true })
  return added
}
