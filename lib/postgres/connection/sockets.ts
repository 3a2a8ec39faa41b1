import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { DriverOptions } from './source.ts'

/** The address of a server: a host and port, or a Unix socket. */
export interface Address {
  readonly host: string
  readonly port: number
  readonly path: string | null
}

/** Makes the only socket of a connection. */
export interface SocketSource {
  /**
   * Makes the socket: the option `socket` of postgres.js. The driver calls this function again after the socket was closed.
   *
   * @throws an error with code CONNECTION_CLOSED for every call but the first
   */
  next(): Promise<Duplex>
  /** Sets whether the socket keeps the process alive. True at first. */
  setActive(isActive: boolean): void
  /** Closes the socket at once, also during the opening. */
  destroy(): void
}

/** Creates the source of a connection's socket. The option `socket` of the host's pool makes the socket, if the pool has one. */
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
    // postgres.js reads both for the name in the TLS handshake and for messages.
    Object.assign(own, { host, port })
    await untilGivenUp(once(own, 'connect'), () => {})
    return own
  }

  /** Settles as `opening` does, or rejects on {@link SocketSource.destroy}: a destroyed socket may emit no event. */
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

/** Creates the error for a failed connection to a server, with a code of the driver. */
export function connectionError(code: string, reason: string, { host, port, path }: Address): Error {
  return Object.assign(new Error(`${reason}: ${path ?? `${host}:${port}`}`), { code })
}
