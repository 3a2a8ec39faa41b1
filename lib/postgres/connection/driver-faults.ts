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

// PostgreSQL, driver and network errors, grouped by meaning. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html

/** The connection was lost while a statement was running, which may or may not have been executed. */
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

/** PostgreSQL rolled back the statement because of other transactions. A retry may succeed. */
const CONFLICT = [
  '40001', // serialization_failure: the host's default isolation level is stricter than read committed
  '40P01', // deadlock_detected
]

/** The statement wasn't executed, was rolled back, or lost its connection. Later statements may succeed. */
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
  'ENOENT', // the Unix socket doesn't exist
  '3D000', // invalid_catalog_name: the database doesn't exist
  '25006', // read_only_sql_transaction: a standby, or a failover in progress
  'ERR_TARGET_SESSION_ATTRS', // no server has the role that the connection string asks for
  ...CONFLICT,
  '53000', // insufficient_resources
  '53100', // disk_full
  '53200', // out_of_memory
  '53300', // too_many_connections
  '55P03', // lock_not_available
  '57014', // query_canceled: the host's statement_timeout
  '57P04', // database_dropped
  '57P03', // cannot_connect_now: starting up or shutting down
])

const LOCK_NOT_AVAILABLE = '55P03'

/** Returns `true` if the connection was lost while a statement was running. The statement may have been executed. */
export function isConnectionLost(error: unknown): boolean {
  return CONNECTION_LOST.has(codeOf(error))
}

/** Returns `true` if a later statement may succeed. */
export function isUnavailable(error: unknown): boolean {
  const code = codeOf(error)
  // connection_exception and invalid_authorization_specification
  return UNAVAILABLE.has(code) || code.startsWith('08') || code.startsWith('28') || isReadOnlyServer(error)
}

/** Human-readable reasons for PostgreSQL's error codes. */
const REASONS: Readonly<Record<string, string>> = {
  '40001': 'other transactions changed the same records',
  '40P01': 'the statement and another transaction waited for locks of each other',
  '25006': 'the server is read-only: is it a standby, or is default_transaction_read_only set?',
  '0A000': 'the server is read-only: is it a standby?',
  '23503': 'another transaction deleted the record that it belongs to',
  '23505': 'other transactions wrote the same record',
  '53100': 'the disk of the server is full',
  '53200': 'the server is out of memory',
  '53300': 'the server has no free connection',
  '55P03': 'another transaction held a lock for too long',
  '57014': 'the server cancelled the statement on timeout',
}

/** Creates the error for a statement that couldn't be executed. The message contains a reason but no details. */
export function unavailable(error: unknown, action = 'run a statement'): BusinessApiError {
  const reason = REASONS[codeOf(error)]
  if (reason !== undefined) return storeUnavailable(`Cannot ${action} because ${reason}`, error)
  const fault = connectionFault(error)
  return storeUnavailable(`Cannot reach PostgreSQL${fault === null ? '' : `: ${fault}`}`, error)
}

const READ_ONLY = '25006'
const FEATURE_NOT_SUPPORTED = '0A000'

/**
 * Returns `true` if the server is read-only, for example a standby or a former primary during a failover. A server in
 * recovery can't even read the unlogged rate limit table. That failure is recognized by `routine`, because its code has
 * other meanings and messages are localized.
 */
export function isReadOnlyServer(error: unknown): boolean {
  const code = codeOf(error)
  const isUnloggedInRecovery =
    code === FEATURE_NOT_SUPPORTED && textOf(error, 'routine') === 'get_relation_info'
  return code === READ_ONLY || isUnloggedInRecovery
}

const PROTOCOL_VIOLATION = '08P01'

/**
 * Returns the startup parameter that a pooler such as PgBouncer rejected. Empty if unnamed, `null` for any other error.
 */
