import { suggest } from '../base/suggest.ts'
import { VERSION } from '../base/version.ts'
import type { Command, Group } from './command.ts'
import { COMMANDS } from './commands.ts'
import { describeFailure, UsageError } from './failure.ts'
import { describeCommand, describeGroup, describeProgram } from './help.ts'
import { writeResult } from './output.ts'
import type { Terminal } from './terminal.ts'
import { wrap } from './text.ts'

/**
 * Runs a command line. On failure, prints a single line to stderr (wrapped if that's a terminal).
 *
 * @param args everything after the program's name
 * @returns the exit code: 0 for success, 1 for failure, 2 for an invalid command line
 */
export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    await run(args, terminal)
    return 0
  } catch (error) {
    const { line, exitCode } = describeFailure(error)
    terminal.stderr.write(`${wrapFor(terminal, `business-api-kit: ${line}`)}\n`)
    return exitCode
  }
}

/** Wraps a string for a terminal, which would break words otherwise. Stays on a single line for scripts. */
function wrapFor({ stderr }: Terminal, text: string): string {
  return stderr.isTTY ? wrap(text, stderr.columns ?? 80).join('\n') : text
}

async function run(args: readonly string[], terminal: Terminal): Promise<void> {
  const words = args[0] === 'help' ? [...args.slice(1), '--help'] : args
  const [first] = words
  if (first === undefined || isHelp(first))
    return print(terminal, describeProgram(COMMANDS, helpWidth(terminal)))
  if (first === '--version') return print(terminal, `${VERSION}\n`)
  if (first.startsWith('-')) throw new UsageError(`Name a command before '${first}'${seeHelp([])}`)

  const found = find(COMMANDS, first, [])
  if (!('commands' in found)) return runCommand(found, [], words.slice(1), terminal)
  const [, second] = words
  if (second !== undefined && isHelp(second))
    return print(terminal, describeGroup(found, helpWidth(terminal)))
  if (second === undefined || second.startsWith('-')) {
    const names = found.commands.map(({ name }) => name).join(', ')
    throw new UsageError(`Name a command of ${first}: ${names}${seeHelp([first])}`)
  }
  return runCommand(find(found.commands, second, [first]), [first], words.slice(2), terminal)
}

function find<Named extends Command | Group>(
  candidates: readonly Named[],
  name: string,
  path: readonly string[],
): Named {
  const found = candidates.find((candidate) => candidate.name === name)
  if (found) return found
  const names = candidates.map((candidate) => candidate.name)
  throw new UsageError(
    `Unknown command '${[...path, name].join(' ')}'${suggestGroup(name) || suggest(name, names)}${seeHelp(path)}`,
  )
}

/** Suggests `keys revoke` for `revoke`, for example. */
function suggestGroup(name: string): string {
  const full = COMMANDS.flatMap((entry) => {
    const isIn = 'commands' in entry && entry.commands.some((command) => command.name === name)
    return isIn ? [`'${entry.name} ${name}'`] : []
  })
  return full.length === 0 ? '' : `: did you mean ${full.join(' or ')}?`
}

async function runCommand(
  command: Command,
  path: readonly string[],
  args: readonly string[],
  terminal: Terminal,
): Promise<void> {
  if (args.some(isHelp)) return print(terminal, describeCommand(command, path, helpWidth(terminal)))
  try {
    await command.run(args, terminal)
  } catch (error) {
    const { line, exitCode } = describeFailure(error)
    throw exitCode === 2 ? new UsageError(`${line}${seeHelp([...path, command.name])}`) : error
  }
}

/** Help width without a terminal, and the maximum with one, because wider text is hard to read. */
const HELP_WIDTH = 100
const HELP_WIDTH_MIN = 40

function helpWidth({ stdout }: Terminal): number {
  const { isTTY, columns = HELP_WIDTH } = stdout
  return isTTY ? Math.min(HELP_WIDTH, Math.max(HELP_WIDTH_MIN, columns)) : HELP_WIDTH
}

function isHelp(arg: string): boolean {
  return arg === '--help' || arg === '-h'
}

function seeHelp(path: readonly string[]): string {
  return ` (see: ${['business-api-kit', ...path, '--help'].join(' ')})`
}

async function print({ stdout }: Terminal, text: string): Promise<void> {
  await writeResult(stdout, text)
}
