import type { PendingQuery, Row, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { isUnavailable } from './driver-faults.ts'
import type { Share, Turns } from './turns.ts'

/** A statement under construction, to be sent. */
export type Statement = PendingQuery<Row[]>

/** The rows of a statement: bytes by position. */
export type RawRows = readonly (readonly (Buffer | null)[])[]

/** Where the store's statements go. */
export interface Pool {
  /**
   * Sends a statement and gives what `read` makes of its rows, which come as bytes: that leaves out whatever transforms and parsers a pool has.
   *
   * @param share whose share of the connections it takes
   * @throws `BusinessApiError` with code `store_unavailable` when there is no answer within `timeoutMs`
   */
  run<T>(
    share: Share,
    build: (sql: Sql) => Statement,
    timeoutMs: number,
    read: (rows: RawRows) => T,
  ): Promise<T>
  close(): Promise<void>
}

/** Opens a connection: a postgres.js pool of one, with options on top of those of every connection of the store. */
export type OpenConnection = (extra?: ExtraOptions) => Sql

/** What a connection for listening has of its own. */
export interface ExtraOptions {
  readonly onnotify: (channel: string, payload: string) => void
  readonly onclose: () => void
  readonly idle_timeout: null
  readonly max_lifetime: null
}

/**
 * The store's connections, opened as they are needed. Each connection is a postgres.js pool of one, and carries one
 * statement at a time: postgres.js has no deadline for a query, goes on using a connection that has fallen silent, sends
 * further statements behind one that waits, and can lose what it writes on a connection that was broken under it. Here
 * a connection that failed is given up whole, a statement that waits can still be withdrawn, and nothing stands behind
 * another's lock.
 */
export function createPool(open: OpenConnection, turns: Turns): Pool {
  const idle: Sql[] = []
  /** On the monotonic clock. */
  const answeredAt = new WeakMap<Sql, number>()
  const connections = new Set<Sql>()
  let isClosed = false

  /** A statement that has its turn finds a connection idle, or fewer open than there may be. */
  function acquire(): Sql {
    const connection = idle.pop() ?? open()
    connections.add(connection)
    return connection
  }

  /**
   * Gives up the idle connections that have shown no sign of life since a statement was sent that had no answer: they
   * may be as dead, and found out one by one each would cost a caller the whole of its time.
   */
  function giveUpSilent(sentAt: number): void {
    for (const connection of idle.splice(0)) {
      if ((answeredAt.get(connection) ?? 0) < sentAt) giveUp(connection)
      else idle.push(connection)
    }
  }

  function giveUp(connection: Sql): void {
    connections.delete(connection)
    // Ended at once: what it may still be doing nobody waits for, and PostgreSQL has a limit of its own.
    connection.end({ timeout: 0 }).catch(() => {})
  }

  async function send<T>(
    build: (sql: Sql) => Statement,
    timeoutMs: number,
    read: (rows: RawRows) => T,
  ): Promise<T> {
    if (isClosed) throw closed()
    const begunAt = performance.now()
    const connection = acquire()
    try {
      const answer = read(await withTimeout(build(connection).raw(), timeoutMs))
      answeredAt.set(connection, performance.now())
      idle.push(connection)
      return answer
    } catch (error) {
      if (error === TIMED_OUT) giveUpSilent(begunAt)
      if (error === TIMED_OUT || isUnavailable(error)) giveUp(connection)
      else idle.push(connection)
      throw error
    }
  }

  return {
    async run(share, build, timeoutMs, read) {
      const begunAt = performance.now()
      if (!(await turns.take(share, timeoutMs))) throw unanswered(timeoutMs)
      try {
        return await send(build, timeoutMs - (performance.now() - begunAt), read)
      } catch (error) {
        throw error === TIMED_OUT ? unanswered(timeoutMs) : error
      } finally {
        turns.end(share)
      }
    },
    async close() {
      isClosed = true
      turns.close()
      await Promise.all([...connections].map((connection) => connection.end({ timeout: DRAIN_SECONDS })))
    },
  }
}

/** How long statements under way may still take when the store is closed, in seconds. */
const DRAIN_SECONDS = 5
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

function unanswered(timeoutMs: number): Error {
  const afterMs = Math.round(timeoutMs)
  return storeUnavailable(`Cannot use PostgreSQL as a statement had no answer within ${afterMs} ms`)
}

function closed(): Error {
  return storeUnavailable('Cannot use PostgreSQL as the store is closed')
}
