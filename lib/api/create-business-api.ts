import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BusinessStore } from '../store.ts'
import { traceStore } from '../tracing.ts'
import { fromFetch, toFetch } from './fetch.ts'
import { createHandler } from './handler.ts'
import type { ApiReply } from './message.ts'
import { fromNode, type NodeRequest, toNode } from './node.ts'
import { type BusinessApiOptions, readOptions } from './options.ts'

/**
 * The request handler, in every form that hosts call handlers in. None of them uses `this` or lets a failure out other
 * than as an answer; all that can reject is what a host's own `next` throws.
 */
export interface BusinessApi {
  /** node:http, and Express with `next`: a path that is none of the API's is the host's to answer. */
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void>
  /** Fetch: Next.js, Hono, Bun, Deno, tests. */
  (request: Request): Promise<Response>
  /** The fetch form alone: `export const GET = api.fetch`. */
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
export function createBusinessApi(store: BusinessStore, options: BusinessApiOptions = {}): BusinessApi {
  const settings = readOptions(options)
  const handler = createHandler(traceStore(store), settings)

  async function serveFetch(request: Request): Promise<Response> {
    const seen = fromFetch(request)
    return toFetch((await handler.handle(seen)) ?? handler.notFound(seen), request)
  }

  async function serveNode(request: NodeRequest, response: ServerResponse, next?: () => void): Promise<void> {
    const seen = fromNode(request, settings.basePath)
    const reply = await handler.handle(seen)
    if (reply === null && next) next()
    else writeReply(reply ?? handler.notFound(seen), request, response)
  }

  function api(
    request: IncomingMessage | Request,
    response?: ServerResponse,
    next?: () => void,
  ): Promise<unknown> {
    // Next.js passes a second argument to its route handlers too, so the request tells what is being called.
    return isFetchRequest(request) || response === undefined
      ? serveFetch(request as Request)
      : serveNode(request, response, next)
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

function isFetchRequest(request: IncomingMessage | Request): request is Request {
  return typeof request.headers.get === 'function'
}
