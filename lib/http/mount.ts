import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FetchBody, fromFetch, isFetchRequest, toFetch } from './fetch.ts'
import type { ApiReply, ApiRequest } from './message.ts'
import { fromNode, type NodeRequest, toNode } from './node.ts'

/**
 * A request handler, in every form that hosts call handlers in. None of them uses `this` or lets a failure out other
 * than as an answer; all that can reject is what a host's own `next` throws.
 */
export interface Mounted {
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

/** The request and the mount as the adapters received them. */
export interface Received {
  /** The host's own object: middleware leaves sessions on it. */
  readonly raw: IncomingMessage | Request
  /** The address at the other end of the socket, if there is one. */
  readonly remoteAddress?: string | undefined
  /** The path in front of the handler's own paths; empty for none. */
  readonly basePath: string
}

/** A handler between any two adapters. It never rejects. */
export interface Handler {
  /** Answers a request; null when its path is none of ours, so that a host with routes of its own can go on. */
  handle(request: ApiRequest, received: Received): Promise<ApiReply | null>
  /** The answer where no other handler could answer. */
  notFound(request: ApiRequest): ApiReply
}

/**
 * Gives a handler the forms that hosts call handlers in.
 *
 * @param basePath the mount path; undefined: the `baseUrl` of Express, else the root
 */
export function mount(handler: Handler, basePath: string | undefined): Mounted {
  async function serveFetch(request: Request, given?: object): Promise<Response> {
    const seen = fromFetch(request, given)
    const reply = await handler.handle(seen, { raw: request, basePath: basePath ?? '' })
    return toFetch(reply ?? handler.notFound(seen), request)
  }

  async function serveNode(request: NodeRequest, response: ServerResponse, next?: () => void): Promise<void> {
    const base = basePath ?? request.baseUrl ?? ''
    const seen = fromNode(request, base)
    const reply = await handler.handle(seen, {
      raw: request,
      basePath: base,
      remoteAddress: request.socket?.remoteAddress,
    })
    if (reply === null && next) next()
    else writeReply(reply ?? handler.notFound(seen), request, response)
  }

  function serve(
    request: IncomingMessage | Request,
    second?: ServerResponse | object,
    next?: () => void,
  ): Promise<unknown> {
    // A fetch handler has a second argument too, so the request tells what is being called.
    return isFetchRequest(request) || second === undefined
      ? serveFetch(request as Request, second)
      : serveNode(request, second as ServerResponse, next)
  }

  return Object.assign(serve as Omit<Mounted, 'fetch'> as Mounted, { fetch: serveFetch })
}

/** A response that the host has broken must not take the process with it, nor leave the caller waiting. */
function writeReply(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  try {
    toNode(reply, request, response)
  } catch {
    response.destroy()
  }
}
