/** Writes one line of a log, called as pino's methods are: first the details, then the message. */
export type LogLine = (details: object, message: string) => void

/** The methods of a logger that the library calls; pino, Fastify's logger and most other loggers have these. */
export interface Logger {
  debug: LogLine
  info: LogLine
  warn: LogLine
  error: LogLine
}

const silent: LogLine = () => {}

/** Says nothing. */
export const mutedLogger: Logger = { debug: silent, info: silent, warn: silent, error: silent }

/** Writes warnings and errors to stderr, a line of JSON each, and nothing below. */
export const defaultLogger: Logger = { ...mutedLogger, warn: writeLine('warn'), error: writeLine('error') }

function writeLine(level: 'warn' | 'error'): LogLine {
  return (details, message) => console.error(JSON.stringify({ level, message, ...details }))
}

/** Wraps the host's logger, so the library's work doesn't fail if the logger does. */
export function guardLogger(logger: Logger): Logger {
  const guard =
    (level: keyof Logger): LogLine =>
    (details, message) => {
      try {
        logger[level](details, message)
      } catch {
        // No place is left to report the failure of the log itself.
      }
    }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}

/** The parts of an error that are logged. */
export interface ErrorDescription {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** The code of the error's cause: `ECONNREFUSED`, an SQLSTATE. */
  readonly causeCode?: string
  readonly stack?: string
}

/**
 * Returns the parts of an error that may be logged: never the detail or the parameters of a statement, which hold
 * customers' data. The whole error goes to `onError` only.
 */
export function describeError(error: unknown): ErrorDescription {
  try {
    return error instanceof Error
      ? describe(error)
      : { name: typeof error, message: 'A value that is not an Error was thrown' }
  } catch {
    return { name: 'Error', message: 'An unreadable error was thrown' }
  }
}

function describe(error: Error): ErrorDescription {
  const { cause } = error
  const causeCode = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
  return {
    name: error.name,
    message: error.message,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    ...(causeCode === undefined ? {} : { causeCode }),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
  }
}
