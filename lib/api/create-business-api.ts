import type { IncomingMessage, ServerResponse } from 'node:http'
import { traceStore } from '../base/tracing.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type FetchBody, fromFetch, isFetchRequest, toFetch } from '../http/fetch.ts'
import type { ApiReply } from '../http/message.ts'
import { fromNode, type NodeRequest, toNode } from '../http/node.ts'
import { createHandler } from './handler.ts'
import { type BusinessApiOptions, readOptions } from './options.ts'

/**
 * The request handler, in every form that hosts call handlers in. None of them uses `this` or lets a failure out other
 * than as an answer; all that can reject is what a host's own `next` throws.
 */
export interface BusinessApi {
  /** node:http, and Express with `next`: a path that is none of the API's is the host's to answer. */
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void>
  /** Fetch: Next.js, Hono, Bun, Deno, tests. */
  (request: Request, given: FetchBody): Promise<Response>
  (request: Request): Promise<Response>
  /**
   * The fetch form alone: `export const GET = api.fetch`.
   *
   * @param given the body, where the host has read it already. What frameworks pass to their handlers instead (Next.js
   *   `{ params }`, Workers their environment) is ignored
   */
  fetch(this: void, request: Request, given: FetchBody): Promise<Response>
  // Last, as Next.js' own check of a route's types looks at the last one.
  fetch(this: void, request: Request): Promise<Response>
}

/**
 * Serves the business API (specification, sections 1 to 9) from a store. Opens nothing, sets no timer, reads no
 * environment variable.
 *
 * @param store where everything is kept: `createPostgresStore`, `createMemoryStore`, or the host's own
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
    const reply = await handler.handle(seen, request.socket?.remoteAddress)
    if (reply === null && next) next()
    else writeReply(reply ?? handler.notFound(seen), request, response)
  }

  function api(
    request: IncomingMessage | Request,
    second?: ServerResponse | object,
    next?: () => void,
  ): Promise<unknown> {
    // A fetch handler has a second argument too, so the request tells what is being called.
    return isFetchRequest(request) || second === undefined
      ? serveFetch(request as Request, second)
      : serveNode(request, second as ServerResponse, next)
  }

  return Object.assign(api as Omit<BusinessApi, 'fetch'> as BusinessApi, { fetch: serveFetch })
}

/** A response that the host has broken must not take the process with it, nor leave the caller waiting. */
function writeReply(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  try {
    toNode(reply, request, response)
  } catch {
    response.destroy()
  }
}
