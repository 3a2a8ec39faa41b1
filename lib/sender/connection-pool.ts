import type { HttpConnection, OpenConnection } from './connection.ts'
import type { Deadline } from './deadline.ts'
import { SENDER_FAILED, SendError } from './send-error.ts'

/** A sender's connections. */
export interface ConnectionPool {
  /**
   * Takes the most recently used idle connection, opens a new one, or waits until one is available.
   *
   * @throws `SendError` if the deadline passes first or the pool is closed
   */
  take(origin: string, deadline: Deadline): HttpConnection | Promise<HttpConnection>
  /** Returns a connection to the pool, whether it's still open or not. */
  giveBack(connection: HttpConnection): void
  /** Closes idle connections now, and all others after their attempt. Resolves once all are closed. Call this once. */
  close(): Promise<void>
}

interface OriginState {
  /** Number of connections, both idle and in use. */
  size: number
  /** Idle connections, most recently used last. */
  readonly idle: HttpConnection[]
  readonly waiting: ((connection: HttpConnection) => void)[]
}

/**
 * Maximum number of idle connections across all origins. Combined with the ones in use, this stays below typical open
 * file limits.
 */
const MAX_IDLE = 512

/**
 * Creates a pool that keeps connections open between attempts. We forget origins with no connections because there can
 * be thousands of endpoints that come and go.
 *
 * @param open creates a connection to an origin
 * @param maxPerOrigin maximum number of connections per origin
 */
export function createConnectionPool(open: OpenConnection, maxPerOrigin: number): ConnectionPool {
  const states = new Map<string, OriginState>()
  /** Idle connections across all origins, least recently used first. */
  const idle = new Set<HttpConnection>()
  /** All connections, including those being closed. */
  const alive = new Set<HttpConnection>()
  let isClosed = false
  let reportEmpty = () => {}

  function stateOf(origin: string): OriginState {
    let state = states.get(origin)
    if (!state) {
      state = { size: 0, idle: [], waiting: [] }
      states.set(origin, state)
    }
    return state
  }

  function add(origin: string): HttpConnection {
    const connection = open(origin, () => {
      if (idle.has(connection)) drop(connection)
    })
    stateOf(origin).size += 1
    alive.add(connection)
    return connection
  }

  function drop(connection: HttpConnection): void {
    const state = stateOf(connection.origin)
    if (idle.delete(connection)) state.idle.splice(state.idle.indexOf(connection), 1)
    state.size -= 1
    if (state.size === 0 && state.waiting.length === 0) states.delete(connection.origin)
    void connection.destroy().then(() => {
      alive.delete(connection)
      if (alive.size === 0) reportEmpty()
    })
  }

  function keep(connection: HttpConnection): void {
    stateOf(connection.origin).idle.push(connection)
    idle.add(connection)
    const [longestUnused] = idle
    if (idle.size > MAX_IDLE && longestUnused) drop(longestUnused)
  }

  function wait({ waiting }: OriginState, deadline: Deadline): Promise<HttpConnection> {
    return new Promise((resolve, reject) => {
      waiting.push(resolve)
      deadline.onEnd((error) => {
        const place = waiting.indexOf(resolve)
        if (place !== -1) waiting.splice(place, 1)
        reject(error)
      })
    })
  }

  return {
    take(origin, deadline) {
      if (isClosed) throw new SendError(SENDER_FAILED, 'the sender is closed')
      const state = stateOf(origin)
      // Use the most recent connection, since it's the least likely to be closed by the other side right now.
      const connection = state.idle.pop()
      if (connection) idle.delete(connection)
      return connection ?? (state.size < maxPerOrigin ? add(origin) : wait(state, deadline))
    },
    giveBack(connection) {
      const next = stateOf(connection.origin).waiting.shift()
      const isWanted = connection.isOpen && (next !== undefined || !isClosed)
      if (!isWanted) drop(connection)
      if (next) next(isWanted ? connection : add(connection.origin))
      else if (isWanted) keep(connection)
    },
    async close() {
      isClosed = true
      for (const connection of idle) drop(connection)
      if (alive.size === 0) return
      await new Promise<void>((resolve) => {
        reportEmpty = resolve
      })
    },
  }
}
