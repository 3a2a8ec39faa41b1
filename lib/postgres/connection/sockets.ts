import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { DriverOptions } from './source.ts'

/** Where a connection leads to: a host and port, or a Unix socket. */
export interface Address {
  readonly host: string
  readonly port: number
  readonly path: string | null
}

/** The socket of a connection: the first, and no second one. */
export interface SocketSource {
  /** For the option `socket` of postgres.js, which is called again whenever the socket is closed. */
  next(): Promise<Duplex>
  /** Sets whether the socket keeps the process alive. True at first. */
  setActive(isActive: boolean): void
  /** Closes the socket at once, also while it is being opened. */
  destroy(): void
}

/** Makes the socket of a connection: by the function of the host's pool, if it has one. */
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
    // Read by postgres.js for the name in the TLS handshake and for messages.
    Object.assign(own, { host, port })
    await untilGivenUp(once(own, 'connect'), () => {})
    return own
  }

  /** Settles as `opening` does, or rejects when the connection is given up: a socket that is destroyed may say nothing. */
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

/** Makes an error of the way to a server, with a code as the driver has it. */
export function connectionError(code: string, reason: string, { host, port, path }: Address): Error {
  return Object.assign(new Error(`${reason}: ${path ?? `${host}:${port}`}`), { code })
}
