import { defaultLogger, guardLogger, type Logger, mutedLogger } from './log.ts'
import { suggest } from './suggest.ts'

// Functions that factories use to validate their options at construction, with consistent error messages.

/** Maximum delay for a Node.js timer, in ms. With a longer delay, the timer would fire immediately. */
export const TIMER_MAX = 2 ** 31 - 1

/**
 * Reads an integer option.
 *
 * @param value the host's value, or `undefined` to use the default
 * @throws `RangeError` if the value isn't an integer from `min` to `max`
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
      `Option '${name}' must be a whole number from ${min} to ${max}: current value is ${printValue(value)}`,
    )
  }
  return value
}

/** Reads a string option. @throws `TypeError` if the value doesn't match the pattern */
export function readMatching(
  name: string,
  value: string | undefined,
  byDefault: string,
  pattern: RegExp,
): string {
  if (value === undefined) return byDefault
  if (isMatching(value, pattern)) return value
  throw new TypeError(`Option '${name}' must match ${pattern}: current value is ${printValue(value)}`)
}

/** Returns `true` for a string that matches. `pattern.test(value)` converts other values, and throws for some. */
export function isMatching(value: unknown, pattern: RegExp): value is string {
  return typeof value === 'string' && pattern.test(value)
}

/**
 * Reads a boolean option. We don't accept other types, since the string `'false'` from an environment variable would be
 * truthy and could disable a safety check.
 *
 * @throws `TypeError`
 */
export function readFlag(name: string, value: boolean | undefined, byDefault = false): boolean {
  if (value === undefined) return byDefault
  if (typeof value !== 'boolean') {
    throw new TypeError(`Option '${name}' must be true or false: current value is ${printValue(value)}`)
  }
  return value
}

/** Reads an optional function. @throws `TypeError` if the value is neither a function nor `undefined` */
export function readFunction<Value>(name: string, value: Value): Value {
  if (value === undefined || typeof value === 'function') return value
  throw new TypeError(`Option '${name}' must be a function: current value is ${printValue(value)}`)
}

/**
 * Reads an object that the library itself creates, for example a store, or the host's own implementation.
 *
 * @param name the start of the message, for example `Option 'sender'`
 * @param method the path to the method that tells it from other objects, for example `events.publish`
 * @throws `TypeError` if there is no such method
 */
export function readHaving<Value>(name: string, value: Value, method: string, maker: string): Value {
  const found = method.split('.').reduce<unknown>((part, step) => Object(part)[step], value)
  if (typeof found === 'function') return value
  const text = `current value is ${printValue(value)}`
  throw new TypeError(`${name} must have the method ${method}, as that of ${maker}: ${text}`)
}

/**
 * Returns a result of the host's function.
 *
 * @throws `TypeError` for a promise. If that rejected, the process would end
 */
export function readSync<Value>(name: string, result: Value): Value {
  if (typeof Object(result).then !== 'function') return result
  Promise.resolve(result).catch(() => {})
  throw new TypeError(`Option '${name}' must not be an async function`)
}

/** Reads an object whose fields are all optional strings. @throws `TypeError` */
export function readTexts<Texts extends object>(
  given: Texts | undefined,
  names: Names<Texts>,
  path: string,
): void {
  if (given !== undefined) rejectUnknown(given, names, path)
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined || typeof value === 'string') continue
    throw new TypeError(`Option '${path}${name}' must be a string: current value is ${printValue(value)}`)
  }
}

/** Reads an optional path, and removes slashes at its end. @throws `TypeError` */
export function readPath(name: string, value: string | undefined, example: string): string | undefined {
  if (value === undefined) return undefined
  const path = typeof value === 'string' ? value.replace(/\/+$/, '') : null
  if (path !== null && /^(\/[A-Za-z0-9._~-]+)*$/.test(path)) return path
  throw new TypeError(
    `Option '${name}' must be a path like '${example}': current value is ${printValue(value)}`,
  )
}

