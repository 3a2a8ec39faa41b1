import { setMaxListeners } from 'node:events'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import { createDialBackoff } from './dial-backoff.ts'
import { isConnectionLost, isReadOnlyServer, openFailure } from './driver-faults.ts'
import type { Servers } from './servers.ts'

// The file and createConnections() are long: one closure holds the state that taking, opening and closing read and change.

/** The open connections of a store, each taken by one statement at a time. */
export interface Connections {
  /** Takes an idle connection; undefined without one. */
  takeIdle(): Connection | undefined
  /**
   * Takes an idle connection, or waits until one is free or opened.
   *
   * @returns null when no connection was free within `timeoutMs`
   * @throws the failure of the opening; `BusinessApiError` with code `store_unavailable` when the connections are closed
   */
  take(timeoutMs: number): Promise<Connection | null>
  /** Gives back a connection that has answered. */
  giveBack(connection: Connection): void
  /**
   * Closes a connection after the failure of a statement. If the connection was lost or the server has become read-only, the
   * idle connections are probably affected too, and are closed as well.
   *
   * @param sentAt time of sending the statement, on the monotonic clock
   */
  giveUp(connection: Connection, error: unknown, sentAt: number): void
  /**
   * Closes a connection that has not responded, and all idle connections without a result since `sentAt`: another statement on
   * such a connection would probably wait in vain until its deadline.
   *
   * @param sentAt time of sending the unanswered statement, on the monotonic clock
   */
  giveUpSilent(connection: Connection, sentAt: number): void
  /** Closes a connection because its statement ran out of time, without blaming the server. */
  cutOff(connection: Connection): void
  readonly isClosed: boolean
  /** Rejects waiting callers and statements under way, and closes the connections, in half a second at most. */
  close(): Promise<void>
}

/**
 * Opens connections on demand, up to a limit. A caller gets the first connection that becomes free, whether newly opened or
 * given back. After a failure connections are opened one at a time, with a growing pause in between: without the pause, a server
 * that accepts connections and closes them at once would be dialled thousands of times a second.
 */
