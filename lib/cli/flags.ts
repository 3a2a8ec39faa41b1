import { suggest } from '../base/suggest.ts'
import type { Service } from '../service.ts'
import { UsageError } from './failure.ts'
import { dashed } from './names.ts'

/** A command's flag: its form on the command line, and how its values are parsed. */
export interface Flag<Value = unknown> {
  /** The placeholder of the value in help texts; null for a flag without a value. */
  readonly takes: string | null
  readonly help: string
  readonly isRequired: boolean
  readonly isRepeatable: boolean
  /** One letter: `o` for `-o`. */
  readonly short?: string
  /** The environment variable that stands in for a flag that was not typed. */
  readonly variable?: string
  /**
   * Reads the value.
   *
   * @param texts as typed, in order; empty for a flag that was not typed
   * @param source the name for messages: `--expires`, or the environment variable
   * @param service of --service, for names that the host may add to
   * @throws `UsageError`
   */
  read(texts: readonly string[], source: string, service: Service): Value
}

/** A command's flags by their names in the code: `allowHttp` is typed `--allow-http`. */
export type Flags = Readonly<Record<string, Flag>>

/** The values of flags by the same names. */
export type Values<F extends Flags> = {
  readonly [Name in keyof F]: F[Name] extends Flag<infer Value> ? Value : never
}

/** Turns a string into a value. @throws `UsageError` */
export type Parse<Value> = (text: string, source: string, service: Service) => Value

/** Names to choose from: fixed, or those of the service. */
type Choices<Name extends string> = readonly Name[] | ((service: Service) => readonly Name[])

const ONCE = { isRequired: false, isRepeatable: false }

/** A flag without a value. */
export function toggle(help: string): Flag<boolean> {
  return { takes: null, help, ...ONCE, read: (texts) => texts.length > 0 }
}

/** A flag with a string. */
export function text(takes: string, help: string): Flag<string | undefined> {
  return { takes, help, ...ONCE, read: ([given]) => given }
}

/** A flag with a string that stands for another value. */
export function parsed<Value>(takes: string, help: string, parse: Parse<Value>): Flag<Value | undefined> {
  return {
    takes,
    help,
    ...ONCE,
    read: ([given], source, service) => (given === undefined ? undefined : parse(given, source, service)),
  }
}

/** A flag with a name out of a set. */
export function choice<Name extends string>(
  takes: string,
  help: string,
  all: Choices<Name>,
): Flag<Name | undefined> {
  return parsed(takes, help, (given, source, service) => {
    const names = namesOf(all, service)
    return findName(given, names) ?? refuseName(given, names, source, 'one of')
  })
}

/** A flag with several names out of a set, separated by commas. @param alone for messages, another text: `, or all` */
export function choices<Name extends string>(
  takes: string,
  help: string,
  all: Choices<Name>,
  alone = '',
): Flag<readonly Name[] | undefined> {
  return parsed(takes, help, (given, source, service) => {
    const names = namesOf(all, service)
    return given.split(',').map((item) => {
      const name = item.trim()
      return findName(name, names) ?? refuseName(name, names, source, 'one or more of', alone)
    })
  })
}

function namesOf<Name extends string>(all: Choices<Name>, service: Service): readonly Name[] {
  return typeof all === 'function' ? all(service) : all
}

function findName<Name extends string>(given: string, names: readonly Name[]): Name | undefined {
  return names.find((name) => name === given)
}

/** Repeats the string only if a name is close: any other string may be a secret. */
function refuseName(
  given: string,
  names: readonly string[],
  source: string,
  howMany: string,
  alone = '',
): never {
  const suggestion = suggest(given, names)
  const reason = suggestion
    ? `'${given}' is unknown${suggestion}`
    : `it must be ${howMany} ${names.join(', ')}${alone}`
  throw new UsageError(`Cannot use ${source} because ${reason}`)
}

/** A flag that may be given several times. */
export function repeated(takes: string, help: string): Flag<readonly string[]> {
  return { takes, help, isRequired: false, isRepeatable: true, read: (texts) => texts }
}

/** The same flag, also read from an environment variable. */
export function orVariable<Value>(variable: string, flag: Flag<Value>): Flag<Value> {
  return { ...flag, variable }
}

/** The same flag, but required. */
export function required<Value>(flag: Flag<Value | undefined>): Flag<Value> {
  const { takes, variable } = flag
  const advice = variable === undefined ? '' : `; pass it, or set ${variable}`
  return {
    ...flag,
    isRequired: true,
    read(texts, source, service) {
      const value = flag.read(texts, source, service)
      if (value === undefined) throw new UsageError(`Missing ${source} ${takes}${advice}`)
      return value
    },
  }
}

/** A whole number. @throws `UsageError` */
export function parseWhole(given: string, source: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given)
  throw new UsageError(`Cannot use ${source} because it must be a whole number`)
}

/**
 * Reads the typed flags, and the environment for all other flags.
 *
 * @throws `UsageError` for the first flag that cannot be used
 */
export function readFlags<F extends Flags>(
  flags: F,
  typed: ReadonlyMap<string, readonly string[]>,
  env: Readonly<Record<string, string | undefined>>,
  service: Service,
): Values<F> {
  const entries = Object.entries(flags).map(([name, flag]): [string, unknown] => {
    const { variable = '' } = flag
    const inherited = env[variable]
    if (typed.has(name) || !inherited) return [name, flag.read(typed.get(name) ?? [], dashed(name), service)]
    return [name, flag.read([inherited], variable, service)]
  })
  return Object.fromEntries(entries) as Values<F>
}
