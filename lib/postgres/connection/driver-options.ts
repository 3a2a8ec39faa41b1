import { type DriverOptions, readDefaults } from './source.ts'

/** The store's options about its connections. */
export interface SessionOptions {
  /** Prepares statements. Default: `prepare` of the source, or true. */
  readonly prepare?: boolean | undefined
  /** True if each connection has a session of its own in the server; false behind a pooler in transaction mode. */
  readonly sessions: boolean
  readonly statementTimeoutMs: number
}

/**
 * Milliseconds by which the server's limit exceeds the statement's time in the process, the longest wait for an idempotency key
 * included: the process ends the wait first, the server last.
 */
const SERVER_TIMEOUT_EXTRA_MS = 5000

/** Share of a statement's timeout that it may wait for a lock. The rest is for the work and for returning the result. */
const LOCK_SHARE = 0.8

/** No `transform`, in the driver's resolved form. The host's transforms are for the host's rows. */
const UNTRANSFORMED = { undefined: undefined, column: {}, value: {}, row: {} }

/** The name that postgres.js gives to unnamed connections. */
const UNNAMED = 'postgres.js'

/**
 * Resolves the options of the store's connections from a connection string or a host's pool. Server, user, password, TLS and
 * session parameters stay the same. Every option about statements is the store's own.
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
    // With `fetch_types`, postgres.js first queries the array types on every connection, and a connection that dies during
    // that query ends the process.
    fetch_types: false,
    // The store has timers of its own for these times, which do not keep the process alive.
    connect_timeout: null,
    idle_timeout: null,
    max_lifetime: null,
    target_session_attrs: null,
  }
  return { ...given, ...own } as unknown as DriverOptions
}

/** True if the store itself sets a parameter in its sessions. */
export function isSessionParameter(name: string): boolean {
  return Object.hasOwn(sessionParameters(0), name)
}

/** The settings on which the statements rely, whatever the server, the database and the role set. */
function sessionParameters(statementTimeoutMs: number): Record<string, string | number> {
  return {
    // Without limits an abandoned statement could wait for a lock forever.
    statement_timeout: statementTimeoutMs + SERVER_TIMEOUT_EXTRA_MS,
    // The wait for a lock ends before the caller's deadline, because an abandoned statement must write nothing.
    lock_timeout: Math.ceil(statementTimeoutMs * LOCK_SHARE),
    default_transaction_isolation: 'read committed',
    // A plan that is forbidden to sort has a huge cost, for which a server with LLVM compiles the plan at each call: see sql/00-planner.sql.
    jit: 'off',
    // A session keeps its plans. One that was made for an empty table would read the table from end to end once it is large.
    enable_seqscan: 'off',
    // An operator of another schema must not take the place of PostgreSQL's.
    search_path: 'pg_catalog',
    // The limits of requests are shown with all their digits.
    extra_float_digits: 1,
  }
}
