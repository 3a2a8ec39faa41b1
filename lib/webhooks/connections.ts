import type { Connection, OpenConnection } from './connection.ts'
import type { Deadline } from './deadline.ts'
import { SENDER_FAILED, SendError } from './send-error.ts'

/** The connections of a sender. */
export interface Connections {
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
interface Lane {
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
export function createConnections(open: OpenConnection, maxPerOrigin: number): Connections {
  const lanes = new Map<string, Lane>()
  /** Of all lanes, the one unused for longest first. */
  const idle = new Set<Connection>()
  /** Also those that are being closed. */
  const alive = new Set<Connection>()
  let isClosed = false
  let reportEmpty = () => {}

  function laneOf(origin: string): Lane {
    let lane = lanes.get(origin)
    if (!lane) {
      lane = { size: 0, idle: [], waiting: [] }
      lanes.set(origin, lane)
    }
    return lane
  }

  function add(origin: string): Connection {
    const connection = open(origin, () => {
      if (idle.has(connection)) drop(connection)
    })
    laneOf(origin).size += 1
    alive.add(connection)
    return connection
  }

  function drop(connection: Connection): void {
    const lane = laneOf(connection.origin)
    if (idle.delete(connection)) lane.idle.splice(lane.idle.indexOf(connection), 1)
    lane.size -= 1
    if (lane.size === 0 && lane.waiting.length === 0) lanes.delete(connection.origin)
    void connection.destroy().then(() => {
      alive.delete(connection)
      if (alive.size === 0) reportEmpty()
    })
  }

  function keep(connection: Connection): void {
    laneOf(connection.origin).idle.push(connection)
    idle.add(connection)
    const [longestUnused] = idle
    if (idle.size > MAX_IDLE && longestUnused) drop(longestUnused)
  }

  function wait({ waiting }: Lane, deadline: Deadline): Promise<Connection> {
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
      const lane = laneOf(origin)
      // The one used last is the least likely to be closed by the other side in this moment.
      const connection = lane.idle.pop()
      if (connection) idle.delete(connection)
      return connection ?? (lane.size < maxPerOrigin ? add(origin) : wait(lane, deadline))
    },
    giveBack(connection) {
      const next = laneOf(connection.origin).waiting.shift()
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
