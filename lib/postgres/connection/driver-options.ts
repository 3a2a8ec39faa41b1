import { type DriverOptions, readDefaults } from './source.ts'

/** Store options that affect its connections. */
export interface SessionOptions {
  /** If `true`, statements are prepared. Defaults to the `prepare` of the source, or `true`. */
  readonly prepare?: boolean | undefined
  /** If `true`, each connection has its own server session. `false` behind a pooler in transaction mode. */
  readonly sessions: boolean
  readonly statementTimeoutMs: number
}

/** How much longer the server's statement timeout is, in ms. Exceeds the longest wait for an idempotency key. */
const SERVER_TIMEOUT_EXTRA_MS = 5000

/** Fraction of the statement timeout that can be spent waiting for locks. The rest is for the actual work. */
const LOCK_SHARE = 0.8

/** The driver's resolved form of no `transform`. The host's transforms are only meant for the host's rows. */
const UNTRANSFORMED = { undefined: undefined, column: {}, value: {}, row: {} }

/** postgres.js's default application name. */
const UNNAMED = 'postgres.js'

/**
 * Resolves the options for the store's connections. The server, credentials, TLS and session parameters come from the
 * connection string or the host's pool, while all options about statements are our own.
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
    // With `debug`, errors would include statement parameters.
    debug: false,
    onnotice: () => {},
    onparameter: undefined,
    // postgres.js would query the array types on every new connection, and crash the process if the connection is lost
    // during that query.
    fetch_types: false,
    // The store has its own timers for these, which don't keep the process alive.
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

/** Settings our statements rely on, however the server, database and role are configured. */
function sessionParameters(statementTimeoutMs: number): Record<string, string | number> {
  return {
    // Keeps abandoned statements from waiting for a lock forever.
    statement_timeout: statementTimeoutMs + SERVER_TIMEOUT_EXTRA_MS,
    // Must fire before the caller's deadline, since an abandoned statement must not write anything.
    lock_timeout: Math.ceil(statementTimeoutMs * LOCK_SHARE),
    default_transaction_isolation: 'read committed',
    // Our statements disable sorting, which inflates the cost of some plans. A server with LLVM would then JIT-compile
    // them on every call. See sql/00-planner.sql.
    jit: 'off',
    // Sessions cache plans. One made for an empty table would keep scanning the whole table after it has grown.
    enable_seqscan: 'off',
    // Keeps operators in other schemas from shadowing PostgreSQL's own.
    search_path: 'pg_catalog',
    // Returns rate limits with all their digits.
    extra_float_digits: 1,
  }
}
