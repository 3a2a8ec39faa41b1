import { describeError, type Logger } from '../base/log.ts'

/** Returns `true` if a string is a valid request id, which is sent in a header. */
export function isRequestId(text: string): boolean {
  return /^[\w-]{1,64}$/.test(text)
}

/** A request that failed unexpectedly. */
export interface ErrorContext {
  /** The request id, which is also in the response body and `X-Request-Id`. */
  readonly requestId: string
  /** As sent, for example `POST`. */
  readonly method: string
  /** The path without the query string. */
  readonly path: string
  /** 500 for a bug or 503 if the store was unavailable. Can be any status if `onResponse` failed. */
  readonly status: number
}

/**
 * Reports a failure to the host. The caller only sees a 500 or 503. Never throws.
 *
 * @param message the log message. Defaults to `Request failed`
 */
export type Report = (error: unknown, context: ErrorContext, message?: string) => void

/**
 * Creates a function that reports failures. The log line never contains secrets, and only `onError` gets the complete
 * error. If either one fails, the caller still gets a response and the process keeps running.
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
      // The host's function may be async despite the type.
      Promise.resolve(onError(error, context)).catch((failure) => logFailure(failure, context))
    } catch (failure) {
      logFailure(failure, context)
    }
  }
}
