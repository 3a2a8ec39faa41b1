import type { JsonText } from '../base/json-text.ts'
import type { RateLimitState, RateLimits } from './rate-limit.ts'
import type { KeyScope } from './scopes.ts'

/** Everything a store needs to decide whether to admit a request. */
export interface AdmissionRequest {
  /** SHA-256 of the presented API key in lowercase hex. Stores never see the actual key. */
  readonly keyDigest: string
  /** The scope that the operation requires. */
  readonly scope: KeyScope
  /** Default limits for keys and organizations that don't have custom limits. `null` to skip rate limiting. */
  readonly rateLimits: RateLimits | null
  /**
   * The organization that owned the key at the last lookup. This is just a hint that lets a store share its resources
   * fairly between organizations. It doesn't authorize anything, since stores always check the key digest.
   */
  readonly organizationHint?: string
}

/** An API key and the organization that owns the key. */
export interface Caller {
  readonly organizationId: string
  readonly keyId: string
}

/**
 * The store's decision. Checks use the store's clock and run in this order (see sections 5 and 8 of the spec):
 *
 * - `unauthenticated`: The key is unknown, revoked or expired. No tokens are taken.
 * - `limited`: The key's or the organization's bucket is empty. No tokens are taken.
 * - `forbidden`: The key doesn't have the scope. A token is taken from both buckets.
 * - `admitted`: A token is taken from both buckets.
 */
export type Admission =
  | { readonly outcome: 'unauthenticated' }
  | {
      readonly outcome: 'limited' | 'forbidden' | 'admitted'
      readonly caller: Caller
      /** Both buckets after this request, or `null` if rate limiting was skipped. */
      readonly rateLimit: RateLimitState | null
      /** `true` if the key's last use hasn't been recorded in over a minute. Call `markUsed` in that case. */
      readonly lastUseIsStale: boolean
    }

/** Selects a page of a list. */
export interface PageRequest {
  /** Maximum number of records, from 1 to 200. */
  readonly limit: number
  /** Only return records with a smaller id, which doesn't have to exist. Defaults to starting at the newest record. */
  readonly before?: string | undefined
  /** Only return records created or changed since then, oldest change first. Can't be combined with `before`. */
  readonly since?: Since | undefined
}

/**
 * Where a list of changes starts: a time (ISO 8601, UTC, with milliseconds) or the `position` from an earlier page. A
 * position from a different database or version returns all records.
 */
export type Since = { readonly time: string } | { readonly position: string }

/** An admission decision, along with the requested page if the caller was admitted. */
export interface AdmittedPage<Representation> {
  readonly admission: Admission
  /** The caller's records as a JSON array, or `null` if the caller wasn't admitted. */
  readonly page: JsonText<Representation[]> | null
  /** Why an admitted caller gets no page. Throwing instead would lose the rate limit headers. */
  readonly error?: unknown
  /**
   * The `before` value for the next page (the last record's id) if there are older records. In a list of changes, the
   * `position` if there are more. `null` or absent on the last page or if the store doesn't support paging.
   */
  readonly next?: string | null | undefined
  /**
   * Where to resume a list of changes next time. A client that always resumes from the last position receives every
   * record at least once after each change, no matter how late the change commits or where the client stopped. Records
   * may be repeated. Only set for lists of changes, and absent if the store can't list changes.
   */
  readonly position?: string | null | undefined
}
