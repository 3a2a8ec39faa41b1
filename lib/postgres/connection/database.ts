import type { Fragment, ISql, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { connectLike, connectTo } from './connection.ts'
import { isConflict, isConnectionLost, isUnavailable } from './driver-faults.ts'
import { createPool, type RawRows, type Statement } from './pool.ts'
import { createWakeUpSignal, type WakeUpSignal } from './wake-up-signal.ts'

/** The limits of a store's use of its database. */
export interface DatabaseOptions {
  /** Connections that the store opens at most, as they are needed. Default 10, or as many as the host's pool. */
  maxConnections?: number | undefined
  /**
   * Whether statements are prepared; false behind a transaction-mode pooler. Default true; beside a pool of the host's
   * as that pool has it.
   */
  prepare?: boolean | undefined
  /** Milliseconds after which a statement counts as unanswered. Default 5000. */
  statementTimeoutMs?: number | undefined
  /** Statements of this process that may be under way or waiting at once; one more is refused at once. Default 1000. */
  maxPending?: number | undefined
}

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

/** What the slices of records need of PostgreSQL, be it in a transaction of the host's or not. */
export interface RecordDatabase {
  /**
   * Sends one statement that answers one row of text columns.
   *
   * Every statement of the store is safe to send twice, so it is sent once more when the connection was lost under it,
   * and as often as there is time for when others were in its way.
   *
   * @param lockWaitMs how long the statement may wait for a lock on top of its ordinary time
   * @throws `BusinessApiError` with code `store_unavailable` when the database cannot be reached, does not answer in
   *   time, or too many statements are waiting
   */
  row(build: BuildStatement, lockWaitMs?: number): Promise<TextRow>
  /** As {@link RecordDatabase.row}, with the columns as bytes. */
  bytes(build: BuildStatement, lockWaitMs?: number): Promise<ByteRow>
  /** For statements that have made deliveries due. */
  readonly wakeUp: Pick<WakeUpSignal, 'signal'>
}

/** What the store's slices need of PostgreSQL. */
export interface Database extends RecordDatabase {
  readonly wakeUp: WakeUpSignal
  /** Ends the store's connections; a pool of the host's stays open. */
  close(): Promise<void>
}

/**
 * Talks to PostgreSQL on connections of the store's own, which the first statements open: to the database of a connection
 * string, or with the options of the host's postgres.js pool.
 *
 * @throws `TypeError` for what is neither, `RangeError` for an option out of range
 */
export function createDatabase(source: Sql | string, options: DatabaseOptions = {}): Database {
  checkSource(source)
  const { prepare = true, statementTimeoutMs = 5000, maxPending = 1000 } = options
  const maxConnections = options.maxConnections ?? (typeof source === 'string' ? 10 : source.options.max)
  for (const [name, value] of Object.entries({ maxConnections, statementTimeoutMs, maxPending })) {
    checkPositive(name, value)
  }
  const open =
    typeof source === 'string'
      ? connectTo(source, { prepare, statementTimeoutMs })
      : connectLike(source, { statementTimeoutMs })
  const pool = createPool(open, maxConnections)
  let pending = 0
  let tags = 0

  async function send(build: BuildStatement, timeoutMs: number): Promise<ByteRow> {
    const answerTag = String(++tags)
    // Judged before the connection is used again: one that has mixed up its answers is given up.
    return await pool.run(
      (sql) => build(sql, sql`${answerTag}::text`, answerTag),
      timeoutMs,
      (rows) => readAnswer(rows, answerTag),
    )
  }

  async function sendUntil(build: BuildStatement, timeoutMs: number, attempt = 1): Promise<ByteRow> {
    const begunAt = performance.now()
    try {
      return await send(build, timeoutMs)
    } catch (error) {
      const leftMs = timeoutMs - (performance.now() - begunAt)
      const isWorthwhile = isConflict(error) || (isConnectionLost(error) && attempt === 1)
      if (!isWorthwhile || leftMs <= 0) throw error
      if (isConflict(error)) await pause(Math.random() * Math.min(attempt, CONFLICT_PAUSE_MAX_MS))
      return sendUntil(build, leftMs, attempt + 1)
    }
  }

  async function bytes(build: BuildStatement, lockWaitMs = 0): Promise<ByteRow> {
    if (pending >= maxPending) {
      throw storeUnavailable(`Cannot use PostgreSQL as ${maxPending} statements are waiting already`)
    }
    pending++
    try {
      return await sendUntil(build, statementTimeoutMs + lockWaitMs)
    } catch (error) {
      throw isUnavailable(error) || isConflict(error)
        ? storeUnavailable('Cannot reach PostgreSQL', error)
        : error
    } finally {
      pending--
    }
  }

  async function row(build: BuildStatement, lockWaitMs = 0): Promise<TextRow> {
    return toText(await bytes(build, lockWaitMs))
  }

  // Without a commit of its own to wait for: the notification is worth nothing after a crash.
  const notify = (channel: string): Promise<unknown> =>
    row(
      (sql, answerTag) =>
        sql`select set_config('synchronous_commit', 'off', true), pg_notify(${channel}::text, '')::text, ${answerTag}`,
    )
  const hasSessions = typeof source === 'string' ? prepare : source.options.prepare
  const wakeUp = createWakeUpSignal(notify, hasSessions ? open : null)

  return {
    row,
    bytes,
    wakeUp,
    close() {
      wakeUp.close()
      return pool.close()
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

function checkSource(source: unknown): void {
  if (typeof source === 'function' && 'options' in source) return
  if (typeof source === 'string' && /^postgres(ql)?:\/\//.test(source)) return
  // The value is not repeated: a connection string holds a password.
  throw new TypeError(
    "Cannot use PostgreSQL as 'source' must be a postgres.js pool or a connection string like postgres://…",
  )
}

function checkPositive(name: string, value: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= 2 ** 31 - 1) return
  throw new RangeError(
    `Cannot use option '${name}' as it must be a whole number from 1 to 2147483647: current value is ${value}`,
  )
}

/** Enough for the statements in the way to end, and to let one of several go first. */
const CONFLICT_PAUSE_MAX_MS = 20

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
