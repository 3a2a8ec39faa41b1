import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FetchBody, fromFetch, isFetchRequest, toFetch } from './fetch.ts'
import type { ApiReply, ApiRequest } from './message.ts'
import { fromNode, type NodeRequest, toNode } from './node.ts'

/**
 * A request handler that can be called in several ways. `this` is never used, and all errors become responses. A call
 * only rejects if the host's own `next` throws.
 */
export interface Mounted {
  /** For node:http and Express. Calls `next` (if there is one) for all paths outside the API. */
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void>
  /** For fetch, as used by Next.js, Hono, Bun, Deno and tests. */
  (request: Request, given: FetchBody): Promise<Response>
  (request: Request): Promise<Response>
  /**
   * The fetch version on its own, for example `export const GET = api.fetch`.
   *
   * @param given the body, if the host has already read it. Anything else that frameworks pass here, like `{ params }`
   *   in Next.js or the environment in Workers, is ignored
   */
  fetch(this: void, request: Request, given: FetchBody): Promise<Response>
  // This overload must come last, because that's the one Next.js checks a route's types against.
  fetch(this: void, request: Request): Promise<Response>
}

/** A request's details, as known to the adapters. */
export interface Received {
  /** The host's request object, which may contain a session set by middleware. */
  readonly raw: IncomingMessage | Request
  /** The socket's remote address, or `undefined` if there's no socket. */
  readonly remoteAddress?: string | undefined
  /** The prefix of all paths in the handler. Can be empty. */
  readonly basePath: string
  /** The prefix as callers see it. Same as {@link basePath}, or if that's empty, the path removed by Express. */
  readonly publicPath: string
}

/** A handler for adapters to call. None of the methods reject. */
export interface Handler {
  /** Handles a request. Returns `null` if the path is unknown, so the host can try other routes. */
  handle(request: ApiRequest, received: Received): Promise<ApiReply | null>
  /** Returns the response for an unknown path when the host doesn't have other routes. */
  notFound(request: ApiRequest, received: Received): ApiReply
}

/**
 * Turns a handler into a function that a host can mount.
 *
 * @param basePath the mount path. Defaults to the `baseUrl` set by Express, or empty
 */
export function mount(handler: Handler, basePath: string | undefined): Mounted {
  async function serveFetch(request: Request, given?: object): Promise<Response> {
    if (!isFetchRequest(request))
      throw new TypeError('Cannot serve the request by fetch() because it is of node:http')
    const seen = fromFetch(request, given)
    const received = { raw: request, basePath: basePath ?? '', publicPath: basePath ?? '' }
    const reply = await handler.handle(seen, received)
    return toFetch(reply ?? handler.notFound(seen, received), seen)
  }

  async function serveNode(request: NodeRequest, response: ServerResponse, next?: () => void): Promise<void> {
    const base = basePath ?? request.baseUrl ?? ''
    const seen = fromNode(request, base)
    const received = {
      raw: request,
      basePath: base,
      // A pattern mount in Express leaves a double slash, which would refer to another host in a link.
      publicPath: (base || (request.baseUrl ?? '')).replace(/^[/\\]+/, '/'),
      remoteAddress: request.socket?.remoteAddress,
    }
    const reply = await handler.handle(seen, received)
    if (reply === null && next) next()
    else writeReply(reply ?? handler.notFound(seen, received), request, response)
  }

  function serve(
    request: IncomingMessage | Request,
    second?: ServerResponse | object,
    next?: () => void,
  ): Promise<unknown> {
    // Fetch handlers can have a second argument, too, so check the request's type.
    return isFetchRequest(request) || second === undefined
      ? serveFetch(request as Request, second)
      : serveNode(request, second as ServerResponse, next)
  }

  return Object.assign(serve as Omit<Mounted, 'fetch'> as Mounted, { fetch: serveFetch })
}

/** Sends a reply, or closes the response if the host broke it. Must not throw or keep the caller waiting. */
function writeReply(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  try {
    toNode(reply, request, response)
  } catch {
    response.destroy()
  }
}
