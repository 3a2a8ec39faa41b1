import { UsageError } from './failure.ts'
import { dashed } from './names.ts'

/** A flag of a command: how it is typed, and what its texts mean. */
export interface Flag<Value = unknown> {
  /** What stands for its value in help texts; null: it has none. */
  readonly takes: string | null
  readonly help: string
  readonly isRequired: boolean
  readonly isRepeatable: boolean
  /**
   * @param texts as typed, in order; empty: it was not
   * @param flag as it is typed: `--expires`
   * @throws `UsageError`
   */
  read(texts: readonly string[], flag: string): Value
}

/** The flags of a command by the names of its code: `allowHttp` is typed `--allow-http`. */
export type Flags = Readonly<Record<string, Flag>>

/** What flags mean. */
export type Values<F extends Flags> = {
  readonly [Name in keyof F]: F[Name] extends Flag<infer Value> ? Value : never
}

/** Turns a text into a value. @throws `UsageError` */
export type Parse<Value> = (text: string, flag: string) => Value

const ONCE = { isRequired: false, isRepeatable: false }

/** A flag that is there or not. */
export function toggle(help: string): Flag<boolean> {
  return { takes: null, help, ...ONCE, read: (texts) => texts.length > 0 }
}

/** A flag with a text. */
export function text(takes: string, help: string): Flag<string | undefined> {
  return { takes, help, ...ONCE, read: ([given]) => given }
}

/** A flag with a text that means something else. */
export function parsed<Value>(takes: string, help: string, parse: Parse<Value>): Flag<Value | undefined> {
  return {
    takes,
    help,
    ...ONCE,
    read: ([given], flag) => (given === undefined ? undefined : parse(given, flag)),
  }
}

/** A flag with several texts, with commas between them. */
export function list(takes: string, help: string): Flag<readonly string[] | undefined> {
  return parsed(takes, help, (given) => given.split(',').map((item) => item.trim()))
}

/** A flag that may be given several times. */
export function repeated(takes: string, help: string): Flag<readonly string[]> {
  return { takes, help, isRequired: false, isRepeatable: true, read: (texts) => texts }
}

/** A flag that must be given. */
export function required<Value>(flag: Flag<Value | undefined>): Flag<Value> {
  return {
    ...flag,
    isRequired: true,
    read(texts, name) {
      const value = flag.read(texts, name)
      if (value === undefined) throw new UsageError(`Missing ${name} ${flag.takes ?? ''}`.trim())
      return value
    },
  }
}

/** A whole number. @throws `UsageError` */
export function parseWhole(given: string, flag: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given)
  throw new UsageError(`Cannot use ${flag} as it must be a whole number`)
}

/** Reads what was typed. @throws `UsageError` for the first flag that cannot be used */
export function readFlags<F extends Flags>(
  flags: F,
  typed: ReadonlyMap<string, readonly string[]>,
): Values<F> {
  const entries = Object.entries(flags).map(([name, flag]): [string, unknown] => {
    return [name, flag.read(typed.get(name) ?? [], dashed(name))]
  })
  return Object.fromEntries(entries) as Values<F>
}