/** Describes a value for an error message. Longer strings and objects could contain a secret, so they aren't shown. */
export function printValue(value: unknown): string {
  if (typeof value === 'string')
    return value.length > 20 ? `a string of ${value.length} characters` : `'${value}'`
  if (typeof value === 'symbol' || typeof value === 'function') return `a ${typeof value}`
  if (typeof value === 'bigint') return `${value}n`
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

/** Reads the webhook header prefix, for example `X-SERVICE` for `X-SERVICE-Event-Id`. @throws `TypeError` */
export function readHeaderPrefix(value: string | undefined): string {
  return readMatching('headerPrefix', value, 'X-SERVICE', /^[A-Za-z][A-Za-z0-9-]{0,63}$/)
}

/** Reads the host's logger and wraps it so that failures don't affect the library. @throws `TypeError` */
export function readLogger(logger: Logger | false = defaultLogger): Logger {
  if (logger === false) return mutedLogger
  const levels = ['debug', 'info', 'warn', 'error'] as const
  if (levels.every((level) => typeof logger?.[level] === 'function')) return guardLogger(logger)
  throw new TypeError("Option 'logger' must be false, or have the methods debug, info, warn and error")
}

// --- Names ---

/** The name of every option. The type makes sure that none are missing. */
export type Names<Options extends object> = { readonly [Name in keyof Options]-?: true }

/**
 * Rejects unknown options and anything that isn't a plain object, so a misspelled option is never silently ignored.
 *
 * @param path the path to a nested options object, for example `rateLimit.`
 * @throws `TypeError` for the first unknown name
 */
export function rejectUnknown<Options extends object>(
  options: Options,
  names: { readonly [Name in keyof Options]-?: unknown },
  path = '',
): void {
  if (!isPlain(options)) {
    const subject = path === '' ? 'The options' : `Option '${path.slice(0, -1)}'`
    throw new TypeError(`${subject} must be ${PLAIN}`)
  }
  const known = Object.keys(names)
  const unknown = findUnknown(options, known)
  if (unknown === undefined) return
  throw new TypeError(`Option '${path}${printName(unknown, known)}' does not exist${suggest(unknown, known)}`)
}

/** Functions that read options, by option name. Each receives the host's value and the name to use in messages. */
export type OptionReaders<Options extends object> = {
  readonly [Name in keyof Options]-?: (given: Options[Name], name: string) => unknown
}

/** The options, as returned by {@link OptionReaders}. */
export type ReadBy<Readers> = {
  readonly [Name in keyof Readers]: Readers[Name] extends (...given: never[]) => infer Read ? Read : never
}

/** Reads all options. @throws `TypeError` if an option doesn't have a reader, or whatever a reader throws */
export function readEach<Options extends object, Readers extends OptionReaders<Options>>(
  options: Options,
  readers: Readers & OptionReaders<Options>,
): ReadBy<Readers> {
  rejectUnknown(options, readers)
  const given = options as Readonly<Record<string, never>>
  const read = Object.entries<(given: never, name: string) => unknown>(readers)
  return Object.fromEntries(
    read.map(([name, reader]) => [name, reader(given[name] as never, name)]),
  ) as ReadBy<Readers>
}

/** Creates an integer reader. See {@link readWhole}. */
export function whole(byDefault: number, bounds?: { readonly min?: number; readonly max?: number }) {
  return (given: number | undefined, name: string): number => readWhole(name, given, byDefault, bounds)
}

/** Creates a boolean reader. See {@link readFlag}. */
export function flag(byDefault = false) {
  return (given: boolean | undefined, name: string): boolean => readFlag(name, given, byDefault)
}

/** How error messages describe the values that {@link isPlain} accepts. */
export const PLAIN = 'a plain object with its own fields'

/**
 * Returns `true` if a value is a plain object (from any realm) whose own keys are all enumerable strings. Class
 * instances, a `Map` or a prototype may contain values that we'd miss when checking names or copying.
 */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: object | null = Object.getPrototypeOf(value)
  const isRoot = prototype === null || Object.hasOwn(prototype, 'isPrototypeOf')
  return isRoot && !Array.isArray(value) && Reflect.ownKeys(value).length === Object.keys(value).length
}

/** Reads the `timeoutMs` option of a call that waits. @throws `TypeError` or `RangeError` */
export function readTimeout(
  given: { readonly timeoutMs?: number | undefined } = {},
  byDefault: number,
  min = 0,
): number {
  rejectUnknown(given, { timeoutMs: true })
  return readWhole('timeoutMs', given.timeoutMs, byDefault, { min })
}

/** Returns the first own key that isn't a known name. */
export function findUnknown(given: object, known: readonly string[]): string | undefined {
  return Object.keys(given).find((name) => !known.includes(name))
}

/**
 * Returns a name that's safe to show in an error message. Anything that's neither a word nor similar to a known name
 * could be a misplaced secret, so we show `…` instead.
 */
export function printName(name: string, known: readonly string[]): string {
  const isWord = /^[A-Za-z][A-Za-z0-9]{0,39}$/.test(name)
  return isWord || (/^[\w-]{1,40}$/.test(name) && suggest(name, known) !== '') ? name : '…'
}
