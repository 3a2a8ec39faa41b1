import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FetchBody, fromFetch, isFetchRequest, toFetch } from './fetch.ts'
import type { ApiReply, ApiRequest } from './message.ts'
import { fromNode, type NodeRequest, toNode } from './node.ts'

/**
 * A request handler, in every form that hosts call handlers in. No form uses `this`, and every failure becomes a response. The
 * handler rejects only with an error that the host's own `next` throws.
 */
export interface Mounted {
  /** node:http, and Express with `next`: the host answers every path outside the API. */
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void>
  /** Fetch: Next.js, Hono, Bun, Deno, tests. */
  (request: Request, given: FetchBody): Promise<Response>
  (request: Request): Promise<Response>
  /**
   * The fetch form alone: `export const GET = api.fetch`.
   *
   * @param given the body, if the host has read the body already. Other arguments of frameworks (Next.js `{ params }`, the
   *   environment of Workers) are ignored
   */
  fetch(this: void, request: Request, given: FetchBody): Promise<Response>
  // The last overload, because Next.js checks a route's types against the last overload.
  fetch(this: void, request: Request): Promise<Response>
}

/** The request and the mount path from the adapters. */
export interface Received {
  /** The host's own request object, where middleware leaves sessions. */
  readonly raw: IncomingMessage | Request
  /** The remote address of the socket; undefined without a socket. */
  readonly remoteAddress?: string | undefined
  /** The path in front of the handler's own paths; empty for none. */
  readonly basePath: string
  /** The path in front of the handler's own paths as callers see it: {@link basePath}, else the mount path that Express strips. */
  readonly publicPath: string
}

/** A handler behind every adapter. Never rejects. */
export interface Handler {
  /** Answers a request; null for an unknown path, so a host with other routes can go on. */
  handle(request: ApiRequest, received: Received): Promise<ApiReply | null>
  /** The response to an unknown path where the host has no other handler. */
  notFound(request: ApiRequest, received: Received): ApiReply
}

/**
 * Gives a handler the forms that hosts call handlers in.
 *
 * @param basePath the mount path; undefined: the `baseUrl` of Express, else the root
 */
export function mount(handler: Handler, basePath: string | undefined): Mounted {
  async function serveFetch(request: Request, given?: object): Promise<Response> {
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
      publicPath: onThisHost(base || (request.baseUrl ?? '')),
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
    // A fetch handler has a second argument too, so the request's type decides.
    return isFetchRequest(request) || second === undefined
      ? serveFetch(request as Request, second)
      : serveNode(request, second as ServerResponse, next)
  }

  return Object.assign(serve as Omit<Mounted, 'fetch'> as Mounted, { fetch: serveFetch })
}

/** A mount path that begins with two slashes, from a pattern mount of Express, would name another host in a link. */
function onThisHost(path: string): string {
  return path.replace(/^[/\\]+/, '/')
}

/** Ends a response that the host has broken: the failure must not end the process or leave the caller waiting. */
function writeReply(reply: ApiReply, request: NodeRequest, response: ServerResponse): void {
  try {
    toNode(reply, request, response)
  } catch {
    response.destroy()
  }
}
