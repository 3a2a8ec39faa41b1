import { visible } from '../base/visible-text.ts'

// --- Codes ---

/** 401: The API key is invalid, revoked or expired. */
export const UNAUTHORIZED = 'unauthorized'

/** 403: The API key doesn't have the required scope. */
export const FORBIDDEN = 'forbidden'

/** 404: The record doesn't exist, or `url` isn't the API. */
export const NOT_FOUND = 'not_found'

/** 409: Another request with the same idempotency key is in progress. */
export const CONFLICT = 'conflict'

/** 400, 413, 415, 422: The API rejected the request's contents. */
export const INVALID_REQUEST = 'invalid_request'

/** 429: The rate limit was exceeded. */
export const RATE_LIMITED = 'rate_limited'

/** 408, 425 and 5xx: The API or a proxy in front of it is temporarily unavailable. */
export const UNAVAILABLE = 'unavailable'

/** The response isn't from the API. For example, it isn't JSON, is too large, redirects or has a broken link. */
export const INVALID_RESPONSE = 'invalid_response'

/** There was no response, or only part of one. The request may have been executed. */
export const NETWORK_FAILED = 'network_failed'

/** There was no complete response within `timeoutMs`. The request may have been executed. */
export const TIMEOUT = 'timeout'

/** All {@link ApiError} codes. */
export type ApiErrorCode =
  | typeof UNAUTHORIZED
  | typeof FORBIDDEN
  | typeof NOT_FOUND
  | typeof CONFLICT
  | typeof INVALID_REQUEST
  | typeof RATE_LIMITED
  | typeof UNAVAILABLE
  | typeof INVALID_RESPONSE
  | typeof NETWORK_FAILED
  | typeof TIMEOUT

// --- Error ---

/** The properties of an {@link ApiError}. */
export interface ApiErrorFacts {
  readonly code: ApiErrorCode
  readonly status?: number | null
  readonly requestId?: string | null
  readonly retryAfterMs?: number | null
  readonly isTransient: boolean
}

/** Thrown when a call fails. Its message and properties never contain the API key or invisible characters. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ApiErrorCode
  /** The HTTP status, or `null` if there was no response. */
  readonly status: number | null
  /** The request id to report to the API's operator, or `null` if the API didn't respond. */
  readonly requestId: string | null
  /** How long to wait according to the API, in milliseconds and up to one day. `null` if the API doesn't say. */
  readonly retryAfterMs: number | null
  /** `true` if the same call may succeed later. */
  readonly isTransient: boolean
  /** The idempotency key of a failed create. Pass it to a later call to avoid a duplicate record. Otherwise `null`. */
  idempotencyKey: string | null = null
  /** How many requests were sent. */
  attempts = 1

  constructor(message: string, { code, status, requestId, retryAfterMs, isTransient }: ApiErrorFacts) {
    super(visible(message))
    this.code = code
    this.status = status ?? null
    this.requestId = requestId ? visible(requestId) : null
    this.retryAfterMs = retryAfterMs ?? null
    this.isTransient = isTransient
  }
}

/** Returns the error code for a status, and whether the same request may succeed later. */
export function judgeStatus(status: number): Pick<ApiErrorFacts, 'code' | 'isTransient'> {
  const code = CODES[status] ?? (status >= 500 ? UNAVAILABLE : undefined)
  if (code === undefined) return { code: INVALID_RESPONSE, isTransient: false }
  return { code, isTransient: code === CONFLICT || code === RATE_LIMITED || code === UNAVAILABLE }
}

const CODES: Readonly<Record<number, ApiErrorCode>> = {
  400: INVALID_REQUEST,
  401: UNAUTHORIZED,
  403: FORBIDDEN,
  404: NOT_FOUND,
  408: UNAVAILABLE,
  409: CONFLICT,
  413: INVALID_REQUEST,
  415: INVALID_REQUEST,
  422: INVALID_REQUEST,
  425: UNAVAILABLE,
  429: RATE_LIMITED,
}
