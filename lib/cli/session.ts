import { visible } from '../base/visible-text.ts'
import type { Service } from '../service.ts'
import { readDatabaseUrl } from './database-url.ts'
import { nameTarget, UsageError } from './failure.ts'
import { writeOnce, writeResult } from './output.ts'
import { createProgress, type Progress } from './progress.ts'
import type { Terminal } from './terminal.ts'
import { visibleJson, visibleLines } from './text.ts'

/** The surroundings of a running command: argument, database, and streams. */
export interface Session {
  readonly terminal: Terminal
  /** The word after the command's name; empty for a command without an argument. */
  readonly argument: string
  readonly isJson: boolean
  /** The host's service; without --service, the default names. */
  readonly service: Service
  /**
   * The width for tables: the columns of the terminal; infinite for a file or a pipe.
   *
   * @param isWide true for the infinite width on a terminal too
   */
  width(isWide?: boolean): number
  /** The connection strings in DATABASE_URLS by shard name; empty without. */
  readonly shards: ReadonlyMap<string, string>
  /** The name of the shard, where the command is run on each; otherwise null. */
  readonly shard: string | null
  /** Reads the connection string. @throws `UsageError` where it is missing, also beside DATABASE_URLS, or cannot be used */
  databaseUrl(): string
  /** Adds the server, the user and the database to a failure of the connection; leaves any other failure as it is. */
  explain(error: unknown): unknown
  /** True where a flag or variable names a database. */
  readonly hasDatabase: boolean
  /**
   * Prints the result: a JSON value, or text for people, which ends with a line break.
   *
   * @returns false when the reader has gone
   */
  print(value: object, toText: () => string): Promise<boolean>
  /**
   * Prints a secret that cannot be shown again.
   *
   * @param advice the next step after a loss, with the id of the new record
   */
  printOnce(value: object, secret: string, advice: string): Promise<void>
  /** Prints a remark for people beside the result. */
  note(line: string): void
  /** @param action the work in progress: "Recovering" */
  progress(action: string): Progress
}

/** Creates the session of a command. Missing values are noticed at their first use. */
export function createSession(
  terminal: Terminal,
  common: {
    readonly databaseUrl: string | undefined
    readonly json: boolean
    readonly service: Service
  },
  argument: string,
  shards: ReadonlyMap<string, string>,
): Session {
  const { stdout, stderr } = terminal
  const { json: isJson, databaseUrl: url, service } = common
  return {
    terminal,
    argument,
    isJson,
    service,
    shards,
    shard: null,
    width: (isWide = false) => {
      return stdout.isTTY && !isWide ? (stdout.columns ?? 80) : Number.POSITIVE_INFINITY
    },
    databaseUrl() {
      if (url || shards.size === 0) return readDatabaseUrl(url)
      throw new UsageError('Cannot tell the shard: pass --database-url, which acts on one database')
    },
    explain: (error) => (url ? nameTarget(error, url) : error),
    hasDatabase: Boolean(url),
    print: (value, toText) =>
      writeResult(stdout, isJson ? `${visibleJson(JSON.stringify(value))}\n` : visibleLines(toText())),
    printOnce: (value, secret, advice) =>
      writeOnce(stdout, `${isJson ? visibleJson(JSON.stringify(value)) : secret}\n`, advice),
    note(line) {
      if (!isJson) stderr.write(`${visible(line)}\n`)
    },
    progress: (action) => createProgress(stderr, action),
  }
}
