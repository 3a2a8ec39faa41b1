import { defaultLogger, guardLogger, type Logger, mutedLogger } from './log.ts'

// Readers of the options that several factories share: checked at construction, with the same wording.

/** The longest timer of Node in milliseconds; a longer timer fires at once. */
export const TIMER_MAX = 2 ** 31 - 1

/**
 * @param value the host's value; `undefined` for the default
 * @throws `RangeError` unless the value is a whole number from `min` to `max`
 */
export function readWhole(
  name: string,
  value: number | undefined,
  byDefault: number,
  { min = 1, max = TIMER_MAX }: { readonly min?: number; readonly max?: number } = {},
): number {
  if (value === undefined) return byDefault
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new RangeError(
      `Cannot use option '${name}' because it must be a whole number from ${min} to ${max}: current value is ${value}`,
    )
  }
  return value
}

/** @throws `TypeError` for a value that the pattern does not match */
export function readMatching(
  name: string,
  value: string | undefined,
  byDefault: string,
  pattern: RegExp,
): string {
  if (value === undefined) return byDefault
  if (typeof value !== 'string' || !pattern.test(value)) {
    throw new TypeError(
      `Cannot use option '${name}' because it must match ${pattern}: current value is '${value}'`,
    )
  }
  return value
}

/** Strictly: a `'false'` out of an environment variable would switch a guard off. @throws `TypeError` */
export function readFlag(name: string, value: boolean | undefined = false): boolean {
  if (typeof value !== 'boolean') {
    throw new TypeError(
      `Cannot use option '${name}' because it must be true or false: current value is ${JSON.stringify(value)}`,
    )
  }
  return value
}

/** Reads the prefix of the webhook headers: `X-SERVICE` in `X-SERVICE-Event-Id`. @throws `TypeError` */
export function readHeaderPrefix(value: string | undefined): string {
  return readMatching('headerPrefix', value, 'X-SERVICE', /^[A-Za-z][A-Za-z0-9-]{0,63}$/)
}

/**
 * Reads a host's logger and guards the library against its failures. @throws `TypeError` for a value that is not a
 * logger
 */
export function readLogger(logger: Logger | false = defaultLogger): Logger {
  if (logger === false) return mutedLogger
  const levels = ['debug', 'info', 'warn', 'error'] as const
  if (levels.every((level) => typeof logger?.[level] === 'function')) return guardLogger(logger)
  throw new TypeError(
    "Cannot use option 'logger' because it must be false, or have the methods debug, info, warn and error",
  )
}
