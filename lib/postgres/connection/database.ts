import type { Fragment, ISql, Sql } from 'postgres'
import { type Names, readFlag, readTimeout, readWhole, rejectUnknown } from '../../base/options.ts'
import { sleep } from '../../base/time.ts'
import type { ConnectionUse } from '../../business-store.ts'
import { createSchemaFaults, type ExplainError } from '../schema/schema-fault.ts'
import { ifHereIn } from '../statements/here.ts'
import { createConnections } from './connections.ts'
import { createDrain } from './drain.ts'
import {
  isConflict,
  isConnectionLost,
  isReadOnlyServer,
  isUnavailable,
  unavailable,
} from './driver-faults.ts'
import { createPool, type RawRows, type Statement, type StatementTime } from './pool.ts'
import { createServers } from './servers.ts'
import { readSource } from './source.ts'
import { createTurns, type Share } from './turns.ts'
import { createWakeUpSignal, type WakeUpSignal } from './wake-up-signal.ts'

// Longer than 250 lines: the way of a statement, with its turn, deadline and retries, is read as a whole.

/** Options of a store for connections and statements. */
export interface DatabaseOptions {
  /**
   * Maximum number of connections, which the store opens on demand. From 4 on, one organization uses at most half of the
   * connections, and a quarter is kept for organizations without one. Default: `max` of the connection string or the pool, or
   * 10.
   */
  maxConnections?: number | undefined
  /**
   * Prepares statements. Set false behind a pooler that cannot prepare statements (PgBouncer before 1.21). Default: `prepare`
   * of the connection string or the pool, or true.
   */
  prepare?: boolean | undefined
  /**
   * True if each connection has a session of its own in the server; set false behind a pooler in transaction mode. Without
   * sessions the store sets no time limits in the server, and gets no notifications of other processes. Default true.
   */
  sessions?: boolean | undefined
  /** Milliseconds after which a statement counts as unanswered. Default 5000. */
  statementTimeoutMs?: number | undefined
  /**
   * Maximum number of statements under way or waiting in this process. Another statement is rejected at once, or displaces a waiting
   * one of the organization with the most. As many requests may wait for a batch besides. Default 1000.
   */
  maxPending?: number | undefined
}

/** The share of statements that belong to no single organization, above all those of the delivery loop. */
const OWN_WORK = Symbol('own work')

/** One row of text columns, by position. */
export type TextRow = readonly (string | null)[]

/** The columns of one row as received bytes, by position. */
export type ByteRow = readonly (Buffer | null)[]

/**
 * Builds a statement with the answer tag as the last column. The tag proves that a result belongs to the statement: a driver
 * that mixed up two answers would otherwise give the data of one organization to another.
 *
 * The columns before the tag have names that differ, because many drivers of hosts give a row by name. Each is a string.
 *
 * @param answerTag the tag as text
 */
export type BuildTagged = (sql: ISql, answerTag: string) => Statement

/** Does the same as {@link BuildTagged} with the template. @param answerTag the last column as a fragment */
export type BuildStatement = (sql: ISql, answerTag: Fragment) => Statement

/**
 * Puts the answer tag into a statement that is built with the template.
 *
 * @param share of an organization: the statement fails if the organization has moved to another shard
 */
export function withTagColumn(build: BuildStatement, share: Share | null): BuildTagged {
  return (sql, answerTag) => {
    const tag = sql`${answerTag}::text`
    const checked = typeof share === 'string' ? ifHereIn(sql, share, tag) : tag
    // A unique name, because many drivers return rows as objects.
    return build(sql, sql`${checked} as answer_tag`)
  }
}

/** The time of a statement, in milliseconds. */
export interface StatementWait {
  /** The wait for a lock on top of the ordinary time. Default 0. */
  readonly lockMs?: number | undefined
  /** The time for which the caller waits: the store gives up the statement then. Default unlimited. */
  readonly atMostMs?: number | undefined
  /**
   * Response timeout, in ms. On timeout the connection is closed, but the server is not marked as failed.
   * Default unlimited.
   */
  readonly answerMs?: number | undefined
  /** True for a statement that must not be sent again when its result was lost. */
  readonly isOnce?: boolean | undefined
}

