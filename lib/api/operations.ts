import type { Admission, AdmissionRequest, Caller } from '../access/admission.ts'
import type { ApiKeyStore } from '../access/api-keys.ts'
import type { KeyScope } from '../access/scopes.ts'
import { describeError, type Logger } from '../base/log.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { listUrl, nextLink, readListQuery, syncToken } from '../http/list-query.ts'
import type { ApiReply } from '../http/message.ts'
import { rateLimitHeaders } from '../http/rate-limit-headers.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { jsonReply } from '../http/reply.ts'
import type { Route as OwnRoute } from '../resources/own-routes.ts'
import type { CreateRoute, ListRoute } from '../resources/route.ts'
import { readCreation, settle } from './asked-creation.ts'
import type { Authentication } from './authenticate.ts'
import type { Exchange } from './exchange.ts'
import { askHost } from './hooks.ts'
import { createLocalLimiter } from './local-limiter.ts'
import type { ResolvedOptions } from './options.ts'
import { type Admitted, answerOwn, type Matched } from './own-operation.ts'

/** The operations by kind, plus authentication for requests that the host handles itself. */
export type Operations = ReturnType<typeof createOperations>

/** The requested operation. The id is `null` if the host handles the request itself. */
interface Asked {
  readonly operationId: string | null
  readonly scope: KeyScope
}

/** Creates an error response. */
export type Fail = (
  error: unknown,
  about: Pick<Exchange, 'request' | 'requestId'>,
  headers?: Readonly<Record<string, string>>,
) => ApiReply

/**
 * Creates the operations. The order of checks is 401, 429, 403, then the host's `onRequest`, then 415, 413, 400, then
 * 422, then idempotency, then 404 or 200. Routing and 405 happen earlier.
 */
export function createOperations(
  store: BusinessApiStore,
  authentication: Authentication,
  resolved: ResolvedOptions,
  fail: Fail,
) {
  const { rateLimits, rateLimitScope, onRequest, baseUrl } = resolved
  const limitLocally =
    rateLimits && rateLimitScope === 'process'
      ? createLocalLimiter(rateLimits)
      : (admission: Admission) => admission
  const recordLastUse = createLastUse(store.apiKeys, resolved.logger)

  /** Responds to an admitted caller, or returns the rejection. */
  async function enter<Answer>(
    verdict: Admission,
    { keyDigest, scope }: AdmissionRequest,
    exchange: Exchange,
    answer: (admitted: Admitted) => Answer | Promise<Answer>,
  ): Promise<Answer | ApiReply> {
    const admission = limitLocally(verdict)
    if (admission.outcome === 'unauthenticated') throw authentication.refuse(keyDigest)
    if (admission.lastUseIsStale) recordLastUse(admission.caller)
    const { organizationId, keyId } = admission.caller
    exchange.facts.organizationId = organizationId
    exchange.facts.keyId = keyId
    const headers = admission.rateLimit ? rateLimitHeaders(admission.rateLimit) : {}
    try {
      if (admission.outcome === 'limited') throw refusals.limited(admission.rateLimit?.retryAfterMs ?? 0)
      if (admission.outcome === 'forbidden') throw refusals.forbidden(scope)
      if (onRequest && exchange.facts.operationId !== null) await askHost(onRequest, exchange, scope)
      return await answer({ requestId: exchange.requestId, caller: admission.caller, headers })
    } catch (error) {
      return fail(error, exchange, headers)
    }
  }

  async function answerList(
    route: ListRoute,
    request: AdmissionRequest,
    exchange: Exchange,
  ): Promise<ApiReply> {
    const asked = readListQuery(exchange.query, route.idKind)
    if (asked instanceof Refusal) {
      const admission = await exchange.inTime(store.apiKeys.admit(request))
      return enter(admission, request, exchange, () => Promise.reject(asked))
    }
    const { admission, page, error, next, position } = await exchange.inTime(
      route.admitAndList(request, asked),
    )
    return enter(admission, request, exchange, (admitted) => {
      if (page === null)
        throw error ?? new TypeError(`Cannot answer ${route.operationId} because the store gave no page`)
      const linkTo = (more: Readonly<Record<string, string>>) => ({
        Link: nextLink(listUrl(route.path, baseUrl, exchange.request.url), exchange.query, more),
      })
      if (asked.since === undefined) {
        const link = next == null ? {} : linkTo({ before: next })
        return jsonReply(200, pageBody(page), admitted, link)
      }
      if (position == null) throw refusals.notSynced()
      // Every page includes the next token, so a client can stop after any page.
      const token = syncToken(position)
      const link = next == null ? {} : linkTo({ updatedSince: token })
      return jsonReply(200, pageBody(page), admitted, { 'Sync-Token': token, ...link })
    })
  }

  /** Finds a request's key and builds the admission request for an operation. */
  async function present(route: Asked, exchange: Exchange): Promise<AdmissionRequest> {
    exchange.facts.operationId = route.operationId
    exchange.hold()
    const { keyDigest, organizationHint } = await authentication.find(exchange)
    const shared = rateLimitScope === 'shared' ? rateLimits : null
    return { keyDigest, organizationHint, scope: route.scope, rateLimits: shared }
  }

  /** Decides whether to admit a request and responds if so. */
  async function judge<Answer>(
    route: Asked,
    exchange: Exchange,
    answer: (admitted: Admitted) => Answer | Promise<Answer>,
  ): Promise<Answer | ApiReply> {
    const request = await present(route, exchange)
    return enter(await exchange.inTime(store.apiKeys.admit(request)), request, exchange, answer)
  }

  return {
    async list(route: ListRoute, exchange: Exchange) {
      return answerList(route, await present(route, exchange), exchange)
    },
    create: (route: CreateRoute, exchange: Exchange) =>
      judge(route, exchange, async (admitted) => {
        const { creation, reply } = await readCreation(route, exchange, admitted.caller, resolved)
        const { body, headers } = settle(await exchange.inTime(route.create(creation)), reply)
        return jsonReply(200, body, admitted, headers)
      }),
    own: (route: OwnRoute, matched: Matched, exchange: Exchange) =>
      judge(route, exchange, (admitted) => answerOwn(route, matched, exchange, admitted, resolved)),
    /** Returns the error response if the request isn't admitted. */
    authenticate: (scope: KeyScope, exchange: Exchange) =>
      judge({ operationId: null, scope }, exchange, (admitted) => admitted),
  }
}

const PAGE_START = Buffer.from('{"data":')
const PAGE_END = Buffer.from('}')

/** Wraps a page in an object, without converting bytes to a string. */
function pageBody(page: string | Uint8Array): string | Uint8Array {
  return typeof page === 'string' ? `{"data":${page}}` : Buffer.concat([PAGE_START, page, PAGE_END])
}

/**
 * Creates a function that records when a key was last used, without delaying the request. Each key has at most one
 * write in flight, since other requests see a stale last use until the write is done.
 */
function createLastUse(apiKeys: ApiKeyStore, logger: Logger): (caller: Caller) => void {
  const underWay = new Set<string>()

  async function write({ organizationId, keyId }: Caller): Promise<void> {
    try {
      await apiKeys.markUsed(organizationId, keyId)
    } catch (error) {
      // This is best-effort. The next request will try again.
      logger.warn({ keyId, error: describeError(error) }, 'Last use of an API key not recorded')
    } finally {
      underWay.delete(keyId)
    }
  }

  return (caller) => {
    if (underWay.has(caller.keyId)) return
    underWay.add(caller.keyId)
    void write(caller)
  }
}
