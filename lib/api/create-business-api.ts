import { traceStore } from '../base/tracing.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Mounted, mount } from '../http/mount.ts'
import { serviceOf } from '../service.ts'
import { createHandler } from './handler.ts'
import { type BusinessApiOptions, readOptions } from './options.ts'
import type { RequestLog } from './request-log.ts'

/** The request handler, in every form that hosts call handlers in. */
export interface BusinessApi extends Mounted {
  /** Returns the OpenAPI document that `GET /openapi.json` serves. */
  describe(this: void): object
  readonly requestLog: RequestLog
}

/**
 * Creates the request handler of the business API (specification, sections 1 to 9). Opens no connection, sets no timer,
 * reads no environment variable.
 *
 * @param store `createPostgresStore(…)`, `createMemoryStore(…)`, or a store of the host's own
 * @param options see {@link BusinessApiOptions}
 * @throws `TypeError` or `RangeError` for an option that cannot be used
 */
export function createBusinessApi(store: BusinessApiStore, options: BusinessApiOptions = {}): BusinessApi {
  const resolved = readOptions(options, serviceOf(store))
  const handler = createHandler(traceStore(store), resolved)
  const { describe, requestLog } = handler
  return Object.assign(mount(handler, resolved.basePath), { describe, requestLog })
}
