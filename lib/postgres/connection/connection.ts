import postgres, { type Sql } from 'postgres'
import { withDeadline } from '../../base/time.ts'
import { type Address, connectionError, createSocketSource } from './sockets.ts'
import type { DriverOptions } from './source.ts'
import { nameServer } from './tls.ts'

/** A connection to one PostgreSQL server. The socket never reconnects. */
export interface Connection {
  /** A postgres.js pool with a single connection. */
  readonly sql: Sql
  /** The server's role when the connection was opened. */
  readonly server: ServerRole
  /** Monotonic timestamp, in ms. */
  readonly openedAt: number
  /** Sets whether the connection keeps the process alive. Initially `true`. */
  setActive(isActive: boolean): void
  /** Terminates the session, waiting up to `graceMs` milliseconds for the server, and closes the socket. */
  end(graceMs: number): Promise<void>
  /** Closes the socket immediately. A running statement is rejected but may continue on the server. */
  destroy(): void
}

/** A server's role. During a failover, a reachable server may not accept writes. */
export interface ServerRole {
  readonly isInRecovery: boolean
  /** Standbys are always read-only. */
  readonly isReadOnly: boolean
}

/** Callbacks for connection events. */
export interface ConnectionListener {
  /** Called when the server closes an established connection. */
  onClosed(): void
  onNotify?(): void
}

const ROLE_COLUMNS =
  "pg_catalog.pg_is_in_recovery()::text, pg_catalog.current_setting('transaction_read_only')"

/**
 * Makes the server cancel a statement within 100 ms of losing its connection. Otherwise a statement that was waiting,
 * first in the pool and then for a lock, could still write after its caller got an error. Servers on other platforms
 * can't detect a closed socket and reject this setting.
 */
const END_ABANDONED = `case when pg_catalog.version() ~ 'linux|darwin|bsd|solaris|illumos'
  then pg_catalog.set_config('client_connection_check_interval', '100', false) end`

/**
 * Opens a connection and queries the server's role. We create and close the socket ourselves because postgres.js never
 * closes a silent socket, and keeps reconnecting to a server that hangs up right after accepting.
 *
 * @param timeoutMs timeout for DNS lookup, TCP, TLS and authentication together, in milliseconds
 * @param signal aborts the attempt
 * @param hasSession `false` behind a pooler in transaction mode, where settings would leak into shared server sessions
 * @throws the original network, TLS or server error
 */
export async function openConnection(
  options: DriverOptions,
  address: Address,
  listener: ConnectionListener,
  timeoutMs: number,
  signal: AbortSignal,
  hasSession: boolean,
): Promise<Connection> {
  const sockets = createSocketSource(options, address)
  let isOpen = false
  const read = {
    ...options,
    host: [address.host],
    port: [address.port],
    path: address.path ?? false,
    ssl: nameServer(options.ssl, address.host),
    socket: sockets.next,
    shared: { retries: 0, typeArrayMap: {} },
    onnotify: () => listener.onNotify?.(),
    onclose: () => isOpen && listener.onClosed(),
  }
  // postgres.js uses resolved options as they are. Its own LISTEN pool is created the same way.
  const sql = postgres(read as unknown as Parameters<typeof postgres>[0] & object)

  // Don't call `sql.end()` here. It writes to the closing socket, which crashes the process with TLS.
  function destroy(): void {
    isOpen = false
    sockets.destroy()
  }

  signal.addEventListener('abort', destroy)
  try {
    signal.throwIfAborted()
    const server = await withDeadline(readRole(sql, hasSession), timeoutMs, () => {
      throw noAnswer(address)
    })
    isOpen = true
    return {
      sql,
      server,
      openedAt: performance.now(),
      setActive: sockets.setActive,
      async end(graceMs) {
        await withDeadline(sql.end(), graceMs, () => {}).catch(() => {})
        destroy()
      },
      destroy,
    }
  } catch (error) {
    destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', destroy)
  }
}

async function readRole(sql: Sql, hasSession: boolean): Promise<ServerRole> {
  const columns = hasSession ? `${ROLE_COLUMNS}, ${END_ABANDONED}` : ROLE_COLUMNS
  const [row = []] = await sql.unsafe(`select ${columns}`).raw()
  const [isInRecovery, isReadOnly] = row.map(String)
  return { isInRecovery: isInRecovery === 'true', isReadOnly: isReadOnly === 'on' }
}

function noAnswer(address: Address): Error {
  return connectionError('CONNECT_TIMEOUT', 'no connection was made in time', address)
}
