import * as v from 'valibot'
import type { RateLimits } from '../access/rate-limit.ts'
import * as field from '../base/fields.ts'
import { LIMIT_MAX } from '../http/list-query.ts'
import { ERROR_MAX, Refusal, refusals } from '../http/refusal.ts'
import { readIdempotencyKey, validate } from '../http/validate.ts'
import type { CreateRoute, Route } from '../resources/route.ts'
import { headerRefs, rateLimitNames } from './headers.ts'
import { schemaRef } from './schemas.ts'

/** The name of {@link ErrorSchema} in the document. `Error` would shadow the built-in `Error` in several languages. */
export const ERROR_NAME = 'ErrorResponse'

/** The body of every error response (see section 7 of the spec). */
export const ErrorSchema = v.object({
  error: field.prose(
    ERROR_MAX,
    'Error message for developers.',
    'Validation failed: name must be a string of 2 to 150 characters',
  ),
  requestId: field.id(
    'req',
    'ID of this request, also in X-Request-Id. Include it when you contact support.',
  ),
})

/** Options that affect the responses. */
export interface ResponseOptions {
  readonly operations: readonly Route[]
  readonly maxBodyBytes: number
  readonly rateLimits: RateLimits | null
}

// --- Responses by operation ---

/**
 * Returns references to all of an operation's error responses, by status.
 *
 * @param reads which parts of the request the operation reads
 */
export function refusalRefs(reads: {
  readonly query: boolean
  readonly body: boolean
  readonly key: boolean
}): Record<string, { $ref: string }> {
  const names = {
    ...(reads.body && { 400: 'Malformed' }),
    401: 'Unauthorized',
    403: 'Forbidden',
    404: 'NotFound',
    ...(reads.key && { 409: 'InProgress' }),
    ...(reads.body && { 413: 'TooLarge', 415: 'UnsupportedMediaType' }),
    ...(reads.query && { 422: 'InvalidQuery' }),
    ...((reads.body || reads.key) && { 422: 'InvalidInput' }),
    429: 'RateLimited',
    500: 'InternalError',
    503: 'Unavailable',
  }
  return Object.fromEntries(Object.entries(names).map(([status, name]) => [status, responseRef(name)]))
}

/** Returns a reference to a response in `components.responses`. */
export function responseRef(name: string): { $ref: string } {
  return { $ref: `#/components/responses/${name}` }
}

// --- Rejections ---

/** Returns `components.responses`. The examples have the API's exact messages and headers. */
export function buildRefusals({
  operations,
  maxBodyBytes,
  rateLimits,
}: ResponseOptions): Record<string, object> {
  const answer = answerWith(rateLimits)
  return {
    Unauthorized: answer(
      { KeyInvalid: refusals.invalidKey(), KeyMissing: refusals.noKey() },
      'The API key is missing, invalid, revoked or expired.',
    ),
    Forbidden: answer(
      refusals.forbidden(operations[0]?.scope ?? ''),
      "The API key doesn't have the required scope (`x-required-scope`).",
    ),
    NotFound: answer(
      refusals.noBusiness(),
      "The path doesn't exist; or, when creating a lead, the organization has no business with this ID. Lists return an empty array, " +
        'never 404.',
    ),
    InvalidQuery: answer(
      {
        LimitInvalid: refusals.invalidLimit(LIMIT_MAX),
        BeforeInvalid: refusals.invalidBefore('cli'),
        UpdatedSinceInvalid: refusals.invalidSince(),
        BeforeWithUpdatedSince: refusals.beforeAndSince(),
        ParameterUnknown: refusals.foreignParameter('page', 'before'),
      },
      "Validation failed: a parameter is invalid or isn't supported.",
    ),
    RateLimited: answer(
      refusals.limited(1000),
      'Too many requests. Retry after the number of seconds in `Retry-After`.',
    ),
    InternalError: answer(
      refusals.internal(),
      'An unexpected error. POST requests with an Idempotency-Key can be retried safely.',
    ),
    Unavailable: answer(
      refusals.unavailable(),
      'Temporarily unavailable. Retry after the number of seconds in `Retry-After`; POST requests with an Idempotency-Key can be retried safely.',
    ),
    // Only for operations with a body.
    Malformed: answer(refusals.notJson(), "The body is empty, isn't valid JSON or isn't UTF-8."),
    InProgress: answer(
      refusals.inProgress(),
      'Another request with the same Idempotency-Key is in progress. Retry after the number of seconds in `Retry-After`.',
    ),
    TooLarge: answer(refusals.tooLarge(maxBodyBytes), `The body is larger than ${maxBodyBytes} bytes.`),
    UnsupportedMediaType: answer(
      refusals.wrongMediaType(),
      "The body isn't `application/json` in UTF-8, or it's compressed.",
    ),
    InvalidInput: answer(
      invalidInputs(operations),
      'Validation failed: a field or the Idempotency-Key is invalid (the message lists each problem), or the Idempotency-Key was ' +
        'already used with a different body.',
    ),
  }
}

/** Returns the rejections for an empty object (one per input) and for invalid idempotency keys. */
function invalidInputs(operations: readonly Route[]): Record<string, Refusal> {
  const creates = operations.filter((route): route is CreateRoute => route.method === 'POST')
  return {
    ...Object.fromEntries(
      creates.map(({ input, inputName }) => [inputName, refusalOf(() => validate(input, {}))]),
    ),
    IdempotencyKeyInvalid: refusalOf(() => readIdempotencyKey('')),
    IdempotencyKeyReused: refusals.keyReused(),
  }
}

/** Returns the rejection that a function throws, so the document quotes the actual message. */
function refusalOf(act: () => unknown): Refusal {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new TypeError('Cannot quote a refusal because the call was not refused')
}

// --- Response format ---

/** Describes a response. The examples are one or more rejections with the same status. */
export function answerWith(rateLimits: RateLimits | null) {
  return (quoted: Refusal | Record<string, Refusal>, description: string): object => {
    const [{ headers } = refusals.internal()] = quoted instanceof Refusal ? [quoted] : Object.values(quoted)
    return {
      description,
      headers: headerRefs(['X-Request-Id', ...rateLimitNames(rateLimits), ...Object.keys(headers)]),
      content: { 'application/json': { schema: schemaRef(ERROR_NAME), ...quote(quoted) } },
    }
  }
}

/** Uses `example` for a single example, because mock servers prefer the schema's example over `examples`. */
function quote(quoted: Refusal | Record<string, Refusal>): object {
  if (quoted instanceof Refusal) return { example: errorBody(quoted) }
  const values = Object.entries(quoted).map(([name, refusal]) => [name, { value: errorBody(refusal) }])
  return { examples: Object.fromEntries(values) }
}

function errorBody({ message }: Refusal): object {
  return { error: message, requestId: v.getExamples(ErrorSchema.entries.requestId)[0] }
}
