import type { JsonText } from '../base/json-text.ts'
import type { RateLimitState, RateLimits } from './rate-limit.ts'
import type { Scope } from './scopes.ts'

/** What a store needs to decide whether a request may go on. */
export interface AdmissionRequest {
  /** SHA-256 of the presented API key, lower-case hex. The key itself never reaches a store. */
  readonly keyDigest: string
  /** The one scope that the operation requires. */
  readonly scope: Scope
  /** The limits to apply where neither the key nor the organization has its own; null to take no token. */
  readonly rateLimits: RateLimits | null
}

/** Whose key it is. */
export interface Caller {
  readonly organizationId: string
  readonly keyId: string
}

/**
 * The store's verdict, judged in this order by the store's clock (specification, sections 5 and 8):
 *
 * - `unauthenticated`: no such key, or it is revoked or expired. No token is taken.
 * - `limited`: one of the two buckets is empty. No token is taken from either.
 * - `forbidden`: the key lacks the scope. A token is taken from both.
 * - `admitted`: a token is taken from both.
 */
export type Admission =
  | { readonly outcome: 'unauthenticated' }
  | {
      readonly outcome: 'limited' | 'forbidden' | 'admitted'
      readonly caller: Caller
      /** Both buckets after this request; null when no limits were asked for. */
      readonly rateLimit: RateLimitState | null
      /** True when the key's last use was recorded more than a minute ago, or never: time to call `markUsed`. */
      readonly lastUseIsStale: boolean
    }

/** An admission together with the page that an admitted caller asked for: one round trip instead of two. */
export interface AdmittedPage<Representation> {
  readonly admission: Admission
  /** The caller's organization's newest records, newest first, as a JSON array; null unless admitted. */
  readonly page: JsonText<Representation[]> | null
}
