import { validateHeaderName, validateHeaderValue } from 'node:http'
import { BusinessApiError, INVALID_INPUT, isStoreUnavailable } from '../base/errors.ts'
import { printValue } from '../base/options.ts'
import { shareInstances } from '../base/shared-class.ts'

/** Maximum error message length in characters. A longer message ends with an ellipsis. */
export const ERROR_MAX = 1000

/**
 * Ends a request with an error response. The caller receives the first {@link ERROR_MAX} characters of the message. You
 * can throw it in your own routes, for example `throw new Refusal(409, 'The room is taken')`.
 */
export class Refusal extends Error {
  static {
    shareInstances(Refusal, 'Refusal')
  }

  override readonly name = 'Refusal'
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  /**
   * @param status from 400 to 599
   * @param headers additional response headers, like `Retry-After`. None by default
   * @throws `RangeError` for any other status, or `TypeError` for an empty message or invalid headers
   */
  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message)
    if (!Number.isInteger(status) || status < 400 || status > 599)
      throw new RangeError(
        `Cannot refuse a request because ${printValue(status)} is not a status from 400 to 599`,
      )
    if (typeof message !== 'string' || message === '')
      throw new TypeError('Cannot refuse a request because the message is empty')
    for (const [name, value] of Object.entries(headers)) {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    }
    this.status = status
    this.headers = headers
  }
}

function invalid(what: string): Refusal {
  return new Refusal(422, what)
}

/** Every error response in the API, with its message. Five are from the spec, the rest are our own. */
export const refusals = {
  malformed: (what: string) => new Refusal(400, what),
  noKey: () =>
    new Refusal(401, 'No API key was sent: send Authorization: Bearer and the API key', {
      'WWW-Authenticate': 'Bearer realm="api"',
    }),
  invalidKey: () =>
    new Refusal(401, 'Invalid, revoked or expired API key', {
      'WWW-Authenticate': 'Bearer realm="api", error="invalid_token"',
    }),
  forbidden: (scope: string) =>
    new Refusal(403, `API key lacks the required scope ${scope}`, {
      'WWW-Authenticate': `Bearer realm="api", error="insufficient_scope", scope="${scope}"`,
    }),
  notFound: (what: string) => new Refusal(404, what),
  noBusiness: () =>
    new Refusal(404, 'Business not found: the organization has no business with this businessId'),
  wrongMethod: (allow: string) => new Refusal(405, `Method not allowed: use ${allow}`, { Allow: allow }),
  inProgress: () =>
    new Refusal(409, 'A request with this Idempotency-Key is still in progress', { 'Retry-After': '1' }),
  tooLarge: (maxBytes: number) => new Refusal(413, `Request body is larger than ${maxBytes} bytes`),
  unsupported: (what: string) => new Refusal(415, what),
  empty: () => new Refusal(400, 'Request body is empty: send a JSON object'),
  notJson: () => new Refusal(400, 'Request body is not valid JSON'),
  wrongMediaType: (expected = 'application/json') => new Refusal(415, `Content-Type must be ${expected}`),
  invalid,
  invalidLimit: (max: number) =>
    invalid(`Validation failed: limit must be one whole number from 1 to ${max}`),
  invalidBefore: (ids: string | RegExp) =>
    invalid(
      `Validation failed: before must be one id of this list, ${typeof ids === 'string' ? `${ids}_ and up to 59 letters, digits, - or _` : 'as in the Link header of a response'}`,
    ),
  invalidSince: () =>
    invalid(
      'Validation failed: updatedSince must be one Sync-Token of an earlier response, or one time in ISO 8601 with a time zone, ' +
        'as 2026-03-14T09:26:53.589Z',
    ),
  beforeAndSince: () =>
    invalid(
      'Validation failed: before and updatedSince cannot be used together; follow the Link header of each response',
    ),
  notSynced: () => invalid('Validation failed: this list has no updatedSince; use limit and before'),
  foreignParameter: (name: string, ours: string) =>
    invalid(
      `Validation failed: ${name} is not a parameter of this list; ` +
        (ours === 'limit'
          ? 'the size of a page is limit'
          : 'follow the Link header of each response, which continues with before'),
    ),
  unstorable: () =>
    invalid(
      'Validation failed: strings must not contain NUL or a lone surrogate, and values must not be nested too deeply',
    ),
  noIdempotency: () =>
    invalid(
      'Validation failed: this operation takes no Idempotency-Key, because it cannot be repeated safely',
    ),
  keyReused: () => invalid('Idempotency-Key was already used with a different request body'),
  limited: (retryAfterMs: number) =>
    new Refusal(429, 'Rate limit exceeded', {
      'Retry-After': String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
    }),
  slowBody: () => new Refusal(503, 'Request body did not arrive in time', { 'Retry-After': '1' }),
  unknownCoding: () =>
    new Refusal(501, 'Transfer-Encoding other than chunked is not supported: send the body as it is'),
  brokenRule: () => invalid('Validation failed: a value violates a constraint of the database'),
  internal: () => new Refusal(500, 'Internal error'),
  unavailable: () => new Refusal(503, 'Service temporarily unavailable', { 'Retry-After': '1' }),
} as const

/**
 * Converts an error to a rejection. The status is 503 if the store is unavailable, 422 if the store rejects a value,
 * for example because of a constraint that the host added, or 500 for a bug.
 */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof BusinessApiError && error.code === INVALID_INPUT) return refusals.brokenRule()
  return isStoreUnavailable(error) ? refusals.unavailable() : refusals.internal()
}
