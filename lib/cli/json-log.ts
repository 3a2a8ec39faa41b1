import { type Logger, type LogLine, mutedLogger } from '../base/log.ts'
import { inFlags } from './failure.ts'
import type { Output } from './terminal.ts'

/**
 * Creates a logger that writes warnings and errors as lines of JSON. Names flags and variables instead of the library's options,
 * and leaves out stack traces: an operator has no use for options and traces.
 */
export function createJsonLog(stderr: Output): Logger {
  const writeLine =
    (level: 'warn' | 'error'): LogLine =>
    (details, message) => {
      const line = { time: new Date().toISOString(), level, message, ...details }
      stderr.write(`${JSON.stringify(line, toPlain)}\n`)
    }
  return { ...mutedLogger, warn: writeLine('warn'), error: writeLine('error') }
}

function toPlain(name: string, value: unknown): unknown {
  if (name === 'stack') return undefined
  return typeof value === 'string' ? inFlags(value) : value
}
