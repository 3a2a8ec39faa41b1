import { visible } from '../base/visible-text.ts'
import type { Service } from '../service.ts'
import { readDatabaseUrl } from './database-url.ts'
import { nameTarget, UsageError } from './failure.ts'
import { writeOnce, writeResult } from './output.ts'
import { createProgress, type Progress } from './progress.ts'
import type { Terminal } from './terminal.ts'
import { visibleJson, visibleLines } from './text.ts'

/** The context of a running command, including its argument, database and streams. */
export interface Session {
  readonly terminal: Terminal
  /** The word after the command's name, or empty if there is none. */
  readonly argument: string
  readonly isJson: boolean
  /** The host's service, or the default names without --service. */
  readonly service: Service
  /**
   * Returns the width for tables, which is the number of columns of the terminal, or infinite for a file or pipe.
   *
   * @param isWide if `true`, always infinite
   */
  width(isWide?: boolean): number
  /** The connection strings in DATABASE_URLS by name of the shard, or empty if it isn't set. */
  readonly shards: ReadonlyMap<string, string>
  /** The name of the shard if the command runs on each of them, otherwise `null`. */
  readonly shard: string | null
  /**
   * Returns the connection string.
   *
   * @throws `UsageError` if it's missing (which includes using DATABASE_URLS) or invalid
   */
  databaseUrl(): string
  /** If the error is a connection failure, adds the server, user and database. Otherwise returns it unchanged. */
  explain(error: unknown): unknown
  /** `true` if a flag or variable names a database. */
  readonly hasDatabase: boolean
  /**
   * Prints the result, either as JSON or as text for people, which must end with a line break.
   *
   * @returns `false` if the reader is gone
   */
  print(value: object, toText: () => string): Promise<boolean>
  /**
   * Prints a secret that can't be shown again.
   *
   * @param advice what to do if the secret is lost, including the id of the new record
   */
  printOnce(value: object, secret: string, advice: string): Promise<void>
  /** Prints a remark for people in addition to the result. */
  note(line: string): void
  /** @param action what is being done, for example "Recovering" */
  progress(action: string): Progress
}

/** Creates the session of a command. Missing values only cause an error when they are used. */
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
