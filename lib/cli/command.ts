import { parseCommandLine } from './command-line.ts'
import { UsageError } from './failure.ts'
import { type Flags, readFlags, text, toggle, type Values } from './flags.ts'
import { createSession, type Session } from './session.ts'
import type { Terminal } from './terminal.ts'

/** A command line to copy, and what it is for. */
export interface Example {
  readonly purpose: string
  readonly line: string
}

/** What a command is, for its help text. */
export interface CommandText {
  readonly name: string
  /** Completes "business-api keys create: …". */
  readonly summary: string
  /** What one must know before using it. */
  readonly about?: string
  /** What stands for the one argument that it needs: `ID`; absent: it takes none. */
  readonly argument?: string
  readonly examples: readonly Example[]
}

/** A command that can be carried out. */
export interface Command extends CommandText {
  readonly flags: Flags
  /**
   * @param args what follows its name
   * @throws `UsageError` before anything is done, or what the work throws
   */
  run(args: readonly string[], terminal: Terminal): Promise<void>
}

/** Commands with a common first word. */
export interface Group {
  readonly name: string
  readonly summary: string
  readonly commands: readonly Command[]
}

/** What every command knows. */
export const COMMON_FLAGS = {
  databaseUrl: text(
    'URL',
    'the PostgreSQL database; default: DATABASE_URL, which other users of this machine cannot read',
  ),
  json: toggle('one JSON value on stdout, for machines'),
}

/** A command with its flags, which `run` gets read. */
export function defineCommand<F extends Flags>(
  definition: CommandText & {
    readonly flags: F
    run(values: Values<F>, session: Session): Promise<void>
  },
): Command {
  const { argument: placeholder, flags: own, run, ...rest } = definition
  const flags = { ...own, ...COMMON_FLAGS }
  return {
    ...rest,
    ...(placeholder === undefined ? {} : { argument: placeholder }),
    flags,
    async run(args, terminal) {
      const { typed, positionals } = parseCommandLine(args, flags)
      const argument = readArgument(positionals, placeholder)
      await run(readFlags(own, typed), createSession(terminal, readFlags(COMMON_FLAGS, typed), argument))
    },
  }
}

function readArgument([first = '', ...others]: readonly string[], placeholder: string | undefined): string {
  const unexpected = placeholder === undefined ? first : others[0]
  if (unexpected) throw new UsageError(`Unexpected argument '${unexpected}'`)
  if (placeholder !== undefined && first === '') throw new UsageError(`Missing ${placeholder}`)
  return first
}
