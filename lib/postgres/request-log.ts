import type { LoggedRequest, RequestFilter, RequestLogStore } from '../access/request-log.ts'
import type { Page } from '../base/page.ts'
import type { Database } from './connection/database.ts'
import { callFor } from './statements/statement.ts'

/** Creates the PostgreSQL store for the request log. See sql/48-api-requests.sql. */
export function createRequestLogStore(database: Database): RequestLogStore {
  function list(
    organizationId: string,
    filter: RequestFilter & { readonly id?: string },
    limit: number,
    before: string | null,
  ): Promise<Page<LoggedRequest>> {
    const call = 'list_api_requests(text, jsonb, int, text)'
    return callFor(database, organizationId, call, organizationId, JSON.stringify(filter), limit, before)
  }

  return {
    write: (requests) => callFor(database, null, 'log_api_requests(json)', JSON.stringify(requests)),
    list,
    get: async (organizationId, id) => (await list(organizationId, { id }, 1, null)).data[0] ?? null,
  }
}
