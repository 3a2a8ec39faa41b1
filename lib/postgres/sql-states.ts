// What PostgreSQL and the way to it can say, by meaning. See https://www.postgresql.org/docs/current/errcodes-appendix.html

/** The statement may or may not have run: the connection went away under it. */
const CONNECTION_LOST = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'ECONNRESET',
  'EPIPE',
  '08006', // connection_failure
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
])

/** The statement did not run or was undone, and may succeed later. */
const UNAVAILABLE = new Set([
  ...CONNECTION_LOST,
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'ENOENT', // a Unix socket that is not there
  '25006', // read_only_sql_transaction: a standby, during a failover
  '40001', // serialization_failure
  '40P01', // deadlock_detected
  '53000', // insufficient_resources
  '53100', // disk_full
  '53200', // out_of_memory
  '53300', // too_many_connections
  '55P03', // lock_not_available
  '57014', // query_canceled, by the host's statement_timeout
  '57P03', // cannot_connect_now: starting up or shutting down
])

/** Somebody else held a lock for longer than the statement's lock_timeout. */
const LOCK_NOT_AVAILABLE = '55P03'

/** Whether a statement was lost with its connection, so that nobody knows whether it ran. */
export function isConnectionLost(error: unknown): boolean {
  return CONNECTION_LOST.has(codeOf(error))
}

/** Whether the database cannot do it now, rather than not at all. */
export function isUnavailable(error: unknown): boolean {
  const code = codeOf(error)
  return UNAVAILABLE.has(code) || code.startsWith('08')
}

/** Whether a lock was not to be had in time. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === LOCK_NOT_AVAILABLE
}

/** Constraints whose violation is something that a host wants to know by name. */
const UNIQUE_NUMBERS = new Set([
  'invoices_organization_id_number_key',
  'proposals_organization_id_number_key',
])
const UNIQUE_VIOLATION = '23505'

/** Whether a record was refused because another one has its number. */
export function isNumberTaken(error: unknown): boolean {
  return (
    codeOf(error) === UNIQUE_VIOLATION &&
    error instanceof Error &&
    'constraint_name' in error &&
    UNIQUE_NUMBERS.has(String(error.constraint_name))
  )
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
