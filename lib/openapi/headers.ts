import { type RateLimits, takeToken } from '../access/rate-limit.ts'
import { exampleId } from '../base/fields.ts'
import { listUrl, nextLink, syncToken } from '../http/list-query.ts'
import { rateLimitHeaders } from '../http/rate-limit-headers.ts'
import { refusals } from '../http/refusal.ts'
import type { Route } from '../resources/route.ts'

// --- References ---

/** Returns the headers for a successful response. */
export function successHeaders(method: Route['method'], rateLimits: RateLimits | null): object {
  const own = method === 'POST' ? ['Idempotent-Replayed'] : ['Link', 'Sync-Token']
  return headerRefs(['X-Request-Id', ...rateLimitNames(rateLimits), ...own])
}

/** Returns the names of headers that all authenticated responses have. Empty if there are no rate limits. */
export function rateLimitNames(rateLimits: RateLimits | null): readonly string[] {
  return rateLimits ? ['RateLimit', 'RateLimit-Policy'] : []
}

/** Returns references to headers in `components.headers`. */
export function headerRefs(names: readonly string[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

// --- Declarations ---

/** Returns `components.headers` with every header used in a response. */
export function buildHeaders(
  rateLimits: RateLimits | null,
  baseUrl: string | undefined,
): Record<string, object> {
  const { 'WWW-Authenticate': challenge } = refusals.invalidKey().headers
  return {
    'X-Request-Id': {
      description: 'ID of this request. A replayed response has a new ID.',
      required: true,
      schema: { type: 'string', maxLength: 64 },
      example: exampleId('req'),
    },
    ...(rateLimits ? buildRateLimitHeaders(rateLimits) : {}),
    'Retry-After': {
      description: 'Number of seconds to wait before you retry.',
      required: true,
      schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 2_147_483_647 },
      example: 1,
    },
    'WWW-Authenticate': {
      description: 'Why the API key was rejected (RFC 6750).',
      required: true,
      schema: { type: 'string', maxLength: 256 },
      example: challenge,
    },
    Link: {
      description: `URL of the next page (RFC 8288), ${baseUrl === undefined ? 'relative to the request URL' : 'absolute'}. Absent on the last page.`,
      schema: { type: 'string', maxLength: 2048 },
      example: nextLink(listUrl('/api/v1/clients', baseUrl), 'limit=200', { before: exampleId('cli') }),
    },
    'Sync-Token': {
      description:
        'Present with `updatedSince`. Opaque token to pass as `updatedSince` in your next request.',
      schema: { type: 'string', maxLength: 1024, pattern: '^[0-9A-Za-z_-]+$' },
      example: syncToken('example'),
    },
    'Idempotent-Replayed': {
      description:
        'Present if this is the stored response of an earlier request with the same Idempotency-Key.',
      schema: { type: 'string', const: 'true' },
      example: 'true',
    },
  }
}

/** Returns the rate limit headers. The same code that writes the headers generates their examples. */
function buildRateLimitHeaders(rateLimits: RateLimits): Record<string, object> {
  const example = rateLimitHeaders(takeToken({ key: 0, organization: 0 }, rateLimits, 0).state)
  const schema = { type: 'string', maxLength: 256 }
  return {
    RateLimit: {
      description: '`r` requests are left; the full quota is available again in `t` seconds.',
      schema,
      example: example.RateLimit,
    },
    'RateLimit-Policy': {
      description: 'Quotas of the API key and the organization: `q` requests per `w` seconds.',
      schema,
      example: example['RateLimit-Policy'],
    },
  }
}
