import {
  BusinessApiError,
  type ErrorCode,
  INVALID_EVENT,
  INVALID_INPUT,
  NOT_FOUND,
  storeUnavailable,
  WRONG_SHARD,
} from '../../base/errors.ts'
import { connectionFault } from './connection-fault.ts'
import { isSessionParameter } from './driver-options.ts'

// The errors of PostgreSQL, the driver and the network, by meaning. See https://www.postgresql.org/docs/current/errcodes-appendix.html

/** The connection went away under the statement. The statement may have run. */
const CONNECTION_LOST = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'ECONNRESET',
  'EPIPE',
  '08006', // connection_failure
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P05', // idle_session_timeout
])

/** PostgreSQL undid the statement because of other transactions; a retry of the statement may succeed. */
const CONFLICT = [
  '40001', // serialization_failure: the host's default isolation is stricter than read committed
  '40P01', // deadlock_detected
]

/** The statement did not run, was undone, or lost the connection, and a later statement may succeed. */
const UNAVAILABLE = new Set([
  ...CONNECTION_LOST,
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'ETIMEDOUT',
  'ENOENT', // no such Unix socket
  '3D000', // invalid_catalog_name: no such database
  '25006', // read_only_sql_transaction: a standby, during a failover
  'ERR_TARGET_SESSION_ATTRS', // no server has the role that the connection string asks for
  ...CONFLICT,
  '53000', // insufficient_resources
  '53100', // disk_full
  '53200', // out_of_memory
  '53300', // too_many_connections
  '55P03', // lock_not_available
  '57014', // query_canceled, by the host's statement_timeout
  '57P04', // database_dropped
  '57P03', // cannot_connect_now: starting up or shutting down
])

/** Another transaction held a lock for longer than the statement's lock_timeout. */
const LOCK_NOT_AVAILABLE = '55P03'

/** True if the connection was lost under a statement. The statement may have run. */
export function isConnectionLost(error: unknown): boolean {
  return CONNECTION_LOST.has(codeOf(error))
}

/** True if a later statement may succeed. */
export function isUnavailable(error: unknown): boolean {
  const code = codeOf(error)
  // Classes: connection exception, invalid authorization.
  return UNAVAILABLE.has(code) || code.startsWith('08') || code.startsWith('28') || isReadOnlyServer(error)
}

/** Reasons of failures that PostgreSQL itself reported, by code. */
const REASONS: Readonly<Record<string, string>> = {
  '40001': 'other transactions changed the same records again and again',
  '40P01': 'the statement and another transaction waited for locks of each other',
  '25006': 'the server is read-only: is it a standby, or is default_transaction_read_only set?',
  '0A000': 'the server is read-only: is it a standby?',
  '23503': 'another transaction deleted the record that it belongs to',
  '23505': 'other transactions wrote the same record again and again',
  '53100': 'the disk of the server is full',
  '53200': 'the server is out of memory',
  '53300': 'the server has no free connection',
  '55P03': 'another transaction held a lock for too long',
  '57014': 'the server cancelled the statement on timeout',
}

/** Creates the error for a statement that could not be run: the failure and the reason, without details of the cause. */
export function unavailable(error: unknown): BusinessApiError {
  const reason = REASONS[codeOf(error)]
  if (reason !== undefined) return storeUnavailable(`Cannot run a statement because ${reason}`, error)
  const fault = connectionFault(error)
  return storeUnavailable(`Cannot reach PostgreSQL${fault === null ? '' : `: ${fault}`}`, error)
}

const READ_ONLY = '25006'
const FEATURE_NOT_SUPPORTED = '0A000'

/**
 * True if the server cannot write: a standby, or a former primary during a failover. A server in recovery cannot even read
 * the unlogged table of the rate limits. The `routine` of the error identifies that failure, because different failures share the
 * code and messages are translated.
 */
