import { shareInstances } from './shared-class.ts'

/** Thrown by a store that's unreachable or doesn't respond in time. The API responds with a 503. */
export const STORE_UNAVAILABLE = 'store_unavailable'

/** Thrown by the typed calls if your code passes an invalid value. The API never throws it. */
export const INVALID_INPUT = 'invalid_input'

/**
 * Thrown if the organization already has a record with this unique number or id. Nothing was changed. Stores throw it
 * for invoice and proposal numbers, typed calls for ids chosen by the caller.
 */
export const ALREADY_EXISTS = 'already_exists'

/** Thrown by the typed calls if the organization doesn't have a record with this id. The API never throws it. */
export const NOT_FOUND = 'not_found'

/** Thrown by `publish` if an event's `data` doesn't match its type's schema. */
export const INVALID_EVENT = 'invalid_event'

/** Thrown by the typed calls if the record's current state doesn't allow the change. Nothing was changed. */
export const INVALID_STATE = 'invalid_state'

/** Thrown by the typed settings calls if a limit is reached, like the number of keys. Nothing was changed. */
export const LIMIT_REACHED = 'limit_reached'

/** Thrown by `invoices.recordPayment` if the payment exceeds the amount due. Nothing was changed. */
export const OVERPAYMENT = 'overpayment'

/** Thrown by the typed calls if the idempotency key was used for a different request. The API responds with a 422. */
export const IDEMPOTENCY_KEY_REUSED = 'idempotency_key_reused'

/** Thrown by the typed calls if a call with the same idempotency key is in progress. The API responds with a 409. */
export const IDEMPOTENCY_KEY_IN_USE = 'idempotency_key_in_use'

/** Thrown by the typed calls and the delivery loop if a signing secret can't be sealed or opened with your keys. */
export const SECRET_UNAVAILABLE = 'secret_unavailable'

/** Thrown by every PostgreSQL store call if `migrate` was never run. The API responds with a 500. */
export const SCHEMA_MISSING = 'schema_missing'

/** Thrown by calls that need a pending migration from this version. Run `migrate`. The API responds with a 500. */
export const SCHEMA_OUTDATED = 'schema_outdated'

/** Thrown (even by `migrate`) if this version is too old for the database schema. The API responds with a 500. */
export const SCHEMA_TOO_NEW = 'schema_too_new'

/** Thrown by the PostgreSQL store if its role lacks the privilege named in the message. The API responds with a 500. */
export const MISSING_PRIVILEGE = 'missing_privilege'

/**
 * Thrown by sharded stores if the organization is on a different shard than the call's store or transaction, or if the
 * databases don't match their shard names. Nothing was written. The API responds with a 500.
 */
export const WRONG_SHARD = 'wrong_shard'

/** All {@link BusinessApiError} codes. */
export type ErrorCode =
  | typeof STORE_UNAVAILABLE
  | typeof INVALID_INPUT
  | typeof ALREADY_EXISTS
  | typeof NOT_FOUND
  | typeof INVALID_EVENT
  | typeof INVALID_STATE
  | typeof LIMIT_REACHED
  | typeof OVERPAYMENT
  | typeof IDEMPOTENCY_KEY_REUSED
  | typeof IDEMPOTENCY_KEY_IN_USE
  | typeof SECRET_UNAVAILABLE
  | typeof SCHEMA_MISSING
  | typeof SCHEMA_OUTDATED
  | typeof SCHEMA_TOO_NEW
  | typeof MISSING_PRIVILEGE
  | typeof WRONG_SHARD

interface ErrorDetails {
  readonly cause?: unknown
  readonly record?: object | null
  readonly fields?: readonly string[]
}

/**
 * All errors that the library expects have this class. Check `code` to tell them apart. Programming mistakes like a bad
 * option or wrong argument throw a `TypeError` or `RangeError` instead.
 */
export class BusinessApiError extends Error {
  static {
    shareInstances(BusinessApiError, 'BusinessApiError')
  }

  override readonly name = 'BusinessApiError'
  readonly code: ErrorCode
  // Private because logging the error must not expose the record, which may contain a URL with a token.
  readonly #record: object | null
  /**
   * The names of the fields that the error is about, for example `dueDate`, or `data.invoiceId` for a field in an
   * event's data. Empty if it isn't about a field.
   */
  readonly fields: readonly string[]

  constructor(
    code: ErrorCode,
    message: string,
    { record = null, fields = [], ...options }: ErrorDetails = {},
  ) {
    super(message, options)
    this.code = code
    this.#record = record
    this.fields = fields
  }

  /**
   * The existing record with that id if the code is {@link ALREADY_EXISTS}, in the same format that the calls return.
   * `null` if that record was removed, and for every other code.
   */
  get record(): object | null {
    return this.#record
  }
}

/**
 * Creates the error for a store to throw if its database is unreachable. The API responds with a 503, not a 500.
 *
 * @param message the action, then the reason
 *
 * @example
 * ```ts
 * throw storeUnavailable('Cannot list clients because the connection was refused')
 * ```
 */
export function storeUnavailable(message: string, cause?: unknown): BusinessApiError {
  return new BusinessApiError(STORE_UNAVAILABLE, message, { cause })
}

/** Creates the error for a rejected call. @param action the start of the message, like `Cannot issue the invoice` */
export function refused(
  action: string,
  code: ErrorCode,
  reason: string,
  fields: readonly string[] = [],
): BusinessApiError {
  return new BusinessApiError(code, `${action} because ${reason}`, { fields })
}

/** Returns `true` if the error means that the store is currently unreachable, `false` if it's a bug. */
export function isStoreUnavailable(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === STORE_UNAVAILABLE
}
