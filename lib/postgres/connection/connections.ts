import { setMaxListeners } from 'node:events'
import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import { createDialBackoff } from './dial-backoff.ts'
import { isConnectionLost, isReadOnlyServer, openFailure } from './driver-faults.ts'
import type { Servers } from './servers.ts'

// createConnections() is long because acquiring, opening and closing connections share the state in one closure.

/** The store's open connections. Each one runs a single statement at a time. */
export interface Connections {
  /** Takes an idle connection if there is one. */
  takeIdle(): Connection | undefined
  /**
   * Takes an idle connection, or waits until one is released or opened. Returns `null` after `timeoutMs`.
   *
   * @throws the connection error, or `BusinessApiError` with code `store_unavailable` if the connections are closed
   */
  take(timeoutMs: number): Promise<Connection | null>
  /** Releases a connection after its statement has completed. */
  giveBack(connection: Connection): void
  /**
   * Closes a connection after a failed statement. If the connection was lost or the server has become read-only, idle
   * connections are probably affected, so they are closed as well.
   *
   * @param sentAt when the statement was sent, on the monotonic clock
   */
  giveUp(connection: Connection, error: unknown, sentAt: number): void
  /**
   * Closes a connection that didn't respond, plus all idle connections that haven't returned a result since `sentAt`,
   * because another statement on those would probably time out.
   *
   * @param sentAt when the unanswered statement was sent, on the monotonic clock
   */
  giveUpSilent(connection: Connection, sentAt: number): void
  /** Closes a connection whose statement timed out, without marking the server as failed. */
  cutOff(connection: Connection): void
  readonly isClosed: boolean
  /** Rejects waiting callers and running statements, then closes all connections. Takes up to 500 ms. */
  close(): Promise<void>
}

/**
 * Opens connections on demand, up to a limit. The first caller in line gets the next connection that is opened or
 * released. After a failure, connections are opened one at a time with exponential backoff. Otherwise a server that
 * hangs up right after accepting would be dialled thousands of times per second.
 */
export function createConnections(servers: Servers, maxConnections: number): Connections {
  const idle: Connection[] = []
  /** When each connection last returned a result, on the monotonic clock. */
  const answeredAt = new WeakMap<Connection, number>()
  const endsAt = new WeakMap<Connection, number>()
  const connections = new Set<Connection>()
  const waiting = new Set<WaitingStatement>()
  const backoff = createDialBackoff()
  const closing = new AbortController()
  // Every pending connection adds a listener, and Node warns about a leak if there are more than ten.
  setMaxListeners(0, closing.signal)
  let dials = 0
  /** When the server was last found to be read-only, on the monotonic clock. Older connections are suspect. */
  let readOnlyAt = 0
  let nextDial: NodeJS.Timeout | undefined

  // --- Acquiring and releasing connections ---

  async function wait(timeoutMs: number): Promise<Connection | null> {
    let leave = (): boolean => false
    const turn = new Promise<Connection>((resolve, reject) => {
      const waiter = { resolve, reject }
      leave = () => waiting.delete(waiter)
      waiting.add(waiter)
    })
    dial()
    return withDeadline(turn, timeoutMs, () => {
      // Lost the race against the timeout, so pass the connection on to the next caller.
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

  /** Fails fast if no connection is open or being opened. Waiting for the next attempt would only delay the error. */
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
    // `close` was called while this connection was being opened.
    if (closing.signal.aborted) {
      connection.destroy()
      return
    }
    // A read-only server doesn't mean that the failover is over, so don't reset the backoff.
    if (!connection.server.isReadOnly) backoff.succeeded()
    connections.add(connection)
    endsAt.set(connection, connection.openedAt + servers.lifetimeMs())
    release(connection)
  }

  // --- Closing connections ---

  function drop(connection: Connection): void {
    connections.delete(connection)
    const place = idle.indexOf(connection)
    if (place !== -1) idle.splice(place, 1)
    dial()
  }

  /** Closes the socket. If the statement is still running, session timeouts make PostgreSQL cancel it. */
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
    // Connections from before the last read-only failure tell us nothing new.
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

interface WaitingStatement {
  resolve(connection: Connection): void
  reject(error: unknown): void
}

/** Maximum time to wait for the server when closing a connection, in ms. The socket is closed either way. */
const GOODBYE_MS = 500

function closed(): Error {
  return storeUnavailable('Cannot use PostgreSQL because the store is closed')
}
