import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { programArguments, ROOT } from '../_program.ts'

// Programs run as by a reader: each in a separate process, from the top directory of the package.

/** A program in a separate process group, as in a terminal. */
export interface Program {
  /** All output so far. */
  stdout(): string
  stderr(): string
  /** True from the end of the process on. */
  hasEnded(): boolean
  /**
   * Resolves with the first match of the pattern on stdout; rejects with stderr when the program ends before a match.
   */
  prints(pattern: RegExp): Promise<RegExpExecArray>
  /** Sends a signal to every process of the group, as Ctrl-C does. */
  signal(signal: NodeJS.Signals): void
  /** The exit code in a shell: 130 also for a program that SIGINT has ended. */
  readonly exit: Promise<number>
}

/** Changes of the environment for {@link startProgram}; `undefined` leaves a variable out. */
export type Environment = Readonly<Record<string, string | undefined>>

const started: Program[] = []

// A program that a failed test has left running would keep the test file from ending.
after(() => Promise.all(started.filter((program) => !program.hasEnded()).map(endProgram)))

/** Runs a TypeScript program with Node.js from source. */
export function startSource(args: readonly string[], env: Environment = {}): Program {
  return startProgram(
    process.execPath,
    args.flatMap((arg) => (arg.endsWith('.ts') ? programArguments(join(ROOT, arg)) : [arg])),
    env,
  )
}

/** Runs any command. */
export function startProgram(
  command: string,
  args: readonly string[],
  env: Environment = {},
  cwd: string = ROOT,
): Program {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => {
    output.stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    output.stderr += chunk
  })
  const exit = once(child, 'close').then(([code, signal]) => readExitCode(code, signal))
  const program: Program = {
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    prints: (pattern) => waitFor(pattern, child, output),
    signal: (signal) => signalGroup(child, signal),
    exit,
  }
  started.push(program)
  return program
}

function readExitCode(code: number | null, signal: NodeJS.Signals | null): number {
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
}

/** Reads the port that an example prints, as the beginning of every URL there. */
export async function readBaseUrl(program: Program): Promise<string> {
  const [, port] = await program.prints(/Listening on .*port: (\d+)/)
  return `http://127.0.0.1:${port}`
}

/** Ends a program and every process that the program has started. */
export async function endProgram(program: Program): Promise<void> {
  program.signal('SIGTERM')
  const timer = setTimeout(() => program.signal('SIGKILL'), 10_000)
  await program.exit
  clearTimeout(timer)
}

function waitFor(
  pattern: RegExp,
  child: ChildProcess,
  output: { readonly stdout: string; readonly stderr: string },
): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    const check = (): void => {
      const match = pattern.exec(output.stdout)
      if (match) resolve(match)
    }
    check()
    child.stdout?.on('data', check)
    child.on('close', (code) => {
      reject(
        new Error(
          `The program ended with ${code} before it printed ${pattern}\n${output.stdout}${output.stderr}`,
        ),
      )
    })
  })
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // All processes have ended already.
  }
}
