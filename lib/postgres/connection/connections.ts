import { setMaxListeners } from 'node:events'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import { createDialBackoff } from './dial-backoff.ts'
import { isConnectionLost, isReadOnlyServer, openFailure } from './driver-faults.ts'
import type { Servers } from './servers.ts'

// createConnections() is long because taking, opening and closing connections all share the state in one closure.

/** The store's open connections. Each one is used by a single statement at a time. */
export interface Connections {
  /** Takes an idle connection. Returns `undefined` if there is none. */
  takeIdle(): Connection | undefined
  /**
   * Takes an idle connection, or waits until one is released or opened.
   *
   * @returns `null` if no connection became available within `timeoutMs`
   * @throws the error of a failed connection attempt; `BusinessApiError` with code `store_unavailable` if the
   *   connections are closed
   */
  take(timeoutMs: number): Promise<Connection | null>
  /** Returns a connection after its statement has completed. */
  giveBack(connection: Connection): void
  /**
   * Closes a connection after a failed statement. If the connection was lost or the server has become read-only, all
   * idle connections are closed as well because they're probably affected.
   *
   * @param sentAt time the statement was sent, on the monotonic clock
   */
  giveUp(connection: Connection, error: unknown, sentAt: number): void
  /**
   * Closes a connection that didn't respond, and all idle connections that haven't returned a result since `sentAt`.
   * Another statement on one of those would probably just time out.
   *
   * @param sentAt time the unanswered statement was sent, on the monotonic clock
   */
  giveUpSilent(connection: Connection, sentAt: number): void
  /** Closes a connection because its statement timed out. Doesn't mark the server as failed. */
  cutOff(connection: Connection): void
  readonly isClosed: boolean
  /** Rejects waiting callers and running statements, then closes all connections. Takes up to 500 ms. */
  close(): Promise<void>
}

/**
 * Opens connections on demand, up to a limit. The first caller in line gets the next available connection, whether it
 * was just opened or just released. After a failure, connections are opened one at a time with increasing delays.
 * Otherwise a server that accepts connections only to close them would be dialled thousands of times per second.
 */
export function createConnections(servers: Servers, maxConnections: number): Connections {
  const idle: Connection[] = []
  /** Time of each connection's last result, on the monotonic clock. */
  const answeredAt = new WeakMap<Connection, number>()
  const endsAt = new WeakMap<Connection, number>()
  const connections = new Set<Connection>()
  const waiting = new Set<WaitingStatement>()
  const backoff = createDialBackoff()
  const closing = new AbortController()
  // Every connection being opened adds a listener, and Node warns about a leak once there are more than ten.
  setMaxListeners(0, closing.signal)
  let dials = 0
  /**
   * Time of the last read-only failure, on the monotonic clock. Connections opened before it may lead to
   * a read-only server.
   */
  let readOnlyAt = 0
  let nextDial: NodeJS.Timeout | undefined

  // --- Taking and returning connections ---

  async function wait(timeoutMs: number): Promise<Connection | null> {
    let leave = (): boolean => false
    const turn = new Promise<Connection>((resolve, reject) => {
      const waiter = { resolve, reject }
      leave = () => waiting.delete(waiter)
      waiting.add(waiter)
    })
    dial()
    return withDeadline(turn, timeoutMs, () => {
      // A connection arrived just as we timed out, so pass it on to the next caller.
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

  /**
   * Rejects all waiting callers if no connection is open or being opened. Waiting for the next attempt would only delay
   * the error.
   */
  function rejectIfStranded(error: unknown): void {
    if (connections.size + dials === 0) rejectWaiting(openFailure(error))
  }

  function rejectWaiting(error: unknown): void {
    for (const { reject } of waiting) reject(error)
    waiting.clear()
  }

  // --- Opening connections ---

  /** Opens a connection for each waiting caller, as far as the limit and the backoff allow. */
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
    // `close` was called while this connection was being opened, so it couldn't close it.
    if (closing.signal.aborted) {
      connection.destroy()
      return
    }
    // Reaching a read-only server doesn't mean the failover is over, so we don't reset the backoff.
    if (!connection.server.isReadOnly) backoff.succeeded()
    connections.add(connection)
    endsAt.set(connection, connection.openedAt + servers.lifetimeMs())
    release(connection)
  }

  // --- Closing connections ---

  /** Removes a connection from the pool. */
  function drop(connection: Connection): void {
    connections.delete(connection)
    const place = idle.indexOf(connection)
    if (place !== -1) idle.splice(place, 1)
    dial()
  }

  /** Closes the socket. If the statement is still running, the session's timeouts make PostgreSQL cancel it. */
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
    // A connection opened before the last read-only failure tells us nothing new.
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

/** A caller waiting for a connection. */
interface WaitingStatement {
  resolve(connection: Connection): void
  reject(error: unknown): void
}

/** Maximum time to wait for the server when closing a connection, in ms. The socket is closed either way. */
const GOODBYE_MS = 500

function closed(): Error {
  return storeUnavailable('Cannot use PostgreSQL because the store is closed')
}
