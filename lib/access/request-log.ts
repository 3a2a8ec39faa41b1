import type { Page } from '../base/page.ts'
import type { AnswerTrace } from '../base/tracing.ts'

// The log of API requests. It never contains a query string, a body or a key.

/** An API request as shown in the log. */
export interface LoggedRequest extends Omit<AnswerTrace, 'route'> {
  /** The request id from the response. */
  readonly id: string
  /** When the request arrived (ISO 8601), or the store's time if the clock of the process is ahead. */
  readonly at: string
  readonly keyId: string
  readonly keyName: string
  /** The operation's path in the OpenAPI document. */
  readonly route: string
  /** The requested path without the query string. */
  readonly path: string
  /** The error message of the response, truncated to 200 characters, or `null` if there is none. */
  readonly error: string | null
}

/** A request to add to the log. */
export interface RequestRecord extends Omit<LoggedRequest, 'keyId' | 'keyName'> {
  /** Digest of the presented key, which may be revoked or expired. Without such a key, the request isn't logged. */
  readonly keyDigest: string
  /** `null` if the request wasn't admitted. The key's organization is used then. */
  readonly organizationId: string | null
}

/** Status classes that requests can be filtered by. */
export const REQUEST_CLASSES = ['2xx', '4xx', '5xx'] as const

/** Selects requests. An absent field matches all of them. */
export interface RequestFilter<Moment = string> {
  readonly keyId?: string | undefined
  readonly status?: (typeof REQUEST_CLASSES)[number] | undefined
  /** Arrived at or after this time. */
  readonly since?: Moment | undefined
  /** Arrived before this time. */
  readonly until?: Moment | undefined
}

/** The part of a store that keeps the request log. Requests are kept for at least 7 days, or until a crash. */
export interface RequestLogStore {
  /** Adds requests of any organizations to the log. Ignores requests that are already in it. */
  write(requests: readonly RequestRecord[]): Promise<void>

  /**
   * Lists the newest requests that match the filter. Because at most 5000 requests are scanned per page, a page
   * filtered by `keyId` or `status` can have fewer than `limit` requests even if `next` isn't `null`.
   *
   * @param before the last id of the previous page
   */
  list(
    organizationId: string,
    filter: RequestFilter,
    limit: number,
    before: string | null,
  ): Promise<Page<LoggedRequest>>

  /** Returns a request, or `null` if the organization's log doesn't contain it. */
  get(organizationId: string, requestId: string): Promise<LoggedRequest | null>
}
