import postgres, { type Sql } from 'postgres'
import type { OpenConnection } from './pool.ts'

/** What the connections of a store need to know. */
export interface ConnectionOptions {
  readonly prepare: boolean
  readonly statementTimeoutMs: number
}

/** On top of a statement's time here, with the longest wait for an idempotency key: the database gives up last. */
const SERVER_TIMEOUT_EXTRA_MS = 5000

/** Of a statement's time that a wait for a lock may take: the rest is for the work, and for the way back. */
const LOCK_SHARE = 0.8

const ALWAYS = {
  max: 1,
  // Without this postgres.js asks for the array types first, on every connection, and a connection that dies meanwhile
  // ends the process.
  fetch_types: false,
  connect_timeout: 5,
} as const

/** Connections to the database of a connection string. */
export function connectTo(url: string, options: ConnectionOptions): OpenConnection {
  const settings = {
    ...ALWAYS,
    prepare: options.prepare,
    onnotice: () => {},
    connection: { application_name: 'business-api-kit', ...serverSettings(options) },
  }
  // The types of postgres.js do not know `onnotify`, which its own listening uses.
  return (extra) => postgres(url, { ...settings, ...extra } as typeof settings)
}

/** The form that postgres.js reads `transform` into: a host's is for the rows of the host. */
const UNTRANSFORMED = { undefined: undefined, column: {}, value: {}, row: {} }

/** Seconds after which an unused connection beside a host's pool is closed: a host that has ended its own can exit. */
const IDLE_SECONDS = 2

/**
 * Connections like those of a host's pool: the same server, user, TLS, parameters. Not the pool's own: on those, a query
 * of the host's that fails halfway through sending makes postgres.js give every later answer to the wrong query.
 */
export function connectLike(
  pool: Sql,
  { statementTimeoutMs }: Pick<ConnectionOptions, 'statementTimeoutMs'>,
): OpenConnection {
  const { options } = pool
  const connection = {
    ...options.connection,
    ...serverSettings({ prepare: options.prepare, statementTimeoutMs }),
  }
  // postgres.js makes its own further pools in this way, for listening: options that it has read are taken as they are.
  return (extra) => {
    const read = {
      ...options,
      ...ALWAYS,
      transform: UNTRANSFORMED,
      idle_timeout: IDLE_SECONDS,
      connection,
      shared: { retries: 0, typeArrayMap: {} },
      ...extra,
    }
    return postgres(read as Parameters<typeof postgres>[0] & object)
  }
}

/** A statement whose caller is gone would otherwise wait for its lock for ever, on a connection that nobody ends. */
function serverSettings({ prepare, statementTimeoutMs }: ConnectionOptions): Record<string, string | number> {
  // Not through a pooler, which refuses parameters that it does not know; what matters most is in the statements too.
  if (!prepare) return {}
  return {
    statement_timeout: statementTimeoutMs + SERVER_TIMEOUT_EXTRA_MS,
    // A statement gives up waiting for a lock before its caller does: what nobody waits for any more must not be written.
    lock_timeout: Math.ceil(statementTimeoutMs * LOCK_SHARE),
    default_transaction_isolation: 'read committed',
  }
}
