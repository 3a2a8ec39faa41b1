import type { PendingQuery, Row, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import type { Connections } from './connections.ts'
import { leavesConnectionUsable } from './driver-faults.ts'
import type { Share, Turns } from './turns.ts'

/** A statement that hasn't been sent yet. */
export type Statement = PendingQuery<Row[]>

/** The rows of a result, with columns as bytes by position. */
export type RawRows = readonly (readonly (Buffer | null)[])[]

/** Statement timeouts in milliseconds. */
export interface StatementTime {
  /** Time from the call to the result, including the wait for a connection. */
  readonly timeoutMs: number
  /** Time from sending the statement to the result, for impatient callers. `Infinity` for no limit. */
  readonly answerMs: number
  /**
   * If `true`, the result has several rows. When such a statement fails, the driver adds the rows received so far to
   * the connection's next result.
   */
  readonly hasRows: boolean
}

/** Sends the store's statements. */
export interface Pool {
  /**
   * Sends a statement, passes the rows to `read`, and returns what `read` returns.
   *
   * @param share the organization whose connections are used
   * @param read called before the connection is reused. If it throws, the connection is closed
   * @throws `BusinessApiError` with code `store_unavailable` if there's no result in time or too many statements are
   * waiting
   */
  run<T>(
    share: Share,
    build: (sql: Sql) => Statement,
    time: StatementTime,
    read: (rows: RawRows) => T,
  ): Promise<T>
}

/**
 * Sends one statement at a time on each connection. A plain postgres.js pool has no query timeout, keeps using silent
 * connections, queues statements behind one that is waiting, and can lose writes on a broken connection. This pool
 * closes a connection whenever it fails, can withdraw waiting statements, and never queues a statement behind another
 * one's lock.
 */
export function createPool(connections: Connections, turns: Turns): Pool {
  /** There are as many turns as connections. */
  async function take(timeoutMs: number): Promise<Connection | null> {
    try {
      return await connections.take(timeoutMs)
    } catch (error) {
      // Connecting failed or the store is closed, so the other waiting statements won't get a connection either.
      turns.rejectWaiting(error)
      throw error
    }
  }

  async function send<T>(
    connection: Connection,
    build: (sql: Sql) => Statement,
    leftMs: number,
    time: StatementTime,
    read: (rows: RawRows) => T,
  ): Promise<T> {
    const sentAt = performance.now()
    try {
      const rows = await withDeadline(build(connection.sql).raw(), Math.min(leftMs, time.answerMs), () => {
        throw TIMED_OUT
      })
      const answer = read(rows)
      connections.giveBack(connection)
      return answer
    } catch (error) {
      if (leavesConnectionUsable(error) && !time.hasRows) connections.giveBack(connection)
      else if (leavesConnectionUsable(error)) connections.cutOff(connection)
      else if (error !== TIMED_OUT) connections.giveUp(connection, error, sentAt)
      // The server may be fine if the statement had little time left or its caller is impatient.
      else if (leftMs < time.timeoutMs / 2 || Number.isFinite(time.answerMs)) connections.cutOff(connection)
      else connections.giveUpSilent(connection, sentAt)
      throw error
    }
  }

  async function runInTurn<T>(
    build: (sql: Sql) => Statement,
    leftMs: number,
    time: StatementTime,
    read: (rows: RawRows) => T,
  ): Promise<T> {
    const begunAt = performance.now()
    const connection = connections.takeIdle() ?? (await take(leftMs))
    if (connection === null) throw TIMED_OUT
    try {
      return await send(connection, build, leftMs - (performance.now() - begunAt), time, read)
    } catch (error) {
      if (connections.isClosed)
        throw storeUnavailable('Cannot use PostgreSQL because the store was closed', error)
      throw error
    }
  }

  return {
    async run(share, build, time, read) {
      const { timeoutMs, answerMs } = time
      const begunAt = performance.now()
      if (!turns.takeNow(share) && !(await turns.take(share, timeoutMs))) throw unanswered(timeoutMs)
      try {
        return await runInTurn(build, timeoutMs - (performance.now() - begunAt), time, read)
      } catch (error) {
        throw error === TIMED_OUT ? unanswered(Math.min(timeoutMs, answerMs)) : error
      } finally {
        turns.end(share)
      }
    },
  }
}

const TIMED_OUT = Symbol('timed out')

function unanswered(timeoutMs: number): Error {
  const afterMs = Math.round(timeoutMs)
  return storeUnavailable(`Cannot use PostgreSQL because a statement got no result within ${afterMs} ms`)
}
