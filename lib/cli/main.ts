import { VERSION } from '../version.ts'
import type { Command, Group } from './command.ts'
import { COMMANDS } from './commands.ts'
import { describeFailure, UsageError } from './failure.ts'
import { describeCommand, describeGroup, describeProgram } from './help.ts'
import { suggest } from './names.ts'
import { writeResult } from './output.ts'
import type { Terminal } from './terminal.ts'

/**
 * Carries out a command line. Whatever goes wrong is told in one line on stderr.
 *
 * @param args what follows the program's name
 * @returns the exit code: 0 done, 1 not or not all of it, 2 not understood
 */
export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    await run(args, terminal)
    return 0
  } catch (error) {
    const { line, exitCode } = describeFailure(error)
    terminal.stderr.write(`business-api: ${line}\n`)
    return exitCode
  }
}

async function run(args: readonly string[], terminal: Terminal): Promise<void> {
  const words = args[0] === 'help' ? [...args.slice(1), '--help'] : args
  const [first] = words
  if (first === undefined || isHelp(first)) return print(terminal, describeProgram(COMMANDS))
  if (first === '--version') return print(terminal, `${VERSION}\n`)
  if (first.startsWith('-')) throw new UsageError(`Name a command before '${first}'${seeHelp([])}`)

  const found = find(COMMANDS, first, [])
  if (!('commands' in found)) return runCommand(found, [], words.slice(1), terminal)
  const [, second] = words
  if (second !== undefined && isHelp(second)) return print(terminal, describeGroup(found))
  if (second === undefined || second.startsWith('-')) {
    const names = found.commands.map(({ name }) => name).join(', ')
    throw new UsageError(`Name what to do with ${first}: ${names}${seeHelp([first])}`)
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
    `Unknown command '${[...path, name].join(' ')}'${suggest(name, names)}${seeHelp(path)}`,
  )
}

async function runCommand(
  command: Command,
  path: readonly string[],
  args: readonly string[],
  terminal: Terminal,
): Promise<void> {
  if (args.some(isHelp)) return print(terminal, describeCommand(command, path))
  try {
    await command.run(args, terminal)
  } catch (error) {
    const { line, exitCode } = describeFailure(error)
    throw exitCode === 2 ? new UsageError(`${line}${seeHelp([...path, command.name])}`) : error
  }
}

function isHelp(arg: string): boolean {
  return arg === '--help' || arg === '-h'
}

function seeHelp(path: readonly string[]): string {
  return ` (see: ${['business-api', ...path, '--help'].join(' ')})`
}

function print({ stdout }: Terminal, text: string): Promise<void> {
  return writeResult(stdout, text)
}
