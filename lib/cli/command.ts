import { parseCommandLine } from './command-line.ts'
import { UsageError } from './failure.ts'
import { type Flags, orVariable, readFlags, text, toggle, type Values } from './flags.ts'
import { createSession, type Session } from './session.ts'
import type { Terminal } from './terminal.ts'

/** A command line to copy, and its purpose. */
export interface Example {
  readonly purpose: string
  readonly line: string
}

/** The description of a command, for help texts. */
export interface CommandText {
  readonly name: string
  /** Completes "business-api-kit keys create: …". */
  readonly summary: string
  /** Paragraphs to read before the first use. */
  readonly about?: string
  /** The placeholder of the required argument, `ID`; absent for a command without an argument. */
  readonly argument?: string
  readonly examples: readonly Example[]
}

/** A command that can be carried out. */
export interface Command extends CommandText {
  readonly flags: Flags
  /**
   * Carries the command out.
   *
   * @param args the words after the command's name
   * @throws `UsageError` before any change, and the errors of the work
   */
  run(args: readonly string[], terminal: Terminal): Promise<void>
}

/** Commands with a common first word. */
export interface Group {
  readonly name: string
  readonly summary: string
  readonly commands: readonly Command[]
}

/** Flags of every command. */
export const COMMON_FLAGS = {
  databaseUrl: orVariable(
    'DATABASE_URL',
    text('URL', 'the PostgreSQL database; other users of this machine can read flags, but not variables'),
  ),
  json: toggle('one JSON value on stdout, for machines'),
}

/** Defines a command, whose `run` gets the values of the flags. */
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
      const common = readFlags(COMMON_FLAGS, typed, terminal.env)
      const session = createSession(terminal, common, argument)
      const values = readFlags(own, typed, terminal.env)
      try {
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
  if (placeholder !== undefined && first === '') throw new UsageError(`Missing ${placeholder}`)
  return first
}
