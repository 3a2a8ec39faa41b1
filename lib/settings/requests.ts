import * as v from 'valibot'
import { type LoggedRequest, REQUEST_CLASSES, type RequestFilter } from '../access/request-log.ts'
import { defineCall, found, IdSchema, MomentSchema, oneOf } from '../base/host-input.ts'
import { type Page, type PageQuery, recordPageEntries } from '../base/page.ts'
import type { BusinessApiStore } from '../business-store.ts'

/** Filtering and paging options for requests. */
export interface RequestQuery extends RequestFilter<Date | string>, PageQuery {}

/**
 * An organization's API request log, written by `createBusinessApi` if `requestLog` is set. In PostgreSQL, the log is
 * empty after a crash and unavailable on a standby, where both calls throw `store_unavailable`.
 */
export interface RequestSettings {
  /**
   * Lists matching requests, newest first. Each page inspects up to 5000 requests. If you filter by `keyId` or
   * `status`, a page may have fewer than `limit` even if `next` isn't `null`.
   */
  list(organizationId: string, query?: RequestQuery): Promise<Page<LoggedRequest>>

  /**
   * Returns the request with the given id, which API responses include.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization's log has no request with this id
   */
  get(organizationId: string, requestId: string): Promise<LoggedRequest>
}

const readList = defineCall('Cannot list requests', {
  keyId: v.exactOptional(IdSchema),
  status: v.exactOptional(oneOf(REQUEST_CLASSES)),
  since: v.exactOptional(MomentSchema),
  until: v.exactOptional(MomentSchema),
  ...recordPageEntries(),
})
const readGet = defineCall('Cannot show a request', { requestId: IdSchema })

/** Creates the request log calls. */
export function createRequestSettings({ requests }: Pick<BusinessApiStore, 'requests'>): RequestSettings {
  return {
    async list(organizationId, query) {
      const { organizationId: owner, input } = readList(organizationId, query)
      const { limit, before, ...filter } = input
      return requests.list(owner, filter, limit, before)
    },
    async get(organizationId, requestId) {
      const { organizationId: owner, input, action } = readGet(organizationId, { requestId })
      return found(await requests.get(owner, input.requestId), action)
    },
  }
}
