import postgres, { type Sql } from 'postgres'
import { storeUnavailable } from '../errors.ts'

/** Where the store's statements go. */
export interface Pool {
  /** The postgres.js pool for the next statement. */
  sql(): Sql
  /** Hears that a statement sent on `sql` at `sentAt` had no answer in time. */
  unanswered(sql: Sql, sentAt: number): void
  close(): Promise<void>
}

/** A pool of the host's: how its connections behave is the host's to configure, and it is never ended here. */
export function createHostPool(sql: Sql): Pool {
  return { sql: () => sql, unanswered: () => {}, close: async () => {} }
}

/** What a pool of the store's own needs to know. */
export interface OwnPoolOptions {
  readonly maxConnections: number
  readonly prepare: boolean
  readonly statementTimeoutMs: number
}

/** A pool that is slow rather than dead is not made better by replacing it again and again. */
const REPLACE_AT_MOST_EVERY_MS = 5000
/** How long statements under way on a replaced pool may still take, in seconds. */
const DRAIN_SECONDS = 5
/** On top of a statement's time here: the longest wait for an idempotency key, so that the database ends it last. */
const SERVER_TIMEOUT_EXTRA_MS = 5000

/**
 * A pool of the store's own, opened by the first statement. postgres.js has no deadline for a query and keeps using a
 * connection that no longer answers, so the pool as a whole is replaced when a statement got no answer: what is under
 * way on the old one may end, and everything new goes to fresh connections.
 */
export function createOwnPool(url: string, options: OwnPoolOptions): Pool {
  let current: Sql | undefined
  let openedAt = 0
  let isClosed = false
  const ending = new Set<Promise<void>>()

  function end(sql: Sql): void {
    const ended = sql.end({ timeout: DRAIN_SECONDS }).finally(() => ending.delete(ended))
    ending.add(ended)
  }

  return {
    sql() {
      if (isClosed) throw storeUnavailable('Cannot use PostgreSQL as the store is closed')
      if (current === undefined) {
        openedAt = performance.now()
        current = open(url, options)
      }
      return current
    },
    unanswered(sql, sentAt) {
      const isFresh = openedAt > sentAt || performance.now() - openedAt < REPLACE_AT_MOST_EVERY_MS
      if (sql !== current || isFresh || isClosed) return
      current = undefined
      end(sql)
    },
    async close() {
      isClosed = true
      if (current) end(current)
      await Promise.all(ending)
    },
  }
}

function open(url: string, { maxConnections, prepare, statementTimeoutMs }: OwnPoolOptions): Sql {
  return postgres(url, {
    max: maxConnections,
    prepare,
    // Without this postgres.js asks for the array types first, on every connection, and can hang when that one dies.
    fetch_types: false,
    connect_timeout: 5,
    // The default waits up to 20 s between attempts: too long to notice that a database is back.
    backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, 1),
    onnotice: () => {},
    connection: {
      application_name: 'business-api',
      // A pooler refuses parameters that it does not know; what matters most is set in the statements too.
      ...(prepare ? serverSettings(statementTimeoutMs) : {}),
    },
  })
}

/** A statement whose caller is gone would otherwise wait for its lock for ever, on a connection that nobody ends. */
function serverSettings(statementTimeoutMs: number): Record<string, string | number> {
  return {
    statement_timeout: statementTimeoutMs + SERVER_TIMEOUT_EXTRA_MS,
    default_transaction_isolation: 'read committed',
  }
}
