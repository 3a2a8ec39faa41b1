import type { IncomingMessage, ServerResponse } from 'node:http'
import { traceStore } from '../base/tracing.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type FetchBody, fromFetch, isFetchRequest, toFetch } from '../http/fetch.ts'
import type { ApiReply } from '../http/message.ts'
import { fromNode, type NodeRequest, toNode } from '../http/node.ts'
import { createHandler } from './handler.ts'
import { type BusinessApiOptions, readOptions } from './options.ts'

/**
 * The request handler, in every form in which hosts call handlers. No form uses `this`, and every failure becomes an answer;
 * only an error of the host's own `next` rejects.
 */
export interface BusinessApi {
  /** node:http, and Express with `next`, which receives every path outside of the API. */
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void>
  /** Fetch: Next.js, Hono, Bun, Deno, tests. */
  (request: Request, given: FetchBody): Promise<Response>
  (request: Request): Promise<Response>
  /**
   * The fetch form alone: `export const GET = api.fetch`.
   *
   * @param given the body, if the host has already read the body. Other second arguments of frameworks (`{ params }` of
   *   Next.js, the environment of Workers) are ignored
   */
  fetch(this: void, request: Request, given: FetchBody): Promise<Response>
  // The last overload, because the type check of Next.js routes reads the last one.
  fetch(this: void, request: Request): Promise<Response>
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
  const resolved = readOptions(options)
  const handler = createHandler(traceStore(store), resolved)

  async function serveFetch(request: Request, given?: object): Promise<Response> {
    const seen = fromFetch(request, given)
    return toFetch((await handler.handle(seen)) ?? handler.notFound(seen), request)
  }

  async function serveNode(request: NodeRequest, response: ServerResponse, next?: () => void): Promise<void> {
    const seen = fromNode(request, resolved.basePath)
    const reply = await handler.handle(seen)
    if (reply === null && next) next()
    else writeReply(reply ?? handler.notFound(seen), request, response)
  }

  function api(
    request: IncomingMessage | Request,
    second?: ServerResponse | object,
    next?: () => void,
  ): Promise<unknown> {
    // A fetch handler has a second argument too, so that only the request tells the forms apart.
    return isFetchRequest(request) || second === undefined
      ? serveFetch(request as Request, second)
      : serveNode(request, second as ServerResponse, next)
  }

  return Object.assign(api as Omit<BusinessApi, 'fetch'> as BusinessApi, { fetch: serveFetch })
}

/** Ends a response that the host has broken: the process must live on, and the caller must not wait. */
function writeReply(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  try {
    toNode(reply, request, response)
  } catch {
    response.destroy()
  }
}
