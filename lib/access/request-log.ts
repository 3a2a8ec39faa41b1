import type { Page } from '../base/page.ts'
import type { AnswerTrace } from '../base/tracing.ts'

// The log of API requests: never a query, a body or a key.

/** A request of the API, as it is logged. */
export interface LoggedRequest extends Omit<AnswerTrace, 'route'> {
  /** The request id in the response. */
  readonly id: string
  /** Time of arrival, ISO 8601; the store's time if the process's clock is ahead. */
  readonly at: string
  readonly keyId: string
  readonly keyName: string
  /** The path of the operation in the OpenAPI document. */
  readonly route: string
  /** As requested, without the query. */
  readonly path: string
  /** The response's error message, cut after 200 characters; null without one. */
  readonly error: string | null
}

/** A request to be logged. */
export interface RequestRecord extends Omit<LoggedRequest, 'keyId' | 'keyName'> {
  /** Of the presented key, which may be revoked or expired. A request with a digest of no key is not logged. */
  readonly keyDigest: string
  /** Null for a request that was not admitted: that of the key. */
  readonly organizationId: string | null
}

/** The classes of responses by which requests are found. */
export const REQUEST_CLASSES = ['2xx', '4xx', '5xx'] as const

/** Selects requests; an absent field selects all. */
export interface RequestFilter<Moment = string> {
  readonly keyId?: string | undefined
  readonly status?: (typeof REQUEST_CLASSES)[number] | undefined
  /** Only requests that arrived then or later. */
  readonly since?: Moment | undefined
  /** Only requests that arrived before. */
  readonly until?: Moment | undefined
}

/** The verbs of the API request log. Requests are kept for at least seven days, and may be lost in a crash. */
export interface RequestLogStore {
  /** Logs requests of any organizations. A request that was logged before stays as it is. */
  write(requests: readonly RequestRecord[]): Promise<void>

  /**
   * The newest requests that the filter selects. With a `keyId` or `status`, a page may have fewer requests than `limit` although `next`
   * is not null, because a page inspects 5000 requests at most.
   *
   * @param before the previous page's last id
   */
  list(
    organizationId: string,
    filter: RequestFilter,
    limit: number,
    before: string | null,
  ): Promise<Page<LoggedRequest>>

  /** @returns null if the organization has no request with this id in the log */
  get(organizationId: string, requestId: string): Promise<LoggedRequest | null>
}
