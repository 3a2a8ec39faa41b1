import type { PendingQuery, Row, Sql } from 'postgres'
import { storeUnavailable } from '../../base/errors.ts'
import { isUnavailable } from './driver-faults.ts'

/** A statement under construction, to be sent. */
export type Statement = PendingQuery<Row[]>

/** The rows of a statement: bytes by position. */
export type RawRows = readonly (readonly (Buffer | null)[])[]

/** Where the store's statements go. */
export interface Pool {
  /**
   * Sends a statement and gives what `read` makes of its rows, which come as bytes: that leaves out whatever transforms and parsers a pool has.
   *
   * @throws `BusinessApiError` with code `store_unavailable` when there is no answer within `timeoutMs`
   */
  run<T>(build: (sql: Sql) => Statement, timeoutMs: number, read: (rows: RawRows) => T): Promise<T>
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
export function createPool(open: OpenConnection, maxConnections: number): Pool {
  const idle: Sql[] = []
  /** On the monotonic clock. */
  const answeredAt = new WeakMap<Sql, number>()
  const connections = new Set<Sql>()
  const waiting: ((sql: Sql | undefined) => void)[] = []
  let isClosed = false

  async function acquire(timeoutMs: number): Promise<Sql> {
    const connection = idle.pop() ?? openOne() ?? (await wait(timeoutMs))
    if (connection === undefined || isClosed) throw closed()
    return connection
  }

  function openOne(): Sql | undefined {
    if (isClosed || connections.size >= maxConnections) return undefined
    const connection = open()
    connections.add(connection)
    return connection
  }

  async function wait(timeoutMs: number): Promise<Sql | undefined> {
    let waiter: (sql: Sql | undefined) => void = () => {}
    const turn = new Promise<Sql | undefined>((resolve) => {
      waiter = resolve
      waiting.push(resolve)
    })
    try {
      return await withTimeout(turn, timeoutMs)
    } catch (error) {
      const place = waiting.indexOf(waiter)
      if (place !== -1) waiting.splice(place, 1)
      // Its turn came in the same moment: somebody else can have it.
      else void turn.then((connection) => connection && release(connection))
      throw error
    }
  }

  function release(connection: Sql): void {
    const next = waiting.shift()
    if (next) next(connection)
    else idle.push(connection)
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
    const next = waiting.shift()
    if (next) next(openOne())
  }

  return {
    async run(build, timeoutMs, read) {
      if (isClosed) throw closed()
      const begunAt = performance.now()
      let connection: Sql | undefined
      try {
        connection = await acquire(timeoutMs)
        const rows = await withTimeout(build(connection).raw(), timeoutMs - (performance.now() - begunAt))
        const answer = read(rows)
        answeredAt.set(connection, performance.now())
        release(connection)
        return answer
      } catch (error) {
        if (connection && error === TIMED_OUT) giveUpSilent(begunAt)
        if (connection && (error === TIMED_OUT || isUnavailable(error))) giveUp(connection)
        else if (connection) release(connection)
        throw error === TIMED_OUT ? unanswered(timeoutMs) : error
      }
    },
    async close() {
      isClosed = true
      for (const waiter of waiting.splice(0)) waiter(undefined)
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
