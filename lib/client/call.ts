import { ApiError } from './api-error.ts'
import { attempt, type ClientAnswer, type ClientRequest, type ReadData } from './attempt.ts'
import type { CallOptions, ResolvedClientOptions } from './client-options.ts'

/** Makes calls with retries. */
export type CallSender = <Data>(
  request: ClientRequest,
  read: ReadData<Data>,
  options: CallOptions,
) => Promise<ClientAnswer<Data>>

/** The first pause between attempts and the longest, in milliseconds; each pause is twice the pause before. */
const PAUSE_MS = 500
const PAUSE_MAX_MS = 8000

/**
 * Creates the function that makes a call: the request, and again after every failure that may pass, with the pause that the API
 * asks for or a growing pause. The number of attempts and the time are bounded; the last failure is thrown.
 */
export function createCaller(options: ResolvedClientOptions): CallSender {
  const { maxRetries, maxDurationMs, wait } = options

  return async (request, read, { signal }) => {
    const link = joinSignals([options.signal, signal])
    try {
      // Not a deadline of the clock: a machine that slept makes the next attempt, and a test need not wait.
      let remainingMs = maxDurationMs
      for (let attempts = 1; ; attempts++) {
        const begunAt = performance.now()
        try {
          return await attempt(options, request, read, link.signal)
        } catch (error) {
          if (!(error instanceof ApiError)) throw error
          const pauseMs = Math.max(pauseAfter(attempts), error.retryAfterMs ?? 0)
          remainingMs -= performance.now() - begunAt + pauseMs
          if (!error.isTransient || attempts > maxRetries || remainingMs <= 0) {
            throw Object.assign(error, { attempts, idempotencyKey: request.idempotencyKey })
          }
          await wait(pauseMs, link.signal)
        }
      }
    } finally {
      link.release()
    }
  }
}

/** Between half of the pause and the whole, so callers that failed together do not come back together. */
function pauseAfter(attempts: number): number {
  const pauseMs = Math.min(PAUSE_MS * 2 ** (attempts - 1), PAUSE_MAX_MS)
  return Math.round(pauseMs * (0.5 + Math.random() / 2))
}

/** Joins signals until released, so a signal that outlives thousands of calls doesn't keep them in memory. */
function joinSignals(signals: readonly (AbortSignal | undefined)[]): {
  signal: AbortSignal
  release(): void
} {
  const controller = new AbortController()
  const given = signals.filter((signal) => signal !== undefined)
  const abort = (): void => controller.abort(given.find(({ aborted }) => aborted)?.reason)
  for (const signal of given) signal.addEventListener('abort', abort)
  if (given.some(({ aborted }) => aborted)) abort()
  return {
    signal: controller.signal,
    release() {
      for (const signal of given) signal.removeEventListener('abort', abort)
    },
  }
}
