import { type Connection, type ConnectionListener, openConnection, type ServerRole } from './connection.ts'
import { resolveDriverOptions, type SessionOptions } from './driver-options.ts'
import type { Address } from './sockets.ts'
import type { DriverOptions, Source, TargetSessionAttributes } from './source.ts'

/** Connects to the servers of a source that `target_session_attrs` allows. */
export interface Servers {
  /** Opens a connection, starting with the server that last worked. Throws the error from the last server. */
  open(listener: ConnectionListener, signal: AbortSignal): Promise<Connection>
  /** Marks the connection's server as failed, so the next server in the list is tried first. */
  avoid(connection: Connection): void
  /** Time after which an idle connection is closed, in milliseconds, or `null` for never. */
  readonly idleMs: number | null
  /** Returns a new connection's lifetime in milliseconds, or `Infinity` for no limit. */
  lifetimeMs(): number
}

/** Default timeout for opening a connection in ms, shared by all servers. */
const OPEN_TIMEOUT_MS = 5000
const OPEN_TIMEOUT_MIN_MS = 1000

/** Role checks by `target_session_attrs`. */
const ACCEPTS: Readonly<Record<TargetSessionAttributes, (role: ServerRole) => boolean>> = {
  any: () => true,
  'read-write': ({ isReadOnly }) => !isReadOnly,
  'read-only': ({ isReadOnly }) => isReadOnly,
  primary: ({ isInRecovery }) => !isInRecovery,
  standby: ({ isInRecovery }) => isInRecovery,
  'prefer-standby': ({ isInRecovery }) => isInRecovery,
}

interface Known {
  readonly given: DriverOptions
  readonly options: DriverOptions
  readonly addresses: readonly Address[]
}

/**
 * Creates the servers of a source. The source's options are read on first use.
 *
 * @param openTimeoutMs timeout for opening a connection in ms, shared by all servers, unless the source has its own
 */
export function createServers(
  source: Source,
  session: SessionOptions,
  openTimeoutMs: number = OPEN_TIMEOUT_MS,
): Servers {
  const addressOf = new WeakMap<Connection, Address>()
  let known: Known | undefined
  let preferred = 0

  function read(): Known {
    if (known === undefined) {
      const given = source.options()
      known = { given, options: resolveDriverOptions(given, session), addresses: readAddresses(given) }
    }
    return known
  }

  /** Returns the addresses in the order to try, along with the required roles. */
  function plan(addresses: readonly Address[]): (readonly [Address, TargetSessionAttributes])[] {
    const ordered = [...addresses.slice(preferred), ...addresses.slice(0, preferred)]
    const target = source.targetSessionAttributes()
    const passes: TargetSessionAttributes[] = target === 'prefer-standby' ? ['standby', 'any'] : [target]
    return passes.flatMap((pass) => ordered.map((address) => [address, pass] as const))
  }

  async function open(listener: ConnectionListener, signal: AbortSignal): Promise<Connection> {
    const { options, addresses } = read()
    const timeoutMs =
      source.connectTimeoutMs() ?? Math.max(OPEN_TIMEOUT_MIN_MS, openTimeoutMs / addresses.length)
    let failure: unknown
    for (const [address, target] of plan(addresses)) {
      signal.throwIfAborted()
      try {
        const connection = await openConnection(
          options,
          address,
          listener,
          timeoutMs,
          signal,
          session.sessions,
        )
        if (ACCEPTS[target](connection.server)) {
          addressOf.set(connection, address)
          preferred = addresses.indexOf(address)
          return connection
        }
        connection.destroy()
        failure = wrongServer(target)
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }

  return {
    open,
    avoid(connection) {
      const { addresses } = read()
      if (addresses[preferred] === addressOf.get(connection)) preferred = (preferred + 1) % addresses.length
    },
    get idleMs() {
      const seconds = Number(read().given.idle_timeout ?? 0)
      return seconds > 0 ? seconds * 1000 : null
    },
    lifetimeMs() {
      const given: unknown = read().given.max_lifetime
      const seconds = Number(typeof given === 'function' ? given() : given)
      return seconds > 0 ? seconds * 1000 : Number.POSITIVE_INFINITY
    },
  }
}

function wrongServer(target: TargetSessionAttributes): Error {
  const message = `no server matches target_session_attrs=${target}`
  return Object.assign(new Error(message), { code: 'ERR_TARGET_SESSION_ATTRS' })
}

function readAddresses({ host, port, path }: DriverOptions): readonly Address[] {
  if (path) return [{ host: String(path), port: 0, path: String(path) }]
  return host.map((name, index) => ({ host: name, port: port[index] ?? 5432, path: null }))
}
