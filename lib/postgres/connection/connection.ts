import postgres, { type Sql } from 'postgres'
import { withDeadline } from '../../base/time.ts'
import { type Address, connectionError, createSocketSource } from './sockets.ts'
import type { DriverOptions } from './source.ts'
import { nameServer } from './tls.ts'

/** A connection to one PostgreSQL server, over a socket that is never dialled again. */
export interface Connection {
  /** A postgres.js pool of one connection. */
  readonly sql: Sql
  /** The state of the server when the connection was opened. */
  readonly server: ServerRole
  /** Time of opening on the monotonic clock, in milliseconds. */
  readonly openedAt: number
  /** Sets whether the connection keeps the process alive. True at first. */
  setActive(isActive: boolean): void
  /**
   * Says goodbye to the server and closes the socket, whether the server answers or not.
   *
   * @param graceMs how long the goodbye may take, in milliseconds
   */
  end(graceMs: number): Promise<void>
  /** Closes the socket at once. A statement under way is rejected here, and may go on in the server. */
  destroy(): void
}

/** The role of a reachable server: during a failover a server may be unable to write. */
export interface ServerRole {
  readonly isInRecovery: boolean
  /** True on a standby too. */
  readonly isReadOnly: boolean
}

/** Listens to a connection. */
export interface ConnectionListener {
  /** The socket was closed by the other side, after the server had let the connection in. */
  onClosed(): void
  onNotify?(): void
}

const ROLE_COLUMNS =
  "pg_catalog.pg_is_in_recovery()::text, pg_catalog.current_setting('transaction_read_only')"

/**
 * Lets the server end a statement within a tenth of a second after the connection was closed. Otherwise a statement that waited
 * for a turn in the pool, and then for a lock in the server, could still write after its caller had received an error. Servers
 * on systems that cannot notice a closed socket reject the setting.
 */
const END_ABANDONED = `case when pg_catalog.version() ~ 'linux|darwin|bsd|solaris|illumos'
  then pg_catalog.set_config('client_connection_check_interval', '100', false) end`

/**
 * Opens a connection, and asks the server for its role. postgres.js never closes a socket that has fallen silent, and dials a
 * server without end if the server accepts connections and closes them. Therefore this function makes and closes the socket.
 *
 * @param timeoutMs milliseconds for name lookup, TCP, TLS and authentication together
 * @param signal aborts the opening
 * @param hasSession false behind a transaction-mode pooler, where settings would stay with the server's session
 * @throws the error of the network, of TLS or of the server
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
  // postgres.js does not resolve options again that it has already resolved. Its own pool for LISTEN is made in this way.
  const sql = postgres(read as unknown as Parameters<typeof postgres>[0] & object)

  // Without sql.end(), which writes to the closing socket: over TLS such a write ends the process.
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