export function createConnections(servers: Servers, maxConnections: number): Connections {
  const idle: Connection[] = []
  /** Time of the last result, on the monotonic clock. */
  const answeredAt = new WeakMap<Connection, number>()
  const endsAt = new WeakMap<Connection, number>()
  const connections = new Set<Connection>()
  const waiting = new Set<WaitingStatement>()
  const backoff = createDialBackoff()
  const closing = new AbortController()
  // Each connection that is being opened listens, which Node takes for a leak from the eleventh on.
  setMaxListeners(0, closing.signal)
  let dials = 0
  /** Time of the last read-only failure, on the monotonic clock: older connections may lead to a server that cannot write. */
  let readOnlyAt = 0
  let nextDial: NodeJS.Timeout | undefined

  // --- Connections are taken and given back ---

  async function wait(timeoutMs: number): Promise<Connection | null> {
    let leave = (): boolean => false
    const turn = new Promise<Connection>((resolve, reject) => {
      const waiter = { resolve, reject }
      leave = () => waiting.delete(waiter)
      waiting.add(waiter)
    })
    dial()
    return withDeadline(turn, timeoutMs, () => {
      // A connection came at the same moment as the timeout: another caller gets the connection.
      if (!leave()) turn.then(release, () => {})
      return null
    })
  }

  function release(connection: Connection): void {
    if (!connections.has(connection)) return
    const [next] = waiting
    if (performance.now() > (endsAt.get(connection) ?? 0) || connection.openedAt < readOnlyAt)
      retire(connection)
    else if (next === undefined) keepIdle(connection)
    else if (waiting.delete(next)) next.resolve(connection)
  }

  function keepIdle(connection: Connection): void {
    connection.setActive(false)
    idle.push(connection)
    closeWhenUnused(connection)
  }

  /** Rejects all waiting callers if no connection is open or being opened: a wait for the next dial would only delay the error. */
  function rejectIfStranded(error: unknown): void {
    if (connections.size + dials === 0) rejectWaiting(openFailure(error))
  }

  function rejectWaiting(error: unknown): void {
    for (const { reject } of waiting) reject(error)
    waiting.clear()
  }

  // --- Connections are opened ---

  /** Opens a connection for each waiting caller, within the limit and the backoff. */
  function dial(): void {
    while (dials < waiting.size && connections.size + dials < maxConnections && !closing.signal.aborted) {
      const delayMs = backoff.delay(dials)
      if (delayMs === null) return
      if (delayMs > 0) {
        dialLater(delayMs)
        return
      }
      void openOne()
    }
  }

  function dialLater(delayMs: number): void {
    nextDial ??= setTimeout(() => {
      nextDial = undefined
      dial()
    }, delayMs)
  }

  async function openOne(): Promise<void> {
    dials++
    let connection: Connection | undefined
    try {
      connection = await servers.open({ onClosed: () => connection && drop(connection) }, closing.signal)
      dials--
      accept(connection)
    } catch (error) {
      dials--
      backoff.failed()
      rejectIfStranded(error)
    }
    dial()
  }

  function accept(connection: Connection): void {
    // `close` has begun during the opening, and has not seen this connection.
    if (closing.signal.aborted) {
      connection.destroy()
      return
    }
    // A read-only server does not end a failover, so the backoff stays.
    if (!connection.server.isReadOnly) backoff.succeeded()
    connections.add(connection)
    endsAt.set(connection, connection.openedAt + servers.lifetimeMs())
    release(connection)
  }

  // --- Connections are given up and closed ---

  /** Forgets a connection. */
  function drop(connection: Connection): void {
    connections.delete(connection)
    const place = idle.indexOf(connection)
    if (place !== -1) idle.splice(place, 1)
    dial()
  }

  /** Closes the socket. PostgreSQL ends a statement that may still run, by the limits of the session. */
  function cutOff(connection: Connection): void {
    connection.destroy()
    drop(connection)
  }

  function discard(connection: Connection): void {
    servers.avoid(connection)
    cutOff(connection)
  }

  function retire(connection: Connection): void {
    void connection.end(GOODBYE_MS)
    drop(connection)
  }

  function closeWhenUnused(connection: Connection): void {
    const { idleMs } = servers
    if (idleMs === null) return
    const usedAt = answeredAt.get(connection)
    setTimeout(() => {
      if (idle.includes(connection) && answeredAt.get(connection) === usedAt) retire(connection)
    }, idleMs).unref()
  }

  function giveUpReadOnly(connection: Connection, error: unknown): void {
    // An older connection was opened before the failover was known, so its failure means nothing new.
    const isNews = connection.openedAt >= readOnlyAt
    if (isNews) {
      backoff.failed()
      readOnlyAt = performance.now()
      for (const unused of [...idle]) cutOff(unused)
    }
    discard(connection)
    if (isNews) rejectIfStranded(error)
  }

  function cutOffSilent(since: number): void {
    for (const connection of [...idle]) {
      if ((answeredAt.get(connection) ?? connection.openedAt) < since) cutOff(connection)
    }
  }

  function takeIdle(): Connection | undefined {
    const connection = closing.signal.aborted ? undefined : idle.pop()
    connection?.setActive(true)
    return connection
  }

  return {
    takeIdle,
    async take(timeoutMs) {
      if (closing.signal.aborted) throw closed()
      const unused = takeIdle()
      if (unused) return unused
      const connection = await wait(timeoutMs)
      connection?.setActive(true)
      return connection
    },
    giveBack(connection) {
      answeredAt.set(connection, performance.now())
      release(connection)
    },
    giveUpSilent(connection, sentAt) {
      cutOffSilent(sentAt)
      discard(connection)
    },
    cutOff,
    giveUp(connection, error, sentAt) {
      if (isReadOnlyServer(error)) return giveUpReadOnly(connection, error)
      if (isConnectionLost(error)) cutOffSilent(sentAt)
      discard(connection)
    },
    get isClosed() {
      return closing.signal.aborted
    },
    async close() {
      closing.abort(closed())
      clearTimeout(nextDial)
      rejectWaiting(closed())
      const unused = new Set(idle)
      for (const connection of connections) if (!unused.has(connection)) connection.destroy()
      await Promise.all([...unused].map((connection) => connection.end(GOODBYE_MS)))
    },
  }
}

/** A statement that waits for a connection. */
interface WaitingStatement {
  resolve(connection: Connection): void
  reject(error: unknown): void
}

/** Timeout of the goodbye to the server, in ms; then the socket is closed in any case. */
const GOODBYE_MS = 500

function closed(): Error {
  return storeUnavailable('Cannot use PostgreSQL because the store is closed')
}
