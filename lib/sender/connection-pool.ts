import type { Connection, OpenConnection } from './connection.ts'
import type { Deadline } from './deadline.ts'
import { SENDER_FAILED, SendError } from './send-error.ts'

/** The connections of a sender. */
export interface ConnectionPool {
  /**
   * Takes a connection: the one that was used last, a new one, or the next that becomes free.
   *
   * @throws `SendError` when the deadline comes first, or when they are closed
   */
  take(origin: string, deadline: Deadline): Connection | Promise<Connection>
  /** Gives a connection back, in whatever state it is. */
  giveBack(connection: Connection): void
  /** Closes the idle ones at once and the others when they are given back. Resolves when none is left. Called once. */
  close(): Promise<void>
}

/** The connections to one origin. */
interface OriginState {
  /** Idle or taken. */
  size: number
  /** The one used last at the end. */
  readonly idle: Connection[]
  readonly waiting: ((connection: Connection) => void)[]
}

/** Idle connections of all origins: together with those in use below what systems allow a process. */
const MAX_IDLE = 512

/**
 * Keeps connections open from one attempt to the next. An origin that nothing is connected to leaves nothing behind, as
 * endpoints come and go by the thousands.
 */
export function createConnectionPool(open: OpenConnection, maxPerOrigin: number): ConnectionPool {
  const states = new Map<string, OriginState>()
  /** Of all origins, the one unused for longest first. */
  const idle = new Set<Connection>()
  /** Also those that are being closed. */
  const alive = new Set<Connection>()
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

  function add(origin: string): Connection {
    const connection = open(origin, () => {
      if (idle.has(connection)) drop(connection)
    })
    stateOf(origin).size += 1
    alive.add(connection)
    return connection
  }

  function drop(connection: Connection): void {
    const state = stateOf(connection.origin)
    if (idle.delete(connection)) state.idle.splice(state.idle.indexOf(connection), 1)
    state.size -= 1
    if (state.size === 0 && state.waiting.length === 0) states.delete(connection.origin)
    void connection.destroy().then(() => {
      alive.delete(connection)
      if (alive.size === 0) reportEmpty()
    })
  }

  function keep(connection: Connection): void {
    stateOf(connection.origin).idle.push(connection)
    idle.add(connection)
    const [longestUnused] = idle
    if (idle.size > MAX_IDLE && longestUnused) drop(longestUnused)
  }

  function wait({ waiting }: OriginState, deadline: Deadline): Promise<Connection> {
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
      // The one used last is the least likely to be closed by the other side in this moment.
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