function refusedParameter(error: unknown): string | null {
  if (codeOf(error) !== PROTOCOL_VIOLATION) return null
  const found = /startup parameter(?: in options)?(?:: "?([\w.]+))?/.exec(textOf(error, 'message'))
  return found && (found[1] ?? '')
}

/** Creates the error for a statement that didn't get a connection. Keeps a lost connection's error, so it's retried. */
export function openFailure(error: unknown): unknown {
  // Caused by an invalid environment variable or TLS file.
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

/** Returns `true` if the connection is still usable because the server only rejected the statement. */
export function leavesConnectionUsable(error: unknown): boolean {
  const code = codeOf(error)
  const isRefusal =
    textOf(error, 'severity') === 'ERROR' && !code.startsWith('08') && !isConnectionLost(error)
  return isRefusal && !isReadOnlyServer(error)
}

/**
 * Unique constraints violated when concurrent statements both check for a record and then insert one. For example, a
 * user may pick a document number that is also next in the series, or a statement that we gave up on may still commit a
 * client or payment. The retry sees the other record.
 */
const WRITTEN_BY_ANOTHER = [
  'businesses_organization_id_client_id_idx',
  'payments_pkey',
  'invoices_organization_id_number_key',
  'proposals_organization_id_number_key',
]

/**
 * Foreign keys that are only violated if the parent is deleted right after the lookup. The retry reports "not found".
 */
const OF_PARENTS = ['leads_organization_id_business_id_fkey', 'payments_organization_id_invoice_id_fkey']

const UNIQUE_VIOLATION = '23505'
const FOREIGN_KEY_VIOLATION = '23503'

/** Returns `true` if PostgreSQL rolled back the statement because of other transactions. */
export function isConflict(error: unknown): boolean {
  const code = codeOf(error)
  if (code === UNIQUE_VIOLATION) return WRITTEN_BY_ANOTHER.includes(constraintOf(error))
  return CONFLICT.includes(code) || isParentGone(error)
}

/** Returns `true` if another transaction deleted the parent of the record being written. */
export function isParentGone(error: unknown): boolean {
  return codeOf(error) === FOREIGN_KEY_VIOLATION && OF_PARENTS.includes(constraintOf(error))
}

/** Returns `true` if the statement timed out waiting for an idempotency key's lock, as opposed to any other lock. */
export function isKeyHeld(error: unknown): boolean {
  return codeOf(error) === LOCK_NOT_AVAILABLE && textOf(error, 'where').includes('idempotency_keys')
}

/** Values that PostgreSQL can't store. Other codes of class 22 mean that the statement itself is wrong. */
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
 * Creates the error for a statement that PostgreSQL rejected because of the data being written. The original error
 * becomes the `cause` and is always reported, since our validation has a bug unless the host added the constraint.
 *
 * @returns `null` for any other failure
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

/** Error code raised by `business_api.reject_elsewhere`. */
const ELSEWHERE = 'BA001'

/** Returns an organization's current shard if a statement was sent to the wrong one, or `null` for any other error. */
export function placeElsewhere(
  error: unknown,
): { organizationId: string; name: string; version: number } | null {
  const cause = error instanceof BusinessApiError ? error.cause : null
  return codeOf(cause) === ELSEWHERE ? JSON.parse(textOf(cause, 'detail')) : null
}

/**
 * Returns the violated rule: a constraint such as `invoices_total_check`, a not-null column, or one of the {@link
 * OF_VALUES} codes. Returns an empty string if there is none, or if a day's event partition is missing, in which case
 * PostgreSQL doesn't name a constraint.
 */
function brokenRule(error: unknown): string {
  const code = codeOf(error)
  if (OF_VALUES.includes(code)) return code
  if (code === NOT_NULL_VIOLATION) return textOf(error, 'column_name') || textOf(error, 'column') || code
  return code.startsWith('23') ? constraintOf(error) : ''
}

/** Returns the message of `business_api.insert_events` if an event body is too large. */
function tooLargeEvent(error: unknown): string | undefined {
  // Some drivers omit the constraint name, but the message comes from our function and is never localized.
  const isTooLarge =
    constraintOf(error) === 'event_limits_max_body_bytes' ||
    TOO_LARGE_EVENT.test(textOf(error, 'message').split('\n', 1)[0] ?? '')
  if (!isTooLarge) return undefined
  return `${textOf(error, 'message')}. ${textOf(error, 'hint')}`
}

const TOO_LARGE_EVENT = /^Cannot publish \S+ because its body has \d+ bytes, more than the maximum of \d+$/

/** Returns the violated constraint, which is `constraint_name` in postgres.js and `constraint` in pg. */
function constraintOf(error: unknown): string {
  return textOf(error, 'constraint_name') || textOf(error, 'constraint')
}

const CAUSES_MAX = 8

/**
 * Finds the PostgreSQL or network error inside an error of the host's driver or query builder. pg has no code for lost
 * connections, so those get `CONNECTION_CLOSED`.
 *
 * @returns the given error if nothing in the cause chain has a code
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
