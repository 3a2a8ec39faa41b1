/** One line of a log in pino's call form: what it is about, then what happened. */
export type LogLine = (details: object, message: string) => void

/** What the library needs of a logger; pino, Fastify's and most others have it. */
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

/** A host's logger, whose failures are nobody's business here. */
export function guardLogger(logger: Logger): Logger {
  const guard =
    (level: keyof Logger): LogLine =>
    (details, message) => {
      try {
        logger[level](details, message)
      } catch {
        // There is nobody left to tell.
      }
    }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}

/** What of an error is logged. */
export interface ErrorDescription {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** Of what it was caused by: `ECONNREFUSED`, a state of SQL. */
  readonly causeCode?: string
  readonly stack?: string
}

/**
 * What of an error may be logged: never the detail or the parameters of a statement, which hold customers' data. The
 * whole error goes to `onError` only.
 */
export function describeError(error: unknown): ErrorDescription {
  try {
    return error instanceof Error
      ? describe(error)
      : { name: typeof error, message: 'Not an Error was thrown' }
  } catch {
    return { name: 'Error', message: 'An error that cannot be read was thrown' }
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
