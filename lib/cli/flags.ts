import { suggest } from '../base/suggest.ts'
import type { Service } from '../service.ts'
import { UsageError } from './failure.ts'
import { dashed } from './names.ts'

/** A flag of a command and how to parse its values. */
export interface Flag<Value = unknown> {
  /** Placeholder for the value in help texts, or `null` if the flag has no value. */
  readonly takes: string | null
  readonly help: string
  readonly isRequired: boolean
  readonly isRepeatable: boolean
  /** A letter, for example `o` for `-o`. */
  readonly short?: string
  /** Environment variable to use if the flag isn't passed. */
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

/** The flags of a command by their names in the code. For example, `allowHttp` is typed as `--allow-http`. */
export type Flags = Readonly<Record<string, Flag>>

/** The values of the flags by the same names. */
export type Values<F extends Flags> = {
  readonly [Name in keyof F]: F[Name] extends Flag<infer Value> ? Value : never
}

/** Converts a string to a value. @throws `UsageError` */
export type Parse<Value> = (text: string, source: string, service: Service) => Value

/** The allowed names, which can depend on the service. */
type Choices<Name extends string> = readonly Name[] | ((service: Service) => readonly Name[])

const ONCE = { isRequired: false, isRepeatable: false }

/** Creates a flag without a value. */
export function toggle(help: string): Flag<boolean> {
  return { takes: null, help, ...ONCE, read: (texts) => texts.length > 0 }
}

/** Creates a flag whose value is a string. */
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

/** Creates a flag that accepts one of several names. */
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
 * Creates a flag that accepts several names separated by commas.
 *
 * @param alone another value for messages, for example `, or all`
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

/** Only shows the value if it's close to one of the names. Otherwise it might be a secret. */
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

/** Creates a flag that can be passed several times. */
export function repeated(takes: string, help: string): Flag<readonly string[]> {
  return { takes, help, isRequired: false, isRepeatable: true, read: (texts) => texts }
}

/** Returns the same flag with an environment variable as a fallback. */
export function orVariable<Value>(variable: string, flag: Flag<Value>): Flag<Value> {
  return { ...flag, variable }
}

/** Returns the same flag, but required. */
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

/** Parses a whole number. @throws `UsageError` */
export function parseWhole(given: string, source: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given)
  throw new UsageError(`Cannot use ${source} because it must be a whole number`)
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
