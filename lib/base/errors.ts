/** The store could not be reached or did not respond in time. Thrown by stores; the API responds with 503. */
export const STORE_UNAVAILABLE = 'store_unavailable'

/** A value given by the host's code breaks a rule of the library. Thrown by the typed calls, never by the API. */
export const INVALID_INPUT = 'invalid_input'

/**
 * Another record of the organization has the number or the id that must be unique, and nothing was changed. Thrown by stores
 * for the numbers of invoices and proposals, and by the typed calls for ids that the caller has chosen.
 */
export const ALREADY_EXISTS = 'already_exists'

/** No record with this id belongs to the organization. Thrown by the typed calls, never by the API. */
export const NOT_FOUND = 'not_found'

/** An event's `data` violates its type's schema. Thrown by `publish`. */
export const INVALID_EVENT = 'invalid_event'

/** The present state of the record does not allow the change; nothing was changed. Thrown by the typed calls. */
export const INVALID_STATE = 'invalid_state'

/**
 * The organization has as many records of the kind, or has sent as many tests, as the limit allows; nothing was changed.
 * Thrown by the typed calls of the settings.
 */
export const LIMIT_REACHED = 'limit_reached'

/** More was paid than is due; nothing was changed. Thrown by `invoices.recordPayment`. */
export const OVERPAYMENT = 'overpayment'

/** The idempotency key was used before, for something else. Thrown by the typed calls; the API responds with 422. */
export const IDEMPOTENCY_KEY_REUSED = 'idempotency_key_reused'

/** Another call with that idempotency key has not ended: try again soon. Thrown by the typed calls; the API responds with 409. */
export const IDEMPOTENCY_KEY_IN_USE = 'idempotency_key_in_use'

/**
 * The host's sealing keys cannot seal a signing secret, or cannot open the secret in question. Thrown by the typed
 * calls and by the delivery loop.
 */
export const SECRET_UNAVAILABLE = 'secret_unavailable'

/** The database was never migrated: call `migrate`. Thrown by every call of the PostgreSQL store; the API responds with 500. */
export const SCHEMA_MISSING = 'schema_missing'

/** Migrations of this version are pending: call `migrate`. Thrown by calls that need them; the API responds with 500. */
export const SCHEMA_OUTDATED = 'schema_outdated'

/**
 * The database holds a schema that this version cannot run against. Thrown by `migrate`, and by calls that fail because of
 * it; the API responds with 500.
 */
export const SCHEMA_TOO_NEW = 'schema_too_new'

/**
 * The role of the database connection lacks a privilege; the message says what PostgreSQL denied. Thrown by every call of the PostgreSQL
 * store; the API responds with 500.
 */
export const MISSING_PRIVILEGE = 'missing_privilege'

/**
 * The organization belongs to another shard than the call's store or transaction, or a sharded store's databases don't match their
 * shard names; nothing was written. Thrown by sharded stores; the API responds with 500.
 */
export const WRONG_SHARD = 'wrong_shard'

/** Every code of a {@link BusinessApiError}. */
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
 * Every error that the library expects; `code` tells a host the kind. Misuse by the programmer (a bad option, a wrong
 * argument) is a `TypeError` or `RangeError` instead.
 */
export class BusinessApiError extends Error {
  override readonly name = 'BusinessApiError'
  readonly code: ErrorCode
  // Private, so a logged error never repeats the record's fields: a URL may contain a token.
  readonly #record: object | null
  /** The names of the fields that the message is about: `dueDate`, and of an event's data `data.invoiceId`. Empty for an error about none. */
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
   * The record that has the id, as the calls show the record, with {@link ALREADY_EXISTS}; null when that record was
   * removed, and with every other code.
   */
  get record(): object | null {
    return this.#record
  }
}

/**
 * Creates the error that a store throws when its database can't be reached: the caller gets 503, not 500.
 *
 * @param message the action, then the reason
 * @example
 * ```ts
 * throw storeUnavailable('Cannot list clients because the connection was refused')
 * ```
 */
export function storeUnavailable(message: string, cause?: unknown): BusinessApiError {
  return new BusinessApiError(STORE_UNAVAILABLE, message, { cause })
}

/** Creates the error of a call that is rejected. @param action the beginning of the message: `Cannot issue the invoice` */
export function refused(
  action: string,
  code: ErrorCode,
  reason: string,
  fields: readonly string[] = [],
): BusinessApiError {
  return new BusinessApiError(code, `${action} because ${reason}`, { fields })
}

/** Returns true if a value thrown by a store means that the store cannot be reached now; false for a bug. */
export function isStoreUnavailable(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === STORE_UNAVAILABLE
}
