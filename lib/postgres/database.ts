import postgres, { type PendingQuery, type Row, type Sql } from 'postgres'
import { storeUnavailable } from '../errors.ts'
import { isConnectionLost, isUnavailable } from './sql-states.ts'

/** The limits of a store's use of its database. */
export interface DatabaseOptions {
  /** Connections of a pool that the store opens itself; ignored for a pool of the host's. Default 10. */
  maxConnections?: number
  /** Whether statements are prepared; false behind a transaction-mode pooler. Ignored for a pool of the host's. Default true. */
  prepare?: boolean
  /** Milliseconds after which a statement counts as unanswered. Default 5000. */
  statementTimeoutMs?: number
  /** Statements of this process that may be under way or waiting at once; one more is refused at once. Default 1000. */
  maxPending?: number
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
   * Every statement of the store is safe to send twice, so it is sent once more when the connection was lost under it.
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
 */
export function createDatabase(source: Sql | string, options: DatabaseOptions = {}): Database {
  const { statementTimeoutMs = 5000, maxPending = 1000 } = options
  const pool = typeof source === 'string' ? createOwnPool(source, options) : createHostPool(source)
  let pending = 0

  async function send(statement: (sql: Sql) => Statement, timeoutMs: number): Promise<TextRow> {
    const sql = pool.sql()
    const sentAt = performance.now()
    try {
      return readRow(await withTimeout(statement(sql).raw(), timeoutMs))
    } catch (error) {
      if (error === TIMED_OUT) {
        pool.unanswered(sql, sentAt)
        throw storeUnavailable(`Cannot use PostgreSQL as a statement had no answer within ${timeoutMs} ms`)
      }
      throw error
    }
  }

  return {
    async row(statement, lockWaitMs = 0) {
      const timeoutMs = statementTimeoutMs + lockWaitMs
      if (pending >= maxPending) {
        throw storeUnavailable(`Cannot use PostgreSQL as ${maxPending} statements are waiting already`)
      }
      pending++
      try {
        return await send(statement, timeoutMs).catch((error) => {
          if (isConnectionLost(error)) return send(statement, timeoutMs)
          throw error
        })
      } catch (error) {
        throw isUnavailable(error) ? storeUnavailable('Cannot reach PostgreSQL', error) : error
      } finally {
        pending--
      }
    },
    close: () => pool.close(),
  }
}

const TIMED_OUT = Symbol('timed out')

async function withTimeout<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(reject, timeoutMs, TIMED_OUT)
  })
  // Once the time is up nobody waits for the answer any more; its failure must not count as unhandled.
  answer.catch(() => {})
  try {
    return await Promise.race([answer, timeout])
  } finally {
    clearTimeout(timer)
  }
}

/** Reading bytes by position leaves out whatever transforms and parsers a host has configured for its own queries. */
function readRow(rows: readonly (readonly (Buffer | null)[])[]): TextRow {
  const row = rows[0]
  if (row === undefined) throw new TypeError('Cannot read the answer of a statement as it has no row')
  return row.map((column) => column?.toString('utf8') ?? null)
}

// --- Pools ---

interface Pool {
  sql(): Sql
  /** Hears that a statement sent at `sentAt` had no answer in time. */
  unanswered(sql: Sql, sentAt: number): void
  close(): Promise<void>
}

/** How its connections behave is the host's to configure. */
function createHostPool(sql: Sql): Pool {
  return { sql: () => sql, unanswered: () => {}, close: async () => {} }
}

/** A connection that dies silently keeps its place in the pool and loses what is sent on it: see `unanswered`. */
const REPLACE_AT_MOST_EVERY_MS = 5000
/** How long statements under way on a replaced pool may still take, in seconds. */
const DRAIN_SECONDS = 5

/**
 * A pool of the store's own. postgres.js has no deadline for a query and pipelines further queries onto a connection
 * that no longer answers, so the pool as a whole is replaced when a statement got no answer: what is under way on the
 * old one may end, and everything new goes to fresh connections.
 */
function createOwnPool(url: string, { maxConnections = 10, prepare = true }: DatabaseOptions): Pool {
  let current: Sql | undefined
  let openedAt = 0
  let closed = false

  function open(): Sql {
    openedAt = performance.now()
    return postgres(url, {
      max: maxConnections,
      prepare,
      // Without this postgres.js asks for the array types first, on every connection, and can hang when that one dies.
      fetch_types: false,
      connect_timeout: 5,
      // The default waits up to 20 s between attempts: too long to notice that a database is back.
      backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, 1),
      onnotice: () => {},
      connection: { application_name: 'business-api' },
    })
  }

  return {
    sql() {
      if (closed) throw storeUnavailable('Cannot use PostgreSQL as the store is closed')
      current ??= open()
      return current
    },
    unanswered(sql, sentAt) {
      const isFresh = openedAt > sentAt || performance.now() - openedAt < REPLACE_AT_MOST_EVERY_MS
      if (sql !== current || isFresh || closed) return
      current = undefined
      void sql.end({ timeout: DRAIN_SECONDS })
    },
    async close() {
      closed = true
      await current?.end({ timeout: DRAIN_SECONDS })
    },
  }
}
