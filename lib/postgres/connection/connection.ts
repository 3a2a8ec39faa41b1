import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import postgres, { type Sql } from 'postgres'
import { withDeadline } from '../../base/time.ts'
import type { DriverOptions } from './source.ts'

/** A connection to one PostgreSQL server, over a socket that is dialled once. */
export interface Connection {
  /** A postgres.js pool of one. */
  readonly sql: Sql
  /** The state of the server when the connection was opened. */
  readonly server: ServerRole
  /** On the monotonic clock, in milliseconds. */
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

/** A server during a failover: it is reached, and can or cannot write. */
export interface ServerRole {
  readonly isInRecovery: boolean
  /** True on a standby too. */
  readonly isReadOnly: boolean
}

/** Where a connection leads to: a host and port, or a Unix socket. */
export interface Address {
  readonly host: string
  readonly port: number
  readonly path: string | null
}

/** Listens to a connection. */
export interface ConnectionListener {
  /** The socket was closed after the server had let the connection in. */
  onClosed(): void
  onNotify?(): void
}

const ROLE_QUERY =
  "select pg_catalog.pg_is_in_recovery()::text, pg_catalog.current_setting('transaction_read_only')"

/**
 * Opens a connection, and asks the server for its role. postgres.js never closes a socket that has fallen silent, and
 * dials without end a server that accepts connections and closes them: so the sockets are made, counted and closed here.
 *
 * @param timeoutMs for everything: name look-up, TCP, TLS, authentication
 * @param signal gives the opening up
 * @throws the error of the network, of TLS or of the server
 */
export async function openConnection(
  options: DriverOptions,
  address: Address,
  listener: ConnectionListener,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Connection> {
  const sockets = createSocketSource(options, address)
  let isOpen = false
  const read = {
    ...options,
    host: [address.host],
    port: [address.port],
    path: address.path ?? false,
    socket: sockets.next,
    shared: { retries: 0, typeArrayMap: {} },
    onnotify: () => listener.onNotify?.(),
    onclose: () => isOpen && listener.onClosed(),
  }
  // postgres.js makes its own further pools in this way, for listening: options that it has read are taken as they are.
  const sql = postgres(read as unknown as Parameters<typeof postgres>[0] & object)

  function destroy(): void {
    // Rejects the statement under way.
    sql.end({ timeout: 0 }).catch(() => {})
    sockets.destroy()
  }

  signal.addEventListener('abort', destroy)
  try {
    signal.throwIfAborted()
    const server = await withDeadline(readRole(sql), timeoutMs, () => {
      throw noAnswer(address)
    })
    isOpen = true
    return {
      sql,
      server,
      openedAt: performance.now(),
      setActive: sockets.setActive,
      async end(graceMs) {
        await withDeadline(sql.end({ timeout: graceMs / 1000 }), graceMs, () => {}).catch(() => {})
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

async function readRole(sql: Sql): Promise<ServerRole> {
  const [row = []] = await sql.unsafe(ROLE_QUERY).raw()
  const [isInRecovery, isReadOnly] = row.map(String)
  return { isInRecovery: isInRecovery === 'true', isReadOnly: isReadOnly === 'on' }
}

/** The socket of a connection: the first, and no second one. */
interface SocketSource {
  /** For the option `socket` of postgres.js, which calls it again when the socket is closed. */
  next(): Promise<Duplex>
  setActive(isActive: boolean): void
  destroy(): void
}

function createSocketSource(options: DriverOptions, address: Address): SocketSource {
  const hostsOwn: unknown = Reflect.get(options, 'socket')
  let socket: Duplex | undefined
  let isUsed = false
  let isDestroyed = false

  async function next(): Promise<Duplex> {
    if (isUsed) throw closedUnused(address)
    isUsed = true
    if (typeof hostsOwn === 'function') {
      socket = (await hostsOwn({ ...options, host: [address.host], port: [address.port] })) as Duplex
      if (isDestroyed) socket.destroy()
      return socket
    }
    const own = connect(address.path ? { path: address.path } : { host: address.host, port: address.port })
    socket = own
    // Read by postgres.js for the name in the TLS handshake and for messages.
    Object.assign(own, { host: address.host, port: address.port })
    await opened(own, address)
    return own
  }

  return {
    next,
    setActive(isActive) {
      const { ref, unref } = (socket ?? {}) as Partial<Socket>
      if (isActive) ref?.call(socket)
      else unref?.call(socket)
    },
    destroy() {
      isUsed = true
      isDestroyed = true
      socket?.destroy()
    },
  }
}

async function opened(socket: Socket, address: Address): Promise<void> {
  const ended = new AbortController()
  // Destroyed without an error, when the opening is given up.
  socket.once('close', () => ended.abort(closedUnused(address)))
  await once(socket, 'connect', { signal: ended.signal }).catch((error) => {
    throw ended.signal.aborted ? ended.signal.reason : error
  })
}

function closedUnused(address: Address): Error {
  return connectionError('CONNECTION_CLOSED', 'the connection was closed before it could be used', address)
}

function noAnswer(address: Address): Error {
  return connectionError('CONNECT_TIMEOUT', 'no connection was made in time', address)
}

function connectionError(code: string, reason: string, { host, port, path }: Address): Error {
  return Object.assign(new Error(`${reason}: ${path ?? `${host}:${port}`}`), { code })
}
