import type { PendingQuery, Row, Sql } from 'postgres'
import { storeUnavailable } from '../errors.ts'
import { createHostPool, createOwnPool } from './pool.ts'
import { isConflict, isConnectionLost, isUnavailable } from './sql-states.ts'

/** The limits of a store's use of its database. */
export interface DatabaseOptions {
  /** Connections of a pool that the store opens itself; ignored for a pool of the host's. Default 10. */
  maxConnections?: number | undefined
  /**
   * Whether statements are prepared; false behind a transaction-mode pooler. Ignored for a pool of the host's. Default
   * true.
   */
  prepare?: boolean | undefined
  /** Milliseconds after which a statement counts as unanswered. Default 5000. */
  statementTimeoutMs?: number | undefined
  /** Statements of this process that may be under way or waiting at once; one more is refused at once. Default 1000. */
  maxPending?: number | undefined
}

/** One row of text columns, by position. */
export type TextRow = readonly (string | null)[]

/** A statement under construction, to be sent. */
export type Statement = PendingQuery<Row[]>

/** What the store's slices need of PostgreSQL. */
export interface Database {
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
  row(statement: (sql: Sql) => Statement, lockWaitMs?: number): Promise<TextRow>
  /** Ends a pool that the store opened itself; a pool of the host's stays open. */
  close(): Promise<void>
}

/**
 * Talks to PostgreSQL through the host's own postgres.js pool, or through one of its own made from a connection string,
 * which is opened by the first statement.
 *
 * @throws `TypeError` for what is neither, `RangeError` for an option out of range
 */
export function createDatabase(source: Sql | string, options: DatabaseOptions = {}): Database {
  const { maxConnections = 10, prepare = true, statementTimeoutMs = 5000, maxPending = 1000 } = options
  checkSource(source)
  for (const [name, value] of Object.entries({ maxConnections, statementTimeoutMs, maxPending })) {
    checkPositive(name, value)
  }
  const pool =
    typeof source === 'string'
      ? createOwnPool(source, { maxConnections, prepare, statementTimeoutMs })
      : createHostPool(source)
  let pending = 0

  async function send(statement: (sql: Sql) => Statement, timeoutMs: number): Promise<TextRow> {
    const sql = pool.sql()
    const sentAt = performance.now()
    const query = statement(sql).raw()
    pending++
    // Counted until it has really ended: one that nobody waits for any more still takes its place in the queue.
    query.then(settled, settled)
    try {
      return readRow(await withTimeout(query, timeoutMs))
    } catch (error) {
      if (error !== TIMED_OUT) throw error
      withdraw(query)
      pool.unanswered(sql, sentAt)
      throw storeUnavailable(`Cannot use PostgreSQL as a statement had no answer within ${timeoutMs} ms`)
    }
  }

  function settled(): void {
    pending--
  }

  async function sendUntil(
    statement: (sql: Sql) => Statement,
    timeoutMs: number,
    attempt = 1,
  ): Promise<TextRow> {
    const begunAt = performance.now()
    try {
      return await send(statement, timeoutMs)
    } catch (error) {
      const leftMs = timeoutMs - (performance.now() - begunAt)
      const isWorthwhile = isConflict(error) || (isConnectionLost(error) && attempt === 1)
      if (!isWorthwhile || leftMs <= 0) throw error
      if (isConflict(error)) await pause(Math.random() * Math.min(attempt, CONFLICT_PAUSE_MAX_MS))
      return sendUntil(statement, leftMs, attempt + 1)
    }
  }

  return {
    async row(statement, lockWaitMs = 0) {
      if (pending >= maxPending) {
        throw storeUnavailable(`Cannot use PostgreSQL as ${maxPending} statements are waiting already`)
      }
      try {
        return await sendUntil(statement, statementTimeoutMs + lockWaitMs)
      } catch (error) {
        throw isUnavailable(error) ? storeUnavailable('Cannot reach PostgreSQL', error) : error
      }
    },
    close: () => pool.close(),
  }
}

function checkSource(source: unknown): void {
  if (typeof source === 'function') return
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

const TIMED_OUT = Symbol('timed out')

async function withTimeout<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(reject, timeoutMs, TIMED_OUT)
  })
  try {
    return await Promise.race([answer, timeout])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Takes a statement that has not been sent yet out of the pool's queue, so that it does not run when its caller has long
 * had an answer. For one that has been sent postgres.js would open a connection to cancel it, and a failure of that
 * connection would be an unhandled rejection.
 */
function withdraw(query: { cancel(): void }): void {
  const isSent = 'state' in query && Boolean(query.state)
  if (!isSent) query.cancel()
}

/** Reading bytes by position leaves out whatever transforms and parsers a host has configured for its own queries. */
function readRow(rows: readonly (readonly (Buffer | null)[])[]): TextRow {
  const row = rows[0]
  if (row === undefined) throw new TypeError('Cannot read the answer of a statement as it has no row')
  return row.map((column) => column?.toString('utf8') ?? null)
}
