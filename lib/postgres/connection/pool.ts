import type { PendingQuery, Row, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import type { Connections } from './connections.ts'
import { leavesConnectionUsable } from './driver-faults.ts'
import type { Share, Turns } from './turns.ts'

/** A statement under construction, to be sent. */
export type Statement = PendingQuery<Row[]>

/** The rows of a statement: bytes by position. */
export type RawRows = readonly (readonly (Buffer | null)[])[]

/** Where the store's statements go. */
export interface Pool {
  /**
   * Sends a statement and gives what `read` makes of its rows, which come as bytes.
   *
   * @param share the organization whose share of the connections the statement takes
   * @throws `BusinessApiError` with code `store_unavailable` when there is no answer within `timeoutMs`, or too many
   *   statements wait
   */
  run<T>(
    share: Share,
    build: (sql: Sql) => Statement,
    timeoutMs: number,
    read: (rows: RawRows) => T,
  ): Promise<T>
}

/**
 * Sends statements on connections that carry one statement at a time: postgres.js has no deadline for a query, goes on
 * using a connection that has fallen silent, sends further statements behind one that waits, and can lose what it writes on
 * a connection that was broken under it. Here a connection that failed is given up whole, a statement that waits can still
 * be withdrawn, and nothing stands behind another's lock.
 */
export function createPool(connections: Connections, turns: Turns): Pool {
  /** Takes a connection, of which there is one for each turn. */
  async function take(timeoutMs: number): Promise<Connection | null> {
    try {
      return await connections.take(timeoutMs)
    } catch (error) {
      // No connection can be opened, or the store is closed: no other statement will get one either.
      turns.rejectWaiting(error)
      throw error
    }
  }

  async function send<T>(
    connection: Connection,
    build: (sql: Sql) => Statement,
    timeoutMs: number,
    wholeMs: number,
    read: (rows: RawRows) => T,
  ): Promise<T> {
    const sentAt = performance.now()
    try {
      const rows = await withDeadline(build(connection.sql).raw(), timeoutMs, () => {
        throw TIMED_OUT
      })
      const answer = read(rows)
      connections.giveBack(connection)
      return answer
    } catch (error) {
      if (leavesConnectionUsable(error)) connections.giveBack(connection)
      else if (error !== TIMED_OUT) connections.giveUp(connection, error, sentAt)
      // A statement that got its turn late had no time for an answer: it tells nothing of the server.
      else if (timeoutMs < wholeMs / 2) connections.cutOff(connection)
      else connections.giveUpSilent(connection, sentAt)
      throw error
    }
  }

  async function runInTurn<T>(
    build: (sql: Sql) => Statement,
    timeoutMs: number,
    wholeMs: number,
    read: (rows: RawRows) => T,
  ): Promise<T> {
    const begunAt = performance.now()
    const connection = await take(timeoutMs)
    if (connection === null) throw TIMED_OUT
    try {
      return await send(connection, build, timeoutMs - (performance.now() - begunAt), wholeMs, read)
    } catch (error) {
      if (connections.isClosed) throw storeUnavailable('Cannot use PostgreSQL as the store was closed', error)
      throw error
    }
  }

  return {
    async run(share, build, timeoutMs, read) {
      const begunAt = performance.now()
      if (!(await turns.take(share, timeoutMs))) throw unanswered(timeoutMs)
      try {
        return await runInTurn(build, timeoutMs - (performance.now() - begunAt), timeoutMs, read)
      } catch (error) {
        throw error === TIMED_OUT ? unanswered(timeoutMs) : error
      } finally {
        turns.end(share)
      }
    },
  }
}

const TIMED_OUT = Symbol('timed out')

function unanswered(timeoutMs: number): Error {
  const afterMs = Math.round(timeoutMs)
  return storeUnavailable(`Cannot use PostgreSQL as a statement had no answer within ${afterMs} ms`)
}
