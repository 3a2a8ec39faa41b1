import { ApiError } from './api-error.ts'
import { attempt, type ClientAnswer, type ClientRequest, type ReadData } from './attempt.ts'
import { type CallOptions, type ResolvedClientOptions, readSignal } from './client-options.ts'

/** Makes calls and retries them. */
export type CallSender = <Data>(
  request: ClientRequest,
  read: ReadData<Data>,
  options: CallOptions,
) => Promise<ClientAnswer<Data>>

/** The first and the longest pause between attempts, in ms. The pause doubles each time. */
const PAUSE_MS = 500
const PAUSE_MAX_MS = 8000

/**
 * Creates a function that makes a call. It sends the request and retries transient failures, either after the pause the
 * API asks for or with exponential backoff. Attempts and total time are limited. Throws the last failure.
 */
export function createCaller(options: ResolvedClientOptions): CallSender {
  const { maxRetries, maxDurationMs, wait } = options

  return async (request, read, { signal }) => {
    const link = joinSignals([options.signal, readSignal(signal)])
    try {
      // We don't use a fixed deadline, so a machine that was asleep gets another attempt, and tests don't have to wait.
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

/** Returns between 50% and 100% of the pause, so callers that failed together don't retry together. */
function pauseAfter(attempts: number): number {
  const pauseMs = Math.min(PAUSE_MS * 2 ** (attempts - 1), PAUSE_MAX_MS)
  return Math.round(pauseMs * (0.5 + Math.random() / 2))
}

/** Combines signals until they're released. A long-lived signal must not keep finished calls in memory. */
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
