import { type DriverOptions, readDefaults } from './source.ts'

/** The store's options that affect its connections. */
export interface SessionOptions {
  /** If `true`, statements are prepared. Defaults to the `prepare` of the source, or `true`. */
  readonly prepare?: boolean | undefined
  /** If `true`, each connection has its own server session. `false` behind a pooler in transaction mode. */
  readonly sessions: boolean
  readonly statementTimeoutMs: number
}

/**
 * How much longer the server's statement timeout is than ours, in ms. It must exceed the longest wait for an
 * idempotency key, so our process always times out first.
 */
const SERVER_TIMEOUT_EXTRA_MS = 5000

/**
 * Fraction of a statement's timeout that it may spend waiting for a lock. The rest is for the actual work
 * and the response.
 */
const LOCK_SHARE = 0.8

/** No `transform`, in the driver's resolved form. The host's transforms are only meant for the host's own rows. */
const UNTRANSFORMED = { undefined: undefined, column: {}, value: {}, row: {} }

/** The default application name of postgres.js. */
const UNNAMED = 'postgres.js'

/**
 * Resolves the options of the store's connections from a connection string or the host's pool. The server, user,
 * password, TLS and session parameters are kept, but all options about statements are our own.
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
    // With `debug`, errors include the parameters of the statement.
    debug: false,
    onnotice: () => {},
    onparameter: undefined,
    // With `fetch_types`, postgres.js first queries the array types on every connection. If the connection is lost
    // during that query, the process crashes.
    fetch_types: false,
    // The store uses its own timers for these, because they don't keep the process alive.
    connect_timeout: null,
    idle_timeout: null,
    max_lifetime: null,
    target_session_attrs: null,
  }
  return { ...given, ...own } as unknown as DriverOptions
}

/** Returns `true` if the store sets this parameter in its own sessions. */
export function isSessionParameter(name: string): boolean {
  return Object.hasOwn(sessionParameters(0), name)
}

/** Settings our statements rely on, regardless of how the server, the database and the role are configured. */
function sessionParameters(statementTimeoutMs: number): Record<string, string | number> {
  return {
    // Without these limits, an abandoned statement could wait for a lock forever.
    statement_timeout: statementTimeoutMs + SERVER_TIMEOUT_EXTRA_MS,
    // Waiting for a lock must time out before the caller's deadline, because an abandoned statement must
    // not write anything.
    lock_timeout: Math.ceil(statementTimeoutMs * LOCK_SHARE),
    default_transaction_isolation: 'read committed',
    // Our statements disable sorting, which gives some plans a huge cost. A server with LLVM would then JIT-compile
    // them on every call. See sql/00-planner.sql.
    jit: 'off',
    // Sessions cache plans. A plan made while a table was empty would still scan the whole table after it has grown.
    enable_seqscan: 'off',
    // Prevents operators in other schemas from shadowing PostgreSQL's own.
    search_path: 'pg_catalog',
    // Rate limits are returned with all their digits.
    extra_float_digits: 1,
  }
}
