import { readDatabaseUrl } from './database-url.ts'
import { writeOnce, writeResult } from './output.ts'
import { createProgress, type Progress } from './progress.ts'
import type { Terminal } from './terminal.ts'

/** A command at work: what it was given beside its own flags, and where it says what it has done. */
export interface Session {
  readonly terminal: Terminal
  /** What follows the command's name; empty where it takes nothing. */
  readonly argument: string
  readonly isJson: boolean
  /** Columns for tables; infinite where nobody sees where a line ends. */
  readonly width: number
  /** @throws `UsageError` when there is none, or none that can be used */
  databaseUrl(): string
  /** Whether a database is named at all. */
  readonly hasDatabase: boolean
  /** Gives the result: one JSON value, or what people read, which ends with a line break. */
  print(value: object, toText: () => string): Promise<void>
  /**
   * As {@link Session.print}, for a secret that nothing can show again.
   *
   * @param advice what to do when it is lost on its way, with the id of what was made
   */
  printOnce(value: object, secret: string, advice: string): Promise<void>
  /** Says something beside the result, to people only. */
  note(line: string): void
  /** @param action what is being done: "Recovering" */
  progress(action: string): Progress
}

/** @throws nothing: what was not given is missed by who asks for it */
export function createSession(
  terminal: Terminal,
  common: { readonly databaseUrl: string | undefined; readonly json: boolean },
  argument: string,
): Session {
  const { stdout, stderr, env } = terminal
  const { json: isJson } = common
  const url = common.databaseUrl ?? env.DATABASE_URL
  return {
    terminal,
    argument,
    isJson,
    width: stdout.isTTY ? (stdout.columns ?? 80) : Number.POSITIVE_INFINITY,
    databaseUrl: () => readDatabaseUrl(url),
    hasDatabase: Boolean(url),
    print: (value, toText) => writeResult(stdout, isJson ? `${JSON.stringify(value)}\n` : toText()),
    printOnce: (value, secret, advice) =>
      writeOnce(stdout, `${isJson ? JSON.stringify(value) : secret}\n`, advice),
    note(line) {
      if (!isJson) stderr.write(`${line}\n`)
    },
    progress: (action) => createProgress(stderr, action),
  }
}
