import type { IncomingMessage, ServerResponse } from 'node:http'
import type { RateLimit } from '../access/rate-limit.ts'
import { type KeyScope, type Scope, type ScopeOf, scopesOf } from '../access/scopes.ts'
import { printValue, rejectUnknown } from '../base/options.ts'
import { traceStore } from '../base/tracing.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { fromFetch, isFetchRequest, toFetch } from '../http/fetch.ts'
import type { ApiReply } from '../http/message.ts'
import { type Mounted, mount } from '../http/mount.ts'
import { fromNode, toNode } from '../http/node.ts'
import { type Service, serviceOf } from '../service.ts'
import { createHandler } from './handler.ts'
import { type BusinessApiOptions, readOptions } from './options.ts'
import type { RequestLog } from './request-log.ts'

/** The request handler, which can be called in several ways. @typeParam Scopes names of the service's scopes */
export interface BusinessApi<Scopes extends string = Scope> extends Mounted {
  /** Returns the OpenAPI document, as served by `GET /openapi.json`. */
  describe(this: void): object
  readonly requestLog: RequestLog
  /** Default rate limit for API keys, or `null` if the store doesn't limit requests. */
  readonly keyRateLimit: RateLimit | null
  /**
   * Authenticates a request that your own framework handles. Like a built-in operation, this checks the API key, the
   * rate limits (taking one token) and the scope. It doesn't read the body or call your hooks.
   *
   * @param request a request from node:http, Express or fetch
   * @returns the caller and the headers to add to every response, or the response to send (401, 403, 429 or 503)
   * @throws `TypeError` if the service doesn't have the scope
   *
   * @example
   * ```ts
   * const caller = await api.authenticate(request, { scope: 'reports:read' })
   * if (caller.reply) return caller.reply.toResponse()        // node:http, Express: caller.reply.send(response)
   * ```
   */
  authenticate(
    this: void,
    request: IncomingMessage | Request,
    options: { readonly scope: Scopes },
  ): Promise<Authenticated>
}

/** The caller, for a request that the host handles itself, or the response to send. */
export type Authenticated =
  | {
      readonly organizationId: string
      readonly apiKey: { readonly id: string }
      /** The value of `X-Request-Id`. */
      readonly requestId: string
      /** Headers to add to the response (rate limits and `X-Request-Id`). */
      readonly headers: Readonly<Record<string, string>>
      readonly reply?: undefined
    }
  | {
      readonly reply: ApiReply & {
        toResponse(): Response
        /** Sends the response with node:http or Express. */
        send(response: ServerResponse): void
      }
    }

/**
 * Creates a request handler for the business API (see sections 1 to 9 of the spec). It doesn't open connections, start
 * timers or read environment variables.
 *
 * @param store `createPostgresStore(…)`, `createMemoryStore(…)` or your own store
 * @param options see {@link BusinessApiOptions}
 * @throws `TypeError` or `RangeError` if an option is invalid
 *
 * @example
 * ```ts
 * const handler = createBusinessApi(store)
 * createServer(handler).listen(3000)              // Express: app.use('/platform', handler)
 * ```
 */
export function createBusinessApi<Own extends Service = Service>(
  store: BusinessApiStore & { readonly service: Own },
  options: BusinessApiOptions = {},
): BusinessApi<ScopeOf<Own>> {
  const resolved = readOptions(options, serviceOf(store))
  const handler = createHandler(traceStore(store), resolved)

  async function authenticate(
    request: IncomingMessage | Request,
    options: { readonly scope: KeyScope },
  ): Promise<Authenticated> {
    rejectUnknown(options, { scope: true })
    const { scope } = options
    if (!scopesOf(resolved).includes(scope))
      throw new TypeError(
        `Cannot authenticate a request because the service has no scope ${printValue(scope)}`,
      )
    const fetched = isFetchRequest(request)
    const seen = fetched ? fromFetch(request) : { ...fromNode(request, ''), isRead: () => true }
    const remoteAddress = fetched ? undefined : request.socket?.remoteAddress
    const admitted = await handler.authenticate(seen, remoteAddress, scope)
    if ('caller' in admitted) {
      const { requestId, caller, headers } = admitted
      const { organizationId, keyId } = caller
      const all = { 'X-Request-Id': requestId, ...headers }
      return { organizationId, apiKey: { id: keyId }, requestId, headers: all }
    }
    const toResponse = () => toFetch(admitted, seen)
    const send = (response: ServerResponse) => toNode(admitted, request as IncomingMessage, response)
    return { reply: { ...admitted, toResponse, send } }
  }

  const { describe, requestLog } = handler
  const keyRateLimit = (resolved.rateLimitScope === 'shared' && resolved.rateLimits?.key) || null
  const mounted = mount(handler, resolved.basePath)
  return Object.assign(mounted, { describe, requestLog, keyRateLimit, authenticate })
}
