import type { Fragment, ISql, Sql } from 'postgres'
import { readWhole } from '../../base/options.ts'
import { sleep } from '../../base/time.ts'
import { createSchemaFaults, type ExplainError } from '../schema/schema-fault.ts'
import { createConnections } from './connections.ts'
import { createDrain } from './drain.ts'
import {
  isConflict,
  isConnectionLost,
  isReadOnlyServer,
  isUnavailable,
  unavailable,
} from './driver-faults.ts'
import { createPool, type RawRows, type Statement } from './pool.ts'
import { createServers } from './servers.ts'
import { readSource } from './source.ts'
import { createTurns, type Share } from './turns.ts'
import { createWakeUpSignal, type WakeUpSignal } from './wake-up-signal.ts'

/** The limits of a store's use of its database. */
export interface DatabaseOptions {
  /**
   * Connections that the store opens at most, as they are needed. From 4 on, one organization uses at most half of them, and
   * a quarter is kept for organizations that use none. Default: as the connection string or the pool says, or 10.
   */
  maxConnections?: number | undefined
  /**
   * Whether statements are prepared: false behind a pooler that cannot, as PgBouncer before 1.21. Default: as the connection
   * string or the pool says, or true.
   */
  prepare?: boolean | undefined
  /**
   * Whether each connection has a session of its own in the server: false behind a pooler in transaction mode. Without
   * sessions the store sets no time limits in the server, and hears no notifications of other processes. Default true.
   */
  sessions?: boolean | undefined
  /** Milliseconds after which a statement counts as unanswered. Default 5000. */
  statementTimeoutMs?: number | undefined
  /**
   * Statements of this process that may be under way or waiting at once. One more is refused at once, or takes the place of
   * a waiting statement of the organization with most of them. Default 1000.
   */
  maxPending?: number | undefined
}

/** The share of the statements of no one organization: the delivery loop's, above all. */
const OWN_WORK = Symbol('own work')

/** One row of text columns, by position. */
export type TextRow = readonly (string | null)[]

/** The columns of one row as the bytes that came, by position. */
export type ByteRow = readonly (Buffer | null)[]

/**
 * Builds a statement whose last column is `answerTag`: it tells the statement's own answer from another's. There should never
 * be another's; if there ever were, it would be one organization's data given to another.
 *
 * @param tag the text of the answer tag, for a statement of a fixed text
 */
export type BuildStatement = (sql: ISql, answerTag: Fragment, tag: string) => Statement

/** The time of a statement, in milliseconds. */
export interface StatementWait {
  /** The wait for a lock on top of the ordinary time. Default 0. */
  readonly lockMs?: number | undefined
  /** The time that the caller waits: a statement is neither begun nor finished later. Default unlimited. */
  readonly atMostMs?: number | undefined
}

/** What the slices of records need of PostgreSQL, be it in a transaction of the host's or not. */
export interface RecordDatabase {
  /**
   * Sends one statement that answers one row of text columns.
   *
   * Every statement of the store is safe to send twice, so it is sent once more when the connection was lost under it,
   * and as often as there is time for when others were in its way.
   *
   * @param share the id of the organization whose share of the connections the statement takes; null when it is for no one
   *   organization
   * @throws `BusinessApiError` with code `store_unavailable` when the database cannot be reached, does not answer in
   *   time, or too many statements are waiting
   */
  rowFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<TextRow>
  /** As {@link RecordDatabase.rowFor}, with the columns as bytes. */
  bytesFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<ByteRow>
  /** For statements that have made deliveries due. */
  readonly wakeUp: Pick<WakeUpSignal, 'signal'>
}

/** What the store's slices need of PostgreSQL. */
export interface Database extends RecordDatabase {
  /** Sends a statement of no one organization: see {@link RecordDatabase.rowFor}. */
  row(build: BuildStatement): Promise<TextRow>
  readonly wakeUp: WakeUpSignal
  /** Explains errors of statements that a host's transaction has sent. */
  readonly explain: ExplainError
  /** See `PostgresStore.beginRequest`. */
  beginRequest(): () => void
  /** See `PostgresStore.close`. */
  close(options?: CloseOptions): Promise<void>
}

/** Options of closing a store. */
export interface CloseOptions {
  /** Milliseconds to wait for the requests and statements under way; those left then are cut off. Default 4000. */
  timeoutMs?: number | undefined
}

/**
 * Talks to PostgreSQL on connections of the store's own, which the first statements open: to the database of a connection
 * string, or with the options of the host's postgres.js pool.
 *
 * @throws `TypeError` for what is neither, `RangeError` for an option out of range
 */
