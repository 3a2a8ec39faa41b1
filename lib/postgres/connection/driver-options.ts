import { type DriverOptions, readDefaults } from './source.ts'

/** The options of a store that decide about its connections. */
export interface SessionOptions {
  /** Whether statements are prepared. Default: as the source says, or true. */
  readonly prepare?: boolean | undefined
  /** Whether each connection has a session of its own in the server: false behind a pooler in transaction mode. */
  readonly sessions: boolean
  readonly statementTimeoutMs: number
}

/** On top of a statement's time here, with the longest wait for an idempotency key: the database gives up last. */
const SERVER_TIMEOUT_EXTRA_MS = 5000

/** Of a statement's time that a wait for a lock may take: the rest is for the work, and for the way back. */
const LOCK_SHARE = 0.8

/** The form that postgres.js reads `transform` into: a host's transforms are for the rows of the host. */
const UNTRANSFORMED = { undefined: undefined, column: {}, value: {}, row: {} }

/** The name that postgres.js gives to connections without a name. */
const UNNAMED = 'postgres.js'

/**
 * Resolves the options of every connection, from those of a connection string or of a host's pool: the same server, user,
 * password, TLS and session parameters. Everything that concerns statements is the store's own, because the store's
 * statements are not the host's.
 */
export function resolveDriverOptions(given: DriverOptions, session: SessionOptions): DriverOptions {
  const { parsers, serializers } = readDefaults()
  const named = { ...given.connection }
  if (named.application_name === UNNAMED) named.application_name = 'business-api-kit'
  const own = {
    max: 1,
    prepare: session.prepare ?? given.prepare,
    connection: { ...named, ...(session.sessions ? sessionParameters(session.statementTimeoutMs) : {}) },
    types: {},
    parsers,
    serializers,
    transform: UNTRANSFORMED,
    // With `debug` an error shows the parameters of its statement.
    debug: false,
    onnotice: () => {},
    onparameter: undefined,
    // Otherwise postgres.js asks for the array types first, on every connection, and a connection that dies meanwhile ends
    // the process.
    fetch_types: false,
    // The store keeps these times itself, with timers that do not keep the process alive.
    connect_timeout: null,
    idle_timeout: null,
    max_lifetime: null,
    target_session_attrs: null,
  }
  return { ...given, ...own } as unknown as DriverOptions
}

/** A statement whose caller is gone would otherwise wait for its lock for ever, on a connection that is never ended. */
function sessionParameters(statementTimeoutMs: number): Record<string, string | number> {
  return {
    statement_timeout: statementTimeoutMs + SERVER_TIMEOUT_EXTRA_MS,
    // A statement gives up waiting for a lock before its caller does: an abandoned statement must write nothing.
    lock_timeout: Math.ceil(statementTimeoutMs * LOCK_SHARE),
    default_transaction_isolation: 'read committed',
  }
}
