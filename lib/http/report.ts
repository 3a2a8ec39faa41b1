import { describeError, type Logger } from '../base/log.ts'

/** Returns whether a string can be a request id, which stands in a header. */
export function isRequestId(text: string): boolean {
  return /^[\w-]{1,64}$/.test(text)
}

/** The request, the operation and the caller of an unexpected failure. */
export interface ErrorContext {
  /** The id in the response and in `X-Request-Id`. */
  readonly requestId: string
  /** As sent: `POST`. */
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** The caller's response: 500 for a bug, 503 when the store could not be used; any status for a failure of `onResponse`. */
  readonly status: number
}

/**
 * Reports a failure to the host: the caller sees only 500 or 503. Never throws.
 *
 * @param message of the log line. Default `Request failed`
 */
export type Report = (error: unknown, context: ErrorContext, message?: string) => void

/**
 * Creates the report: a log line without secrets, and the whole error for `onError` alone. A failure of either never costs
 * the caller the response, and never ends the process.
 */
export function createReport(
  logger: Logger,
  onError: (error: unknown, context: ErrorContext) => unknown,
): Report {
  const logFailure = (failure: unknown, context: ErrorContext): void =>
    logger.error({ ...context, error: describeError(failure) }, 'onError failed')

  return (error, context, message = 'Request failed') => {
    logger[context.status === 503 ? 'warn' : 'error']({ ...context, error: describeError(error) }, message)
    try {
      // The host's function may be async, in spite of the type.
      Promise.resolve(onError(error, context)).catch((failure) => logFailure(failure, context))
    } catch (failure) {
      logFailure(failure, context)
    }
  }
}