/** PostgreSQL for the slices of records: on the store's own connections, or in a transaction of the host. */
export interface RecordDatabase {
  /**
   * Sends a statement and returns the only row of the result, as text columns.
   *
   * Nearly every statement of the store is safe to repeat. After a lost connection the statement is sent once more; after a conflict
   * with another transaction, again and again until its time is over.
   *
   * @param share the organization whose connections the statement uses; null for none
   * @throws `BusinessApiError` with code `store_unavailable` when the database cannot be reached, does not respond in
   *   time, or too many statements are waiting
   */
  rowFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<TextRow>
  /** Does the same as {@link RecordDatabase.rowFor} with a statement of a fixed text, and returns the columns as bytes. */
  bytesFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<ByteRow>
  /** Wakes the delivery loops after a statement that made deliveries due. */
  readonly wakeUp: Pick<WakeUpSignal, 'signal'>
}

/** PostgreSQL for all slices of the store. */
export interface Database extends RecordDatabase {
  /** Sends a statement that belongs to no single organization: see {@link RecordDatabase.rowFor}. */
  row(build: BuildStatement): Promise<TextRow>
  /**
   * Does the same as {@link RecordDatabase.bytesFor} with a statement that returns several rows, each with the answer tag. The
   * connection is closed after a failure, because the driver counts the rows that came before the failure to its next result.
   */
  rowsFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<readonly ByteRow[]>
  readonly limits: DatabaseLimits
  readonly wakeUp: WakeUpSignal
  /** Explains errors of statements that ran in a transaction of the host. */
  readonly explain: ExplainError
  /** See `PostgresStore.beginRequest`. */
  beginRequest(): () => void
  /** See `BusinessApiStore.connectionUse`. */
  connectionUse(): ConnectionUse
  /** See `PostgresStore.close`. */
  close(options?: CloseOptions): Promise<void>
}

/** The options of a database that limit the statements that wait; see {@link DatabaseOptions}. */
export interface DatabaseLimits {
  readonly maxConnections: number
  readonly maxPending: number
  readonly statementTimeoutMs: number
}

/** Options of closing a store. */
export interface CloseOptions {
  /** Milliseconds to wait for the requests and statements under way; the rest is cut off. Default 4000. */
  timeoutMs?: number | undefined
}

/** The names of {@link DatabaseOptions}. */
export const DATABASE_NAMES: Names<DatabaseOptions> = {
  maxConnections: true,
  prepare: true,
  sessions: true,
  statementTimeoutMs: true,
  maxPending: true,
}

/**
 * Talks to PostgreSQL on the store's own connections, which the first statements open: to the database of a connection
 * string, or with the options of the host's postgres.js pool.
 *
 * @throws `TypeError` for a source that is neither a connection string nor a pool; `RangeError` for an option out of range
 */
