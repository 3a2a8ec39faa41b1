import { visible } from '../base/visible-text.ts'
import type { Service } from '../service.ts'
import { readDatabaseUrl } from './database-url.ts'
import { nameTarget, UsageError } from './failure.ts'
import { writeOnce, writeResult } from './output.ts'
import { createProgress, type Progress } from './progress.ts'
import type { Terminal } from './terminal.ts'
import { visibleJson, visibleLines } from './text.ts'

/** The context a command runs in, including its argument, database and streams. */
export interface Session {
  readonly terminal: Terminal
  /** The word after the command's name, or an empty string. */
  readonly argument: string
  readonly isJson: boolean
  /** The host's service, or the default names without --service. */
  readonly service: Service
  /**
   * Returns the table width, which is the terminal's number of columns, or infinite for a file or pipe.
   *
   * @param isWide if `true`, always infinite
   */
  width(isWide?: boolean): number
  /** The connection strings in DATABASE_URLS by shard name, or empty if it's not set. */
  readonly shards: ReadonlyMap<string, string>
  /** The shard's name if the command runs on every shard, otherwise `null`. */
  readonly shard: string | null
  /**
   * Returns the connection string.
   *
   * @throws `UsageError` if it's invalid or missing, including when DATABASE_URLS is set instead
   */
  databaseUrl(): string
  /** Adds the server, user and database to connection failures. Returns any other error unchanged. */
  explain(error: unknown): unknown
  /** `true` if a flag or variable specifies a database. */
  readonly hasDatabase: boolean
  /**
   * Prints the result, as either JSON or human-readable text. The text must end with a line break.
   *
   * @returns `false` if the reader is gone
   */
  print(value: object, toText: () => string): Promise<boolean>
  /**
   * Prints a secret that can't be shown again.
   *
   * @param advice what to do if the secret is lost, including the new record's id
   */
  printOnce(value: object, secret: string, advice: string): Promise<void>
  /** Prints a human-readable note in addition to the result. */
  note(line: string): void
  /** @param action what is being done, for example "Recovering" */
  progress(action: string): Progress
}

/** Creates a command's session. Missing values only cause an error once they're used. */
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
