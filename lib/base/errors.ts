/** Thrown by a store that can't be reached or doesn't respond in time. The API responds with 503. */
export const STORE_UNAVAILABLE = 'store_unavailable'

/** Thrown by the typed calls if a value passed by your code is invalid. The API never throws it. */
export const INVALID_INPUT = 'invalid_input'

/**
 * Thrown if another record of the organization already has this unique number or id. Nothing was changed. Stores throw
 * it for invoice and proposal numbers, typed calls for ids chosen by the caller.
 */
export const ALREADY_EXISTS = 'already_exists'

/** Thrown by the typed calls if the organization has no record with this id. The API never throws it. */
export const NOT_FOUND = 'not_found'

/** Thrown by `publish` if an event's `data` doesn't match the schema of its type. */
export const INVALID_EVENT = 'invalid_event'

/** Thrown by the typed calls if the record's current state doesn't allow the change. Nothing was changed. */
export const INVALID_STATE = 'invalid_state'

/** Thrown by the typed settings calls if a limit is reached, such as the number of keys. Nothing was changed. */
export const LIMIT_REACHED = 'limit_reached'

/** Thrown by `invoices.recordPayment` if the payment exceeds the amount due. Nothing was changed. */
export const OVERPAYMENT = 'overpayment'

/** Thrown by the typed calls if the idempotency key was used for a different request. The API responds with 422. */
export const IDEMPOTENCY_KEY_REUSED = 'idempotency_key_reused'

/** Thrown by the typed calls if a call with the same idempotency key is still running. The API responds with 409. */
export const IDEMPOTENCY_KEY_IN_USE = 'idempotency_key_in_use'

/** Thrown by the typed calls and the delivery loop if your keys can't seal or open a signing secret. */
export const SECRET_UNAVAILABLE = 'secret_unavailable'

/** Thrown by all calls of the PostgreSQL store if `migrate` was never called. The API responds with 500. */
export const SCHEMA_MISSING = 'schema_missing'

/** Thrown by calls that need a pending migration of this version. Call `migrate`. The API responds with 500. */
export const SCHEMA_OUTDATED = 'schema_outdated'

/** Thrown if this version is too old for the database schema, including by `migrate`. The API responds with 500. */
export const SCHEMA_TOO_NEW = 'schema_too_new'

/** Thrown by the PostgreSQL store if its role lacks the privilege in the message. The API responds with 500. */
export const MISSING_PRIVILEGE = 'missing_privilege'

/**
 * Thrown by sharded stores if the organization belongs to a different shard than the store or transaction of the call,
 * or if the databases don't match their shard names. Nothing was written. The API responds with 500.
 */
export const WRONG_SHARD = 'wrong_shard'

/** All codes of a {@link BusinessApiError}. */
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
 * The class of all errors that the library expects. Check `code` to tell them apart. Programming mistakes such as a bad
 * option or a wrong argument throw a `TypeError` or `RangeError` instead.
 */
export class BusinessApiError extends Error {
  override readonly name = 'BusinessApiError'
  readonly code: ErrorCode
  // // Private because a logged error must not include the record, which may contain a URL with a token.
  readonly #record: object | null
  /**
   * The names of the fields that the message is about, for example `dueDate`, or `data.invoiceId` for a field of an
   * event's data. Empty if the error isn't about a field.
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
   * `null` if that record was removed, and for all other codes.
   */
  get record(): object | null {
    return this.#record
  }
}

/**
 * Creates the error that a store throws if its database can't be reached. The API responds with 503, not 500.
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

/** Creates the error of a rejected call. @param action the start of the message, such as `Cannot issue the invoice` */
export function refused(
  action: string,
  code: ErrorCode,
  reason: string,
  fields: readonly string[] = [],
): BusinessApiError {
  return new BusinessApiError(code, `${action} because ${reason}`, { fields })
}

/** Returns `true` if an error thrown by a store means that the store is currently unreachable, `false` for a bug. */
export function isStoreUnavailable(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === STORE_UNAVAILABLE
}