export function isReadOnlyServer(error: unknown): boolean {
  const code = codeOf(error)
  const isUnloggedInRecovery =
    code === FEATURE_NOT_SUPPORTED && textOf(error, 'routine') === 'get_relation_info'
  return code === READ_ONLY || isUnloggedInRecovery
}

const PROTOCOL_VIOLATION = '08P01'

/**
 * Returns the parameter for which a pooler in transaction mode has rejected a connection, as PgBouncer does; null for another failure, and
 * an empty string for a parameter without a name.
 */
function refusedParameter(error: unknown): string | null {
  if (codeOf(error) !== PROTOCOL_VIOLATION) return null
  const found = /startup parameter(?: in options)?(?:: "?([\w.]+))?/.exec(textOf(error, 'message'))
  return found && (found[1] ?? '')
}

/**
 * Creates the error for a statement that got no connection. The error of a lost connection stays unchanged, because the
 * statement is then sent once more.
 */
export function openFailure(error: unknown): unknown {
  // An environment variable or a file of TLS that cannot be used.
  if (error instanceof TypeError) return storeUnavailable(error.message, error)
  const refused = refusedParameter(error)
  if (refused !== null) {
    const what = refused === '' ? 'session parameters' : `the session parameter ${refused}`
    const advice =
      refused === '' || isSessionParameter(refused)
        ? "set option 'sessions' to false, and leave such parameters out of the connection string"
        : 'leave it out of the connection string, or let it through in the pooler'
    return storeUnavailable(`Cannot use PostgreSQL because its pooler rejects ${what}: ${advice}`, error)
  }
  return isConnectionLost(error) ? error : unavailable(error)
}

/** True if a connection can be used again after the failure of a statement, because the server rejected only that statement. */
export function leavesConnectionUsable(error: unknown): boolean {
  const code = codeOf(error)
  const isRefusal =
    textOf(error, 'severity') === 'ERROR' && !code.startsWith('08') && !isConnectionLost(error)
  return isRefusal && !isReadOnlyServer(error)
}

/**
 * Constraints on records that two statements can both find missing and both write: a document number given by hand that is also
 * next in the series; a client or a payment of a statement that counted as lost and commits late. A retry of the second statement sees the record of the first.
 */
const WRITTEN_BY_ANOTHER = [
  'businesses_organization_id_client_id_idx',
  'payments_pkey',
  'invoices_organization_id_number_key',
  'proposals_organization_id_number_key',
]

/**
 * Foreign keys between records. A statement that found the parent breaks them only if another transaction has deleted the parent since. A
 * retry of the statement misses the parent, and says so.
 */
const OF_PARENTS = ['leads_organization_id_business_id_fkey', 'payments_organization_id_invoice_id_fkey']

const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'

/** True if PostgreSQL undid a statement because of other transactions. */
export function isConflict(error: unknown): boolean {
  const code = codeOf(error)
  if (code === UNIQUE_VIOLATION) return WRITTEN_BY_ANOTHER.includes(constraintOf(error))
  return CONFLICT.includes(code) || isParentGone(error)
}

/** True if another transaction has deleted the parent of a record that is being written. */
export function isParentGone(error: unknown): boolean {
  return codeOf(error) === FOREIGN_KEY_VIOLATION && OF_PARENTS.includes(constraintOf(error))
}

/** True if a statement failed because the lock of an idempotency key was not free in time; false for any other lock. */
export function isKeyHeld(error: unknown): boolean {
  return codeOf(error) === LOCK_NOT_AVAILABLE && textOf(error, 'where').includes('idempotency_keys')
}

/** Codes of values that PostgreSQL cannot take. Other codes of this class mean that the statement is wrong, not a value. */
const OF_VALUES = [
  '22001', // string_data_right_truncation
  '22003', // numeric_value_out_of_range
  '22007', // invalid_datetime_format
  '22008', // datetime_field_overflow
  '22021', // character_not_in_repertoire
  '22P02', // invalid_text_representation
  '22P05', // untranslatable_character
]

const NOT_NULL_VIOLATION = '23502'

/**
 * Creates the error for a statement that PostgreSQL rejected because of what it writes; null for any other failure. The original error
 * is the cause, and every door reports it: a value that the library let through is a bug of the library, unless the rule is the host's.
 */
export function rejection(error: unknown): BusinessApiError | null {
  const reject = (code: ErrorCode, message: string): BusinessApiError =>
    new BusinessApiError(code, message, { cause: error })
  if (codeOf(error) === ELSEWHERE)
    return reject(WRONG_SHARD, `${textOf(error, 'message')}; nothing was written`)
  const tooLarge = tooLargeEvent(error)
  if (tooLarge !== undefined) return reject(INVALID_EVENT, tooLarge)
  if (isParentGone(error))
    return reject(
      NOT_FOUND,
      'Cannot write the record because the record that it belongs to was deleted meanwhile',
    )
  const rule = brokenRule(error)
  return rule ? reject(INVALID_INPUT, `Cannot write the record because it breaks ${rule}`) : null
}

/** Code of business_api.reject_elsewhere. */
const ELSEWHERE = 'BA001'

/** The place of an organization, by which a statement on another shard was rejected; null for any other error. */
export function placeElsewhere(
  error: unknown,
): { organizationId: string; name: string; version: number } | null {
  const cause = error instanceof BusinessApiError ? error.cause : null
  return codeOf(cause) === ELSEWHERE ? JSON.parse(textOf(cause, 'detail')) : null
}

/**
 * Returns the rule that a record breaks: a constraint (`invoices_total_check`), a column that is not null, or a code of {@link OF_VALUES}.
 * Empty for none, also for a missing day of events, which no constraint names.
 */
function brokenRule(error: unknown): string {
  const code = codeOf(error)
  if (OF_VALUES.includes(code)) return code
  if (code === NOT_NULL_VIOLATION) return textOf(error, 'column_name') || textOf(error, 'column') || code
  return code.startsWith('23') ? constraintOf(error) : ''
}

/** Returns the message of business_api.insert_events for a body over the event limit; otherwise undefined. */
function tooLargeEvent(error: unknown): string | undefined {
  // A driver that leaves the name of the constraint out still gives the function's own message. The message is never translated.
  const isTooLarge =
    constraintOf(error) === 'event_limits_max_body_bytes' ||
    TOO_LARGE_EVENT.test(textOf(error, 'message').split('\n', 1)[0] ?? '')
  if (!isTooLarge) return undefined
  return `${textOf(error, 'message')}. ${textOf(error, 'hint')}`
}

const TOO_LARGE_EVENT = /^Cannot publish \S+ because its body has \d+ bytes, more than the maximum of \d+$/

/** The name of the broken constraint: `constraint_name` of postgres.js, `constraint` of pg. */
function constraintOf(error: unknown): string {
  return textOf(error, 'constraint_name') || textOf(error, 'constraint')
}

const CAUSES_MAX = 8

/**
 * Finds the PostgreSQL or network error in an error of the host's driver: query builders wrap the driver's error. An error of pg for a
 * lost connection has no code, and gets the code CONNECTION_CLOSED.
 *
 * @returns the given error if nothing in its chain of causes has a code
 */
export function driverError(error: unknown): unknown {
  let at: unknown = error
  for (let depth = 0; at instanceof Error && depth < CAUSES_MAX; depth++) {
    if (codeOf(at) !== '') return at
    if (PG_LOST.test(at.message)) return Object.assign(new Error(at.message, { cause: at }), LOST)
    at = at.cause
  }
  return error
}

const PG_LOST = /^Connection terminated|is not queryable$|^Query read timeout$/
const LOST = { code: 'CONNECTION_CLOSED' }

function codeOf(error: unknown): string {
  return textOf(error, 'code')
}

function textOf(error: unknown, property: string): string {
  const value: unknown = error instanceof Error ? Reflect.get(error, property) : undefined
  return typeof value === 'string' ? value : ''
}
