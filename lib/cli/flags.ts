import { suggest } from '../base/suggest.ts'
import type { Service } from '../service.ts'
import { UsageError } from './failure.ts'
import { dashed } from './names.ts'

/** A command's flag and how to parse it. */
export interface Flag<Value = unknown> {
  /** Placeholder for the value in help texts, or `null` if the flag takes no value. */
  readonly takes: string | null
  readonly help: string
  readonly isRequired: boolean
  readonly isRepeatable: boolean
  /** A letter, for example `o` for `-o`. */
  readonly short?: string
  /** Environment variable to fall back to. */
  readonly variable?: string
  /**
   * Parses the value.
   *
   * @param texts the strings as typed, in order. Empty if the flag wasn't passed
   * @param source the name to use in messages, either a flag such as `--expires` or an environment variable
   * @param service the service from --service, which may define additional names
   * @throws `UsageError`
   */
  read(texts: readonly string[], source: string, service: Service): Value
}

/** A command's flags by their name in code. For example, `allowHttp` is `--allow-http` on the command line. */
export type Flags = Readonly<Record<string, Flag>>

/** The flags' values by the same names. */
export type Values<F extends Flags> = {
  readonly [Name in keyof F]: F[Name] extends Flag<infer Value> ? Value : never
}

/** Converts a string to a value. @throws `UsageError` */
export type Parse<Value> = (text: string, source: string, service: Service) => Value

/** The allowed names, which may depend on the service. */
type Choices<Name extends string> = readonly Name[] | ((service: Service) => readonly Name[])

const ONCE = { isRequired: false, isRepeatable: false }

/** Creates a flag that takes no value. */
export function toggle(help: string): Flag<boolean> {
  return { takes: null, help, ...ONCE, read: (texts) => texts.length > 0 }
}

/** Creates a flag with a string value. */
export function text(takes: string, help: string): Flag<string | undefined> {
  return { takes, help, ...ONCE, read: ([given]) => given }
}

/** Creates a flag whose value is parsed from a string. */
export function parsed<Value>(takes: string, help: string, parse: Parse<Value>): Flag<Value | undefined> {
  return {
    takes,
    help,
    ...ONCE,
    read: ([given], source, service) => (given === undefined ? undefined : parse(given, source, service)),
  }
}

/** Creates a flag that takes one of several names. */
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

/**
 * Creates a flag that takes a comma-separated list of names.
 *
 * @param alone another allowed value, for messages, for example `, or all`
 */
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

/** Only includes the value if it's similar to one of the names. Otherwise, it could be a secret. */
function refuseName(
  given: string,
  names: readonly string[],
  source: string,
  howMany: string,
  alone = '',
): never {
  const suggestion = suggest(given, names)
  throw new UsageError(
    suggestion
      ? `Cannot use ${source} because '${given}' is unknown${suggestion}`
      : `${source} must be ${howMany} ${names.join(', ')}${alone}`,
  )
}

/** Creates a flag that can be passed multiple times. */
export function repeated(takes: string, help: string): Flag<readonly string[]> {
  return { takes, help, isRequired: false, isRepeatable: true, read: (texts) => texts }
}

/** Makes a flag fall back to an environment variable. */
export function orVariable<Value>(variable: string, flag: Flag<Value>): Flag<Value> {
  return { ...flag, variable }
}

/** Makes a flag required. */
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

/** Parses an integer. @throws `UsageError` */
export function parseWhole(given: string, source: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given)
  throw new UsageError(`${source} must be a whole number`)
}

/**
 * Reads all flags from the command line or the environment.
 *
 * @throws `UsageError` for the first invalid flag
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