export function createDatabase(source: Sql | string, options: DatabaseOptions = {}): Database {
  rejectUnknown(options, DATABASE_NAMES)
  const readable = readSource(source)
  const prepare = options.prepare === undefined ? undefined : readFlag('prepare', options.prepare)
  const sessions = readFlag('sessions', options.sessions, !readable.isTransactionPooled)
  const maxConnections = readWhole('maxConnections', options.maxConnections ?? readable.maxConnections, 10)
  const statementTimeoutMs = readWhole('statementTimeoutMs', options.statementTimeoutMs, 5000)
  const maxPending = readWhole('maxPending', options.maxPending, 1000)
  const servers = createServers(readable, { prepare, sessions, statementTimeoutMs })
  const connections = createConnections(servers, maxConnections)
  const turns = createTurns(maxConnections, maxPending)
  const pool = createPool(connections, turns)
  const drain = createDrain()
  let closing: Promise<void> | undefined
  let tags = 0

  async function send(share: Share, build: BuildTagged, time: StatementTime): Promise<readonly ByteRow[]> {
    const answerTag = String(++tags)
    // The tag is checked before the connection is used again: a connection with mixed-up answers is closed.
    return await pool.run(
      share,
      (sql) => build(sql, answerTag),
      time,
      (rows) => readAnswers(rows, answerTag),
    )
  }

  async function sendUntil(
    share: Share,
    build: BuildTagged,
    time: StatementTime,
    mayRepeat: boolean,
    attempt = 1,
  ): Promise<readonly ByteRow[]> {
    const begunAt = performance.now()
    try {
      return await send(share, build, time)
    } catch (error) {
      const leftMs = time.timeoutMs - (performance.now() - begunAt)
      const hasFailedServer = isConnectionLost(error) || isReadOnlyServer(error)
      const isWorthwhile = isConflict(error) || (hasFailedServer && mayRepeat && attempt === 1)
      if (!isWorthwhile || leftMs <= 0) throw error
      if (isConflict(error)) await sleep(Math.random() * Math.min(attempt, CONFLICT_PAUSE_MAX_MS))
      return sendUntil(share, build, { ...time, timeoutMs: leftMs }, mayRepeat, attempt + 1)
    }
  }

  const explain = createSchemaFaults(async (build) => {
    const time = { timeoutMs: statementTimeoutMs, answerMs: UNLIMITED, hasRows: false }
    return toText(onlyRow(await send(OWN_WORK, withTagColumn(build, null), time)))
  })

  async function ask(
    share: Share | null,
    build: BuildTagged,
    { lockMs = 0, atMostMs = UNLIMITED, answerMs = UNLIMITED, isOnce = false }: StatementWait = {},
    hasRows = false,
  ): Promise<readonly ByteRow[]> {
    const end = drain.beginStatement()
    try {
      return await sendUntil(
        share ?? OWN_WORK,
        build,
        { timeoutMs: Math.min(statementTimeoutMs + lockMs, atMostMs), answerMs, hasRows },
        !isOnce,
      )
    } catch (error) {
      throw isUnavailable(error) || isConflict(error) ? unavailable(error) : await explain(error)
    } finally {
      end()
    }
  }

  async function bytesFor(share: Share | null, build: BuildTagged, wait?: StatementWait): Promise<ByteRow> {
    return onlyRow(await ask(share, build, wait))
  }

  async function rowFor(share: Share | null, build: BuildStatement, wait?: StatementWait): Promise<TextRow> {
    return toText(await bytesFor(share, withTagColumn(build, share), wait))
  }

  const row = (build: BuildStatement): Promise<TextRow> => rowFor(null, build)

  // synchronous_commit off: the statement need not wait for the disk, because after a crash a notification is worth nothing.
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
    rowsFor: (share, build, wait) => ask(share, build, wait, true),
    limits: { maxConnections, maxPending, statementTimeoutMs },
    wakeUp,
    explain,
    beginRequest: drain.beginRequest,
    connectionUse: turns.use,
    close(options) {
      const timeoutMs = readTimeout(options, CLOSE_MS)
      closing ??= close(timeoutMs)
      return closing
    },
  }
}

/**
 * Reads the rows of a statement's result.
 *
 * @param answerTag the required value of the last column
 * @throws an error that counts as a lost connection when the result belongs to another statement
 */
export function readAnswers(rows: RawRows, answerTag: string): readonly ByteRow[] {
  // In a transaction of the host, the pool's `transform` may change a row: almost every transform keeps the order of columns.
  // The driver leaves holes before the rows of a result that follows a failure after some rows.
  const answers = Array.from(rows, (row) => Object.values(row ?? []))
  if (answers.length === 0 || answers.some((row) => row.at(-1)?.toString('latin1') !== answerTag))
    throw mixedUp()
  return answers
}

/** Returns the row of a statement that returns a single row. */
export function onlyRow(rows: readonly ByteRow[]): ByteRow {
  return rows[0] as ByteRow
}

/** Reads the columns of a row as text. */
export function toText(row: ByteRow): TextRow {
  return row.map((column) => column?.toString('utf8') ?? null)
}

/** Creates the error for a result of another statement. The code of a lost connection has the statement sent once more. */
function mixedUp(): Error {
  return Object.assign(new Error('PostgreSQL returned the result of another statement'), {
    code: 'CONNECTION_CLOSED',
  })
}

const UNLIMITED = Number.POSITIVE_INFINITY

/** Default timeout of a close, in ms: longer than an unobstructed request takes. */
const CLOSE_MS = 4000

/** Greatest pause after a conflict, in milliseconds. Pauses are random, so statements in conflict do not meet again. */
const CONFLICT_PAUSE_MAX_MS = 20