export function createDatabase(source: Sql | string, options: DatabaseOptions = {}): Database {
  const readable = readSource(source)
  const { prepare, sessions = true } = options
  const maxConnections = readWhole('maxConnections', options.maxConnections ?? readable.maxConnections, 10)
  const statementTimeoutMs = readWhole('statementTimeoutMs', options.statementTimeoutMs, 5000)
  const maxPending = readWhole('maxPending', options.maxPending, 1000)
  const servers = createServers(readable, { prepare, sessions, statementTimeoutMs })
  const connections = createConnections(servers, maxConnections)
  const pool = createPool(connections, createTurns(maxConnections, maxPending))
  const drain = createDrain()
  let closing: Promise<void> | undefined
  let tags = 0

  async function send(share: Share, build: BuildStatement, timeoutMs: number): Promise<ByteRow> {
    const answerTag = String(++tags)
    // Judged before the connection is used again: one that has mixed up its answers is given up.
    return await pool.run(
      share,
      (sql) => build(sql, sql`${answerTag}::text`, answerTag),
      timeoutMs,
      (rows) => readAnswer(rows, answerTag),
    )
  }

  async function sendUntil(
    share: Share,
    build: BuildStatement,
    timeoutMs: number,
    attempt = 1,
  ): Promise<ByteRow> {
    const begunAt = performance.now()
    try {
      return await send(share, build, timeoutMs)
    } catch (error) {
      const leftMs = timeoutMs - (performance.now() - begunAt)
      const hasFailedServer = isConnectionLost(error) || isReadOnlyServer(error)
      const isWorthwhile = isConflict(error) || (hasFailedServer && attempt === 1)
      if (!isWorthwhile || leftMs <= 0) throw error
      if (isConflict(error)) await sleep(Math.random() * Math.min(attempt, CONFLICT_PAUSE_MAX_MS))
      return sendUntil(share, build, leftMs, attempt + 1)
    }
  }

  const explain = createSchemaFaults(async (build) => toText(await send(OWN_WORK, build, statementTimeoutMs)))

  async function bytesFor(
    share: Share | null,
    build: BuildStatement,
    { lockMs = 0, atMostMs = Number.POSITIVE_INFINITY }: StatementWait = {},
  ): Promise<ByteRow> {
    const end = drain.beginStatement()
    try {
      return await sendUntil(share ?? OWN_WORK, build, Math.min(statementTimeoutMs + lockMs, atMostMs))
    } catch (error) {
      throw isUnavailable(error) || isConflict(error) ? unavailable(error) : await explain(error)
    } finally {
      end()
    }
  }

  async function rowFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<TextRow> {
    return toText(await bytesFor(share, build, wait))
  }

  const row = (build: BuildStatement): Promise<TextRow> => rowFor(null, build)

  // Without a commit of its own to wait for: the notification is worth nothing after a crash.
  const notify = (channel: string): Promise<unknown> =>
    row(
      (sql, answerTag) =>
        sql`select set_config('synchronous_commit', 'off', true), pg_notify(${channel}::text, '')::text, ${answerTag}`,
    )
  const wakeUp = createWakeUpSignal(notify, sessions ? servers.open : null)

  async function close(timeoutMs: number): Promise<void> {
    await drain.finish(timeoutMs)
    wakeUp.close()
    await connections.close()
  }

  return {
    rowFor,
    bytesFor,
    row,
    wakeUp,
    explain,
    beginRequest: drain.beginRequest,
    close({ timeoutMs } = {}) {
      closing ??= close(readWhole('timeoutMs', timeoutMs, CLOSE_MS, { min: 0 }))
      return closing
    },
  }
}

/**
 * The row that a statement has answered.
 *
 * @param answerTag what its last column must be
 * @throws an error that counts as a lost connection when it is another statement's
 */
export function readAnswer(rows: RawRows, answerTag: string): ByteRow {
  // In a host's transaction its pool's transform of rows is at work: most leave the columns where they are.
  const row = Object.values(rows[0] ?? [])
  if (row.at(-1)?.toString('latin1') !== answerTag) throw mixedUp()
  return row
}

/** Reads the columns of a row as text. */
export function toText(row: ByteRow): TextRow {
  return row.map((column) => column?.toString('utf8') ?? null)
}

/** As good as lost with its connection: the statement is sent once more. */
function mixedUp(): Error {
  return Object.assign(new Error('PostgreSQL gave the answer of another statement'), {
    code: 'CONNECTION_CLOSED',
  })
}

/** Longer than a request takes that is not held up. */
const CLOSE_MS = 4000

/** Enough for the statements in the way to end, and to let one of several go first. */
const CONFLICT_PAUSE_MAX_MS = 20
