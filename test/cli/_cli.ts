import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import { main } from '../../lib/cli/main.ts'
import type { Output } from '../../lib/cli/terminal.ts'

// Runs the command line in this process. It's the same as in lib/cli.ts, but with the test's environment and streams.

/** A 32-byte key for sealing. */
export const SECRET_KEY: string = Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString(
  'base64',
)

/** The password in connection strings. It must never appear in any output. */
export const PASSWORD = 'hush-hush-4711'

/** The output and exit code of a command. */
export interface Result {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** Differences from an empty environment and streams that aren't a terminal. */
export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>
  /** Number of columns if both streams are a terminal. */
  readonly columns?: number
  /** The answer typed on a terminal, or `null` for the end of the input. */
  readonly answer?: string | null
  /** Text or bytes piped into the command. */
  readonly input?: string | Uint8Array | Readable
  readonly signals?: EventEmitter
  /** Called after each write with everything written so far. */
  readonly onOutput?: (text: string) => void
}

/** Runs a command line. */
export async function cli(args: readonly string[], surroundings: Surroundings = {}): Promise<Result> {
  const { env = {}, columns, answer, input = '', signals = new EventEmitter(), onOutput } = surroundings
  const written = { stdout: '', stderr: '' }
  const output = (name: 'stdout' | 'stderr'): Output => ({
    isTTY: columns !== undefined,
    columns,
    write(text, done) {
      written[name] += text
      onOutput?.(written.stdout + written.stderr)
      done?.()
    },
  })
  const exitCode = await main(args, {
    env,
    stdin: {
      isTTY: answer !== undefined,
      stream: () => (input instanceof Readable ? input : Readable.from([input])),
      readLine: async () => answer ?? null,
    },
    stdout: output('stdout'),
    stderr: output('stderr'),
    signals,
    exit: (code) => assert.fail(`exit(${code})`),
  })
  assert.equal(signals.eventNames().length, 0, 'listens to signals after its end')
  return { exitCode, ...written }
}

/** Runs commands on a database, with a key for sealing. */
export function cliOn(
  databaseUrl: string,
  surroundings: Surroundings = {},
): (...args: readonly string[]) => Promise<Result> {
  const env = { DATABASE_URL: databaseUrl, BUSINESS_API_SECRET_KEYS: SECRET_KEY, ...surroundings.env }
  return (...args) => cli(args, { ...surroundings, env })
}

/** Returns the JSON value of a successful command. There must not be any other output. */
export function jsonOf({ exitCode, stdout, stderr }: Result): ReturnType<typeof JSON.parse> {
  assert.deepEqual({ exitCode, stderr }, { exitCode: 0, stderr: '' }, stdout)
  assert.match(stdout, /^[^\n]+\n$/)
  return JSON.parse(stdout)
}

/** Returns the text output of a successful command. */
export function textOf({ exitCode, stdout, stderr }: Result): string {
  assert.equal(exitCode, 0, stderr)
  return stdout
}

/** Asserts that a command failed with this exit code and a single line with the reason. */
export function assertFailed({ exitCode, stdout, stderr }: Result, code: 1 | 2, about: RegExp): void {
  assert.equal(exitCode, code, stderr)
  assert.match(stderr, /^business-api-kit: [^\n]+\n$/)
  assert.match(stderr, about)
  assert.doesNotMatch(stderr, /undefined|\[object|\n {4}at /)
  assert.ok(!(stdout + stderr).includes(PASSWORD), 'tells the password')
}
