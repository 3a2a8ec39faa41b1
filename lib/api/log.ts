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

/**
 * What of an error may be logged: never the detail or the parameters of a statement, which hold customers' data. The
 * whole error goes to `onError` only.
 */
export function describeError(error: unknown): {
  name: string
  message: string
  code?: string
  stack?: string
} {
  if (!(error instanceof Error)) return { name: typeof error, message: 'A value that is no Error was thrown' }
  return {
    name: error.name,
    message: error.message,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
  }
}
