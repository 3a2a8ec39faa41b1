import { visible } from '../base/visible-text.ts'

// --- Codes ---

/** 401: the API key is invalid, revoked or expired. */
export const UNAUTHORIZED = 'unauthorized'

/** 403: the API key lacks the scope. */
export const FORBIDDEN = 'forbidden'

/** 404: no such record, or `url` is not the API's. */
export const NOT_FOUND = 'not_found'

/** 409: another request with the same idempotency key is still under way. */
export const CONFLICT = 'conflict'

/** 400, 413, 415, 422: the API rejects the content of the request. */
export const INVALID_REQUEST = 'invalid_request'

/** 429: over the rate limit. */
export const RATE_LIMITED = 'rate_limited'

/** 408, 425 and 5xx: the API or a proxy in front cannot respond now. */
export const UNAVAILABLE = 'unavailable'

/** The response is not one of the API: not JSON, another shape, too large, a redirect, or a link that leads nowhere. */
export const INVALID_RESPONSE = 'invalid_response'

/** No response, or only a part: the request may have been run. */
export const NETWORK_FAILED = 'network_failed'

/** No complete response within `timeoutMs`: the request may have been run. */
export const TIMEOUT = 'timeout'

/** Every code of an {@link ApiError}. */
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

/** The facts of an {@link ApiError}. */
export interface ApiErrorFacts {
  readonly code: ApiErrorCode
  readonly status?: number | null
  readonly requestId?: string | null
  readonly retryAfterMs?: number | null
  readonly isTransient: boolean
}

/** A call that failed. Neither the message nor a property holds the API key, or a character that is not seen. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ApiErrorCode
  /** The HTTP status; null without a response. */
  readonly status: number | null
  /** The id that the API gave the request, for the operator of the API; null without a response of the API. */
  readonly requestId: string | null
  /** The wait that the API asks for, at most a day; null if the API asks for none. */
  readonly retryAfterMs: number | null
  /** True if the same call may succeed later. */
  readonly isTransient: boolean
  /** The key of a create: a later call with this key makes no second record. Null for any other call. */
  idempotencyKey: string | null = null
  /** The number of requests that were made. */
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

/** Gives the code of a refusal, and whether the same request may succeed later. */
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
