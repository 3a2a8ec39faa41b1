import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { DriverOptions } from './source.ts'

/** A server address, either a host and port or a Unix socket. */
export interface Address {
  readonly host: string
  readonly port: number
  readonly path: string | null
}

/** Creates a connection's only socket. */
export interface SocketSource {
  /** The `socket` option of postgres.js. Throws `CONNECTION_CLOSED` when called again to reconnect. */
  next(): Promise<Duplex>
  /** Sets whether the socket keeps the process alive. Initially `true`. */
  setActive(isActive: boolean): void
  /** Closes the socket immediately, even while connecting. */
  destroy(): void
}

/** Creates a connection's socket source. The socket comes from the `socket` option of the host's pool, if any. */
export function createSocketSource(options: DriverOptions, address: Address): SocketSource {
  const hostsOwn: unknown = Reflect.get(options, 'socket')
  const givenUp = new AbortController()
  let socket: Duplex | undefined
  let isUsed = false

  async function openHosts(open: (options: object) => unknown): Promise<Duplex> {
    const opening = Promise.resolve(open({ ...options, host: [address.host], port: [address.port] }))
    return untilGivenUp(opening as Promise<Duplex>, (late) => void late.destroy())
  }

  async function openOwn(): Promise<Duplex> {
    const { host, port, path } = address
    const own = connect(path ? { path } : { host, port })
    socket = own
    // postgres.js uses these for TLS server names and error messages.
    Object.assign(own, { host, port })
    await untilGivenUp(once(own, 'connect'), () => {})
    return own
  }

  /** Settles like `opening`, but also rejects on `destroy`, since a destroyed socket may not emit any event. */
  function untilGivenUp<T>(opening: Promise<T>, onLate: (opened: T) => void): Promise<T> {
    const { signal } = givenUp
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(closedUnused(address)))
      opening.then((opened) => (signal.aborted ? onLate(opened) : resolve(opened)), reject)
    })
  }

  return {
    async next() {
      if (isUsed) throw closedUnused(address)
      isUsed = true
      socket = await (typeof hostsOwn === 'function' ? openHosts((given) => hostsOwn(given)) : openOwn())
      return socket
    },
    setActive(isActive) {
      const { ref, unref } = (socket ?? {}) as Partial<Socket>
      if (isActive) ref?.call(socket)
      else unref?.call(socket)
    },
    destroy() {
      isUsed = true
      givenUp.abort()
      socket?.destroy()
    },
  }
}

function closedUnused(address: Address): Error {
  return connectionError('CONNECTION_CLOSED', 'the connection was closed before it could be used', address)
}

/** Creates the error for a failed connection, with one of the driver's codes. */
export function connectionError(code: string, reason: string, { host, port, path }: Address): Error {
  return Object.assign(new Error(`${reason}: ${path ?? `${host}:${port}`}`), { code })
}
