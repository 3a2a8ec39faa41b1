import type { Page } from '../base/page.ts'
import type { AnswerTrace } from '../base/tracing.ts'

// The API request log. It never contains query strings, bodies or keys.

/** An API request, as logged. */
export interface LoggedRequest extends Omit<AnswerTrace, 'route'> {
  /** The request id from the response. */
  readonly id: string
  /** When the request arrived (ISO 8601), capped at the store's current time in case the process clock is ahead. */
  readonly at: string
  readonly keyId: string
  readonly keyName: string
  /** The operation's path in the OpenAPI document. */
  readonly route: string
  /** The requested path without the query string. */
  readonly path: string
  /** The response's error message, truncated to 200 characters, or `null` if there wasn't an error. */
  readonly error: string | null
}

/** A request to add to the log. */
export interface RequestRecord extends Omit<LoggedRequest, 'keyId' | 'keyName'> {
  /** Digest of the presented key, which may be revoked or expired. Requests with an unknown key aren't logged. */
  readonly keyDigest: string
  /** `null` if the request wasn't admitted. In that case, the store uses the key's organization. */
  readonly organizationId: string | null
}

/** Status classes you can filter by. */
export const REQUEST_CLASSES = ['2xx', '4xx', '5xx'] as const

/** Filters logged requests. Omitted fields match everything. */
export interface RequestFilter<Moment = string> {
  readonly keyId?: string | undefined
  readonly status?: (typeof REQUEST_CLASSES)[number] | undefined
  /** Arrived at or after this time. */
  readonly since?: Moment | undefined
  /** Arrived before this time. */
  readonly until?: Moment | undefined
}

/** The part of a store that keeps the request log. Requests are kept for at least 7 days, unless there's a crash. */
export interface RequestLogStore {
  /** Adds requests to the log, for any number of organizations. Skips requests that are already logged. */
  write(requests: readonly RequestRecord[]): Promise<void>

  /**
   * Lists the newest requests that match the filter. Each page scans at most 5000 requests, so when filtering by
   * `keyId` or `status`, a page can have fewer than `limit` requests even if `next` isn't `null`.
   *
   * @param before the last id on the previous page
   */
  list(
    organizationId: string,
    filter: RequestFilter,
    limit: number,
    before: string | null,
  ): Promise<Page<LoggedRequest>>

  /** Returns a request, or `null` if it isn't in the organization's log. */
  get(organizationId: string, requestId: string): Promise<LoggedRequest | null>
}
