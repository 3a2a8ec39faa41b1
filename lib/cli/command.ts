import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { suggest } from '../base/suggest.ts'
import { defineService, type Service, type ServiceOptions } from '../service.ts'
import { readDatabaseUrls } from './database-url.ts'
import { UsageError } from './failure.ts'
import { type Flags, orVariable, readFlags, text, toggle, type Values } from './flags.ts'
import { dashed } from './names.ts'
import { createSession, type Session } from './session.ts'
import { runOnEach, withShards } from './shards.ts'
import type { Terminal } from './terminal.ts'

/** Commands to copy and paste, keyed by what they do. */
export type Examples = Readonly<Record<string, string>>

interface CommandText {
  readonly name: string
  /** Completes a sentence that starts with the command's name. */
  readonly summary: string
  /** Additional paragraphs about the command. */
  readonly about?: string
  /** The argument's placeholder, `ID` if required or `[ID]` if optional. Missing if there's no argument. */
  readonly argument?: string
  readonly examples: Examples
}

/** A command that can be run. */
export interface Command extends CommandText {
  readonly flags: Flags
  /**
   * Runs the command.
   *
   * @param args everything after the command's name
   * @throws `UsageError` before anything was changed, or any other error
   */
  run(args: readonly string[], terminal: Terminal): Promise<void>
}

/** Commands that share their first word. */
export interface Group {
  readonly name: string
  readonly summary: string
  readonly commands: readonly Command[]
}

const COMMON_FLAGS = {
  databaseUrl: orVariable(
    'DATABASE_URL',
    text('URL', 'the PostgreSQL database; other users of this machine can read flags, but not variables'),
  ),
  service: orVariable(
    'BUSINESS_API_SERVICE',
    text('FILE', "the module that exports your 'service': its names and event types"),
  ),
  json: toggle('one JSON value on stdout, for programs'),
}

/** `parallel` runs on all shards at once, `in turn` on one after the other (for commands that ask for confirmation). */
type OnShards = 'parallel' | 'in turn'

/** Defines a command. `run` gets the flags' values. */
export function defineCommand<F extends Flags>(
  definition: CommandText & {
    readonly flags: F
    /** How to run a database-wide command if there are multiple shards. Missing if that isn't possible. */
    readonly onShards?: OnShards | ((values: Values<F>) => OnShards | null)
    run(values: Values<F>, session: Session): Promise<void>
  },
): Command {
  const { argument: placeholder, flags: own, run, onShards, ...rest } = definition
  const flags = { ...own, ...COMMON_FLAGS }
  return {
    ...rest,
    ...(placeholder === undefined ? {} : { argument: placeholder }),
    flags,
    async run(args, terminal) {
      const { typed, positionals } = parseCommandLine(args, flags)
      const argument = readArgument(positionals, placeholder)
      const { service: path, ...others } = readFlags(COMMON_FLAGS, typed, terminal.env, defineService())
      const shards = readDatabaseUrls(typed.has('databaseUrl') ? '' : terminal.env.DATABASE_URLS)
      const service = await readService(path)
      const common = { ...others, service }
      const values = readFlags(own, typed, terminal.env, service)
      const { organization }: { readonly organization?: unknown } = values
      const owner = placeholder === 'ORGANIZATION' ? argument : organization
      const way = typeof onShards === 'function' ? onShards(values) : onShards
      let session = createSession(terminal, common, argument, shards)
      try {
        if (shards.size > 0 && way) {
          return await runOnEach(session, way === 'parallel', (each) => run(values, each))
        }
        if (shards.size > 0) {
          // Ignore DATABASE_URL if DATABASE_URLS is set, as it may be an unrelated database.
          const databaseUrl =
            typeof owner === 'string'
              ? shards.get((await withShards(session, (store) => store.shardOf(owner))).name)
              : undefined
          session = createSession(terminal, { ...common, databaseUrl }, argument, shards)
        }
        await run(values, session)
      } catch (error) {
        throw session.explain(error)
      }
    },
  }
}

