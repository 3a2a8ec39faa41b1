import type { PendingQuery, Row, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import type { Connections } from './connections.ts'
import { leavesConnectionUsable } from './driver-faults.ts'
import type { Share, Turns } from './turns.ts'

/** A built statement that has not been sent. */
export type Statement = PendingQuery<Row[]>

/** The rows of a statement: bytes by position. */
export type RawRows = readonly (readonly (Buffer | null)[])[]

/** The time that a statement has, in milliseconds. */
export interface StatementTime {
  /** From the call to the result, with the wait for a connection. */
  readonly timeoutMs: number
  /** From the sending to the result, where a caller waits for less than the ordinary time. Infinity: no such limit. */
  readonly answerMs: number
  /** True for a result of several rows: the driver counts rows that came before a failure to the next result of the connection. */
  readonly hasRows: boolean
}

/** Sends the store's statements. */
export interface Pool {
  /**
   * Sends a statement and returns the result of `read` for the statement's rows.
   *
   * @param share the organization whose connections the statement uses
   * @param read reads the rows before the connection is used again; a throw closes the connection
   * @throws `BusinessApiError` with code `store_unavailable` when there is no result in time, or too many statements wait
   */
  run<T>(
    share: Share,
    build: (sql: Sql) => Statement,
    time: StatementTime,
    read: (rows: RawRows) => T,
  ): Promise<T>
}

/**
 * Sends statements on connections with one statement at a time. A postgres.js pool has no deadline for a query, goes on using
 * a connection that has fallen silent, queues statements behind a waiting statement, and can lose writes on a broken connection.
 * This pool closes a connection after any failure of the connection, can withdraw a waiting statement, and never queues a
 * statement behind another statement's lock.
 */
export function createPool(connections: Connections, turns: Turns): Pool {
  /** Takes a connection for a turn: there are as many turns as connections. */
  async function take(timeoutMs: number): Promise<Connection | null> {
    try {
      return await connections.take(timeoutMs)
    } catch (error) {
      // No connection can be opened, or the store is closed: the other waiting statements will get no connection either.
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
      // The server may be healthy: the statement got its connection late, or its caller waited for less than the ordinary time.
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
