import * as v from 'valibot'
import { type LoggedRequest, REQUEST_CLASSES, type RequestFilter } from '../access/request-log.ts'
import { defineCall, found, IdSchema, MomentSchema, oneOf } from '../base/host-input.ts'
import { type Page, type PageQuery, recordPageEntries } from '../base/page.ts'
import type { BusinessApiStore } from '../business-store.ts'

/** Selects the requests to show. */
export interface RequestQuery extends RequestFilter<Date | string>, PageQuery {}

/**
 * The log of an organization's API requests, which `createBusinessApi` keeps with option `requestLog`. On PostgreSQL the log is empty
 * after a crash and missing on a standby, where both calls throw `store_unavailable`.
 */
export interface RequestSettings {
  /**
   * The newest requests that the query selects. With a `keyId` or `status`, a page may have fewer requests than `limit` although `next`
   * is not null, because a page inspects 5000 requests at most.
   */
  list(organizationId: string, query?: RequestQuery): Promise<Page<LoggedRequest>>

  /**
   * Gives a request by the id in the response.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no request with this id in the log
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

/** Creates the calls that show the log of API requests to administrators. */
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