function readArgument([first = '', ...others]: readonly string[], placeholder: string | undefined): string {
  const unexpected = placeholder === undefined ? first : others[0]
  if (unexpected) throw new UsageError(`Unexpected argument '${unexpected}'`)
  if (placeholder !== undefined && first === '' && !placeholder.startsWith('['))
    throw new UsageError(`Missing ${placeholder}`)
  return first
}

// --- Arguments ---

interface CommandLine {
  /** The values passed for each flag, by the flag's name in code. A flag that takes no value has an empty string. */
  readonly typed: ReadonlyMap<string, readonly string[]>
  readonly positionals: readonly string[]
}

/**
 * Parses a command's arguments. Errors never include a value, since it could be a secret.
 *
 * @throws `UsageError` with a one-line message
 */
function parseCommandLine(args: readonly string[], flags: Flags): CommandLine {
  const names = new Map(Object.keys(flags).map((name) => [dashed(name).slice(2), name]))
  // Strict mode errors span multiple lines and suggest a syntax that our commands don't support.
  const { tokens } = parseArgs({
    args: [...args],
    options: describeOptions(flags),
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const typed = new Map<string, string[]>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const name = names.get(token.name)
    const flag = name === undefined ? undefined : flags[name]
    if (name === undefined || !flag) throw unknown(token.rawName, names)
    checkValue(token, flag.takes)
    const texts = typed.get(name) ?? []
    if (texts.length > 0 && !flag.isRepeatable) throw new UsageError(`${token.rawName} is given twice`)
    typed.set(name, [...texts, token.value ?? ''])
  }
  const positionals = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  return { typed, positionals }
}

function describeOptions(
  flags: Flags,
): Record<string, { readonly type: 'string' | 'boolean'; short?: string }> {
  const options = Object.entries(flags).map(([name, { takes, short }]) => {
    const type = takes === null ? ('boolean' as const) : ('string' as const)
    return [dashed(name).slice(2), short === undefined ? { type } : { type, short }] as const
  })
  return Object.fromEntries(options)
}

function unknown(rawName: string, names: ReadonlyMap<string, string>): UsageError {
  const candidates = [...names.keys()].map((name) => `--${name}`)
  return new UsageError(`Unknown flag '${rawName}'${suggest(rawName, candidates)}`)
}

interface OptionToken {
  readonly rawName: string
  readonly value?: string | undefined
  readonly inlineValue?: boolean | undefined
}

function checkValue({ rawName, value, inlineValue }: OptionToken, takes: string | null): void {
  if (takes === null && value !== undefined) throw new UsageError(`${rawName} takes no value`)
  // `-organization` is most likely a typo, but would be parsed as `-o rganization`.
  if (inlineValue && !rawName.startsWith('--')) {
    throw new UsageError(`Cannot read ${rawName} and its value in one word; write: ${rawName} ${takes}`)
  }
  // The parser would treat the next flag as the value.
  const isMissing = value === undefined || value === '' || (!inlineValue && /^-./.test(value))
  if (takes !== null && isMissing) throw new UsageError(`${rawName} needs a value: ${rawName} ${takes}`)
}

/**
 * Loads the service from one of the host's modules. The host's processes should use the same module.
 *
 * @param path the module, or `undefined` for the default names
 * @throws `UsageError`
 */
async function readService(path: string | undefined): Promise<Service> {
  try {
    if (path === undefined) return defineService()
    const { service }: { readonly service?: ServiceOptions } = await import(pathToFileURL(resolve(path)).href)
    if (service instanceof Object) return defineService(service)
    throw new TypeError("it has no export 'service': add export const service = defineService({ … })")
  } catch (error) {
    throw new UsageError(`Cannot use the module of --service: ${(error as Error).message}`)
  }
}
