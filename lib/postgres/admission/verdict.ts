import type { Admission, AdmissionRequest } from '../../access/admission.ts'
import {
  describeBuckets,
  type RateLimit,
  type RateLimitState,
  type RateLimits,
  takeToken,
} from '../../access/rate-limit.ts'
import type { ResultColumns } from '../statements/statement.ts'
import type { JudgedColumn } from './judgement.ts'

/** The result columns of a check. */
export type Judged = ResultColumns<JudgedColumn, never>

/**
 * Returns the verdict for one request of a shared check.
 *
 * @param place the request's position in the check, starting at 0. Tokens go to the first ones
 * @throws `Error` if the buckets couldn't be created
 */
export function verdictOn(judged: Judged, place: number, { scope, rateLimits }: AdmissionRequest): Admission {
  const { organizationId, keyId, scopes, lastUseIsStale } = judged
  if (organizationId === null || keyId === null) return { outcome: 'unauthenticated' }
  if (Number(judged.tokens) < 0)
    throw new Error('Cannot take a token because business_api.rate_buckets does not keep its rows')
  const rateLimit = rateLimits && stateOf(judged, place, rateLimits)
  const isLimited = rateLimit !== null && rateLimit.retryAfterMs > 0
  const hasScope = (scopes ?? '').split(' ').includes(scope)
  return {
    outcome: isLimited ? 'limited' : hasScope ? 'admitted' : 'forbidden',
    caller: { organizationId, keyId },
    rateLimit,
    lastUseIsStale: lastUseIsStale === 'true',
  }
}

/** Returns both buckets as if the requests had arrived one by one. */
function stateOf(judged: Judged, place: number, defaults: RateLimits): RateLimitState {
  const limits = {
    key: limitOf(judged.keyPerSecond, judged.keyBurst, defaults.key),
    organization: limitOf(judged.organizationPerSecond, judged.organizationBurst, defaults.organization),
  }
  const tokensOfLater = Number(judged.tokens) - 1 - place
  const fullIn = (seconds: string | null, { perSecond }: RateLimit): number =>
    1000 * (Number(seconds) - Math.max(0, tokensOfLater) / perSecond)
  const times = {
    key: fullIn(judged.keyFullIn, limits.key),
    organization: fullIn(judged.organizationFullIn, limits.organization),
  }
  if (tokensOfLater >= 0) return describeBuckets(times, limits, 0)
  const own = { key: judged.keyPerSecond !== null, organization: judged.organizationPerSecond !== null }
  const { state } = takeToken(times, limits, 0, own)
  // The statement rejected this request, and rounding must not turn that into an admission.
  return { ...state, retryAfterMs: Math.max(state.retryAfterMs, 1) }
}

/** Falls back to the API's limit if there's no custom one. */
function limitOf(perSecond: string | null, burst: string | null, byDefault: RateLimit): RateLimit {
  return perSecond === null ? byDefault : { perSecond: Number(perSecond), burst: Number(burst) }
}
