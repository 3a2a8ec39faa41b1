import type { HttpConnection, OpenConnection } from './connection.ts'
import type { Deadline } from './deadline.ts'
import { SENDER_FAILED, SendError } from './send-error.ts'

/** The connections of a sender. */
export interface ConnectionPool {
  /**
   * Takes a connection: the idle connection used last, or a new connection, or the next connection that becomes free.
   *
   * @throws `SendError` when the deadline comes first, or when the pool is closed
   */
  take(origin: string, deadline: Deadline): HttpConnection | Promise<HttpConnection>
  /** Gives a connection back, open or closed. */
  giveBack(connection: HttpConnection): void
  /**
   * Closes idle connections at once, and busy connections after their attempts. Resolves when every connection is closed. Called
   * once.
   */
  close(): Promise<void>
}

/** The connections to an origin. */
interface OriginState {
  /** Idle or taken. */
  size: number
  /** The connection used last comes last. */
  readonly idle: HttpConnection[]
  readonly waiting: ((connection: HttpConnection) => void)[]
}

/**
 * The most idle connections of all origins: with the connections in use, fewer than an operating system allows a
 * process.
 */
const MAX_IDLE = 512

/**
 * Keeps connections open between attempts. An origin without connections is forgotten, because endpoints
 * come and go by the thousands.
 *
 * @param open makes a connection to an origin
 * @param maxPerOrigin connections to an origin at once
 */
export function createConnectionPool(open: OpenConnection, maxPerOrigin: number): ConnectionPool {
  const states = new Map<string, OriginState>()
  /** Idle connections of all origins, the connection unused for longest first. */
  const idle = new Set<HttpConnection>()
  /** Connections that are being closed included. */
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
      // The connection used last is the least likely to be closed by the other side at this moment.
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
