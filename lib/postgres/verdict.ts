import type { Admission, AdmissionRequest, AdmittedPage } from '../access/admission.ts'
import {
  describeBuckets,
  type RateLimit,
  type RateLimitState,
  type RateLimits,
  takeToken,
} from '../access/rate-limit.ts'
import type { JudgedColumn, OwnLimits } from './statements/admission.ts'
import type { ResultColumns } from './statements/statement.ts'

// The answers of the statements that judge a request, in the words of the contract.

/** The answer of a statement that judges. */
export type Judged = ResultColumns<JudgedColumn, never>

interface JudgedPage extends Judged {
  readonly page: Buffer | null
  readonly next: string | null
  readonly position: string | null
}

/** A request with a key that was found. */
export interface OwnedRequest extends AdmissionRequest {
  readonly organizationId: string
}

/** The answer to a request with a key that is not in force. */
export const UNAUTHENTICATED = { admission: { outcome: 'unauthenticated' }, page: null } as const

/** Gives the page to an admitted caller. */
export function pageFor(
  judged: JudgedPage,
  request: OwnedRequest,
  rateLimit: RateLimitState | null,
): AdmittedPage<never> {
  const admission = verdict(judged, request, rateLimit)
  return admission.outcome === 'admitted'
    ? { admission, page: judged.page, next: judged.next, position: judged.position }
    : { admission, page: null }
}

/** The verdict on a request with a key in force. */
export function verdict(
  { keyId, hasScope, lastUseIsStale }: Judged,
  { organizationId }: OwnedRequest,
  rateLimit: RateLimitState | null,
): Admission {
  const isLimited = rateLimit !== null && rateLimit.retryAfterMs > 0
  const outcome = isLimited ? 'limited' : hasScope === 'true' ? 'admitted' : 'forbidden'
  const caller = { organizationId, keyId: keyId ?? '' }
  return { outcome, caller, rateLimit, lastUseIsStale: lastUseIsStale === 'true' }
}

/** No own limits, neither of the key nor of the organization. */
export const NO_LIMITS: OwnLimits = {
  keyPerSecond: null,
  keyBurst: null,
  organizationPerSecond: null,
  organizationBurst: null,
}

/** The limits of the key and of the organization. */
export function ownLimitsOf({
  keyPerSecond,
  keyBurst,
  organizationPerSecond,
  organizationBurst,
}: Judged): OwnLimits {
  return { keyPerSecond, keyBurst, organizationPerSecond, organizationBurst }
}

/** The limits in force: own limits, else the limits of the API. */
export function limitsOf(own: OwnLimits, defaults: RateLimits): RateLimits {
  return {
    key: limitOf(own.keyPerSecond, own.keyBurst, defaults.key),
    organization: limitOf(own.organizationPerSecond, own.organizationBurst, defaults.organization),
  }
}

function limitOf(perSecond: string | null, burst: string | null, byDefault: RateLimit): RateLimit {
  return perSecond === null ? byDefault : { perSecond: Number(perSecond), burst: Number(burst) }
}

/** Returns whether the key and its organization have the same limits of their own, which are the API's where they have none. */
export function hasSameOwnLimits(some: OwnLimits, other: OwnLimits): boolean {
  return (
    some.keyPerSecond === other.keyPerSecond &&
    some.keyBurst === other.keyBurst &&
    some.organizationPerSecond === other.organizationPerSecond &&
    some.organizationBurst === other.organizationBurst
  )
}

/** Returns whether limits are the same. */
export function areEqual(some: RateLimits, other: RateLimits): boolean {
  return (
    some.key.perSecond === other.key.perSecond &&
    some.key.burst === other.key.burst &&
    some.organization.perSecond === other.organization.perSecond &&
    some.organization.burst === other.organization.burst
  )
}

/** Both buckets after a request that was let through. Tokens at hand count as tokens of the buckets. */
export function stateOf(judged: Judged, limits: RateLimits, atHand: number): RateLimitState {
  const fullIn = {
    key: 1000 * (Number(judged.keyFullIn) - atHand / limits.key.perSecond),
    organization: 1000 * (Number(judged.organizationFullIn) - atHand / limits.organization.perSecond),
  }
  return describeBuckets(fullIn, limits, 0)
}

/** Both buckets at the refusal of a request, with the wait until a request will be let through. */
export function refusalOf(judged: Judged, limits: RateLimits): RateLimitState {
  const fullIn = {
    key: 1000 * Number(judged.keyFullIn),
    organization: 1000 * Number(judged.organizationFullIn),
  }
  const own = { key: judged.keyPerSecond !== null, organization: judged.organizationPerSecond !== null }
  const { state } = takeToken(fullIn, limits, 0, own)
  // The statement has refused: a rounding must not turn the refusal into an admission.
  return { ...state, retryAfterMs: Math.max(state.retryAfterMs, 1) }
}
