/** Writes a log line. Like in pino, the details come first and the message second. */
export type LogLine = (details: object, message: string) => void

/** The logger methods that the library uses. pino, Fastify's logger and most others have them. */
export interface Logger {
  debug: LogLine
  info: LogLine
  warn: LogLine
  error: LogLine
}

const silent: LogLine = () => {}

/** A logger that discards everything. */
export const mutedLogger: Logger = { debug: silent, info: silent, warn: silent, error: silent }

/** Writes warnings and errors to stderr as JSON lines. Discards all other levels. */
export const defaultLogger: Logger = { ...mutedLogger, warn: writeLine('warn'), error: writeLine('error') }

function writeLine(level: 'warn' | 'error'): LogLine {
  return (details, message) => console.error(JSON.stringify({ level, message, ...details }))
}

/** Wraps the host's logger so a logging failure doesn't break the library. */
export function guardLogger(logger: Logger): Logger {
  const guard =
    (level: keyof Logger): LogLine =>
    async (details, message) => {
      try {
        // The host's method may be async despite the type.
        await logger[level](details, message)
      } catch {
        // We can't log that logging itself failed.
      }
    }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}

/** The parts of an error that we log. */
export interface ErrorDescription {
  readonly name: string
  readonly message: string
  readonly code?: string
  /** The cause's error code, for example `ECONNREFUSED` or an SQLSTATE. */
  readonly causeCode?: string
  readonly stack?: string
}

/**
 * Returns the parts of an error that are safe to log. Omits the statement's detail and parameters because they may
 * contain customer data. Only `onError` receives the complete error.
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
