import { defaultLogger, guardLogger, type Logger, mutedLogger } from './log.ts'
import { suggest } from './suggest.ts'

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
export function readFlag(name: string, value: boolean | undefined, byDefault = false): boolean {
  if (value === undefined) return byDefault
  if (typeof value !== 'boolean') {
    throw new TypeError(
      `Cannot use option '${name}' because it must be true or false: current value is ${JSON.stringify(value)}`,
    )
  }
  return value
}

/** @throws `TypeError` for a value that is neither a function nor `undefined` */
export function readFunction<Value>(name: string, value: Value): Value {
  if (value === undefined || typeof value === 'function') return value
  throw new TypeError(
    `Cannot use option '${name}' because it must be a function: current value is ${JSON.stringify(value)}`,
  )
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

// --- Names ---

/** The names of an options object; the type makes the list complete. */
export type Names<Options extends object> = { readonly [Name in keyof Options]-?: true }

/**
 * Rejects names that do not exist, and everything but a plain object: a misspelled option would be the default in silence.
 *
 * @param path of an options object within another: `rateLimit.`
 * @throws `TypeError` for the first unknown name
 */
export function rejectUnknown<Options extends object>(
  options: Options,
  names: { readonly [Name in keyof Options]-?: unknown },
  path = '',
): void {
  if (!isPlain(options)) {
    const subject = path === '' ? 'the options' : `option '${path.slice(0, -1)}'`
    throw new TypeError(`Cannot use ${subject} because it must be ${PLAIN}`)
  }
  const known = Object.keys(names)
  const unknown = findUnknown(options, known)
  if (unknown === undefined) return
  throw new TypeError(
    `Cannot use option '${path}${printName(unknown, known)}' because it does not exist${suggest(unknown, known)}`,
  )
}

/** Functions that read options, by name. Each takes the host's value, and the name for messages. */
export type OptionReaders<Options extends object> = {
  readonly [Name in keyof Options]-?: (given: Options[Name], name: string) => unknown
}

/** The options as {@link OptionReaders} return them. */
export type ReadBy<Readers> = {
  readonly [Name in keyof Readers]: Readers[Name] extends (...given: never[]) => infer Read ? Read : never
}

/** Reads each option, and rejects names without a reader. @throws `TypeError` for an unknown name, and the errors of the readers */
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

/** Creates a reader: see {@link readWhole}. */
export function whole(byDefault: number, bounds?: { readonly min?: number; readonly max?: number }) {
  return (given: number | undefined, name: string): number => readWhole(name, given, byDefault, bounds)
}

/** Creates a reader: see {@link readFlag}. */
export function flag(byDefault = false) {
  return (given: boolean | undefined, name: string): boolean => readFlag(name, given, byDefault)
}

/** The words for what {@link isPlain} accepts. */
export const PLAIN = 'a plain object with its own fields'

/**
 * Returns whether a value is a plain object, of any realm, whose names can all be seen: an instance of a class, a `Map` or a prototype may
 * hold what neither a check of names nor a copy would find.
 */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: object | null = Object.getPrototypeOf(value)
  const isRoot = prototype === null || Object.hasOwn(prototype, 'isPrototypeOf')
  return isRoot && !Array.isArray(value) && Reflect.ownKeys(value).length === Object.keys(value).length
}

/** Reads the only option of a call that waits, in ms. @throws `TypeError` or `RangeError` */
export function readTimeout(
  given: { readonly timeoutMs?: number | undefined } = {},
  byDefault: number,
  min = 0,
): number {
  rejectUnknown(given, { timeoutMs: true })
  return readWhole('timeoutMs', given.timeoutMs, byDefault, { min })
}

/** Returns the first own name that is not among the known names. */
export function findUnknown(given: object, known: readonly string[]): string | undefined {
  return Object.keys(given).find((name) => !known.includes(name))
}

/** Returns a name as a message may show it: a word, or nearly a known name. Any other string may be a secret in the wrong place. */
export function printName(name: string, known: readonly string[]): string {
  const isWord = /^[A-Za-z][A-Za-z0-9]{0,39}$/.test(name)
  return isWord || (/^[\w-]{1,40}$/.test(name) && suggest(name, known) !== '') ? name : '…'
}
