import type { BucketState, RateLimit, RateLimitState } from '../access/rate-limit.ts'

/** Returns the two rate limit headers for authenticated responses (draft-ietf-httpapi-ratelimit-headers). */
export function rateLimitHeaders({ key, organization }: RateLimitState): Record<string, string> {
  return {
    'RateLimit-Policy': `${policy('key', key)}, ${policy('org', organization)}`,
    RateLimit: `${remaining('key', key)}, ${remaining('org', organization)}`,
  }
}

function policy(name: string, { burst, perSecond }: RateLimit): string {
  return `"${name}";q=${burst};w=${Math.ceil(burst / perSecond)}`
}

function remaining(name: string, bucket: BucketState): string {
  return `"${name}";r=${bucket.remaining};t=${Math.ceil(bucket.resetMs / 1000)}`
}
