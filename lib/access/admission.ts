import type { JsonText } from '../base/json-text.ts'
import type { RateLimitState, RateLimits } from './rate-limit.ts'
import type { KeyScope } from './scopes.ts'

/** Everything a store needs to decide whether to admit a request. */
export interface AdmissionRequest {
  /** SHA-256 of the presented API key in lowercase hex. Stores never see the key itself. */
  readonly keyDigest: string
  /** The scope required by the operation. */
  readonly scope: KeyScope
  /** Default limits for keys and organizations without limits of their own, or `null` to skip rate limiting. */
  readonly rateLimits: RateLimits | null
  /**
   * The organization that owned the key when it was last looked up. Only a hint for sharing a store's resources fairly
   * among organizations. It doesn't authorize anything because the store always checks the key's digest.
   */
  readonly organizationHint?: string
}

/** The API key of a request and its organization. */
export interface Caller {
  readonly organizationId: string
  readonly keyId: string
}

/**
 * The store's decision. Checks run in this order, by the store's clock (specification, sections 5 and 8):
 *
 * - `unauthenticated`: the key is unknown, revoked or expired. No token is taken.
 * - `limited`: the bucket of the key or organization is empty. No token is taken.
 * - `forbidden`: the key lacks the scope. A token is taken from both buckets.
 * - `admitted`: a token is taken from both buckets.
 */
export type Admission =
  | { readonly outcome: 'unauthenticated' }
  | {
      readonly outcome: 'limited' | 'forbidden' | 'admitted'
      readonly caller: Caller
      /** Both buckets after this request, or `null` if rate limiting was skipped. */
      readonly rateLimit: RateLimitState | null
      /** If `true`, the key's last use was recorded over a minute ago or never, so `markUsed` should be called. */
      readonly lastUseIsStale: boolean
    }

/** The requested page of a list. */
export interface PageRequest {
  /** The maximum number of records, from 1 to 200. */
  readonly limit: number
  /** Only return records with a smaller id. It doesn't have to exist. If absent, start with the newest record. */
  readonly before?: string | undefined
  /** Only return records created or changed since then, oldest change first. Can't be combined with `before`. */
  readonly since?: Since | undefined
}

/**
 * The start of a list of changes. Either a time (ISO 8601, UTC, with milliseconds) or the `position` of an earlier
 * page. If the position is from a different database or version, all records are returned.
 */
export type Since = { readonly time: string } | { readonly position: string }

/** An admission, along with the requested page if the caller was admitted. */
export interface AdmittedPage<Representation> {
  readonly admission: Admission
  /** The requested records of the caller's organization as a JSON array, or `null` if the caller wasn't admitted. */
  readonly page: JsonText<Representation[]> | null
  /** Why there is no page for an admitted caller. If a store throws instead, there are no rate limit headers. */
  readonly error?: unknown
  /**
   * The `before` of the next page, which is the last record's id, if there are older records. In a list of changes, the
   * `position` if there are more. `null` or absent if there is no next page or the store doesn't support paging.
   */
  readonly next?: string | null | undefined
  /**
   * Only for a list of changes. The position to continue from next time. A client that keeps doing this receives every
   * record at least once after each change, however late the change is committed and wherever the client stopped.
   * Records may be repeated. Absent if the store can't list changes.
   */
  readonly position?: string | null | undefined
}
