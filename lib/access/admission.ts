import type { JsonText } from '../base/json-text.ts'
import type { RateLimitState, RateLimits } from './rate-limit.ts'
import type { KeyScope } from './scopes.ts'

/** The facts by which a store admits or rejects a request. */
export interface AdmissionRequest {
  /** SHA-256 of the presented API key, lower-case hex. The key itself never reaches a store. */
  readonly keyDigest: string
  /** The scope that the operation requires. */
  readonly scope: KeyScope
  /** The limits for keys and organizations without a limit set for them; null to take no token. */
  readonly rateLimits: RateLimits | null
  /**
   * The organization that the key belonged to when it was last looked up. A hint for sharing out a store's means among
   * organizations, never an authorization: the store judges the key by its digest.
   */
  readonly organizationHint?: string
}

/** The API key of a request and the organization that owns the key. */
export interface Caller {
  readonly organizationId: string
  readonly keyId: string
}

/**
 * The store's verdict, judged in this order by the store's clock (specification, sections 5 and 8):
 *
 * - `unauthenticated`: the key is unknown, revoked or expired. No token is taken. - `limited`: the key's or the organization's bucket
 *   is empty. No token is taken.
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

/** The page of a list that a request asks for. */
export interface PageRequest {
  /** The maximum number of records: 1 to 200. */
  readonly limit: number
  /** Reads the records with smaller ids than this id, which no record need have. Absent: the newest records. */
  readonly before?: string | undefined
  /** Reads the records that were created or changed since, oldest change first. Never together with `before`. */
  readonly since?: Since | undefined
}

/**
 * The beginning of a list of changes: a time (ISO 8601 in UTC with milliseconds), or the `position` of an earlier page. A position from
 * another database or version, which the store can't use, means all records.
 */
export type Since = { readonly time: string } | { readonly position: string }

/** An admission together with the page for an admitted caller. */
export interface AdmittedPage<Representation> {
  readonly admission: Admission
  /** The records of the caller's organization, in the order that the request asks for, as a JSON array; null unless admitted. */
  readonly page: JsonText<Representation[]> | null
  /** Why an admitted caller gets no page. A store may reject instead: the response then tells no rate limits. */
  readonly error?: unknown
  /**
   * The `before` of the next page: the last record's id, if there are older records. In a list of changes, the `position` if more
   * records follow. Null or absent: there are none, or the store does not page.
   */
  readonly next?: string | null | undefined
  /**
   * For a list of changes: the position to ask with next. Asking on and on gives every record at least once after each of its
   * changes, however late the change was committed and wherever the asking was broken off; records may come more often. Absent:
   * the store cannot list changes.
   */
  readonly position?: string | null | undefined
}
