import { Router } from 'itty-router/Router'
import type { KeyScope } from '../access/scopes.ts'
import { createIds } from '../base/ids.ts'
import { channels, type RequestTrace, trace } from '../base/tracing.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { ApiReply, ApiRequest } from '../http/message.ts'
import type { Handler, Received } from '../http/mount.ts'
import { refusals, toRefusal } from '../http/refusal.ts'
import { bareReply, jsonReply } from '../http/reply.ts'
import { createReport, isRequestId, type Report } from '../http/report.ts'
import { pathOf, splitTarget } from '../http/target.ts'
import { buildOpenApiDocument } from '../openapi/document.ts'
import { API_PATH, rejectTaken } from '../resources/own-routes.ts'
import { createRoutes } from '../resources/records.ts'
import { createAuthentication } from './authenticate.ts'
import { beginExchange, type Exchange } from './exchange.ts'
import { createNoteAnswer, type DescribedExchange } from './hooks.ts'
import { createOpenApiReply, OPEN_TO_BROWSERS } from './openapi-reply.ts'
import { createOperations, type Fail, type Operations } from './operations.ts'
import type { ResolvedOptions } from './options.ts'
import type { Admitted } from './own-operation.ts'
import { peerOf } from './peer-address.ts'
import { createRequestLog, type LoggedExchange, type RequestLog } from './request-log.ts'

/** The facts about a mount and a socket that an exchange needs. */
type ReceivedFrom = Pick<Received, 'remoteAddress' | 'publicPath'>

/** The API behind every adapter, and the OpenAPI document. */
export interface ApiHandler extends Handler {
  /** Returns the OpenAPI document. */
  describe(): object
  readonly requestLog: RequestLog
  /** Admits a request that the host answers itself. Never rejects: the reply is that of a refusal. */
  authenticate(
    request: ApiRequest,
    remoteAddress: string | undefined,
    scope: KeyScope,
  ): Promise<Admitted | ApiReply>
}

/**
 * Creates the core. Every request goes the same way: route and method, then the operation, then the reply. Every error on
 * the way becomes an answer.
 */
export function createHandler(store: BusinessApiStore, resolved: ResolvedOptions): ApiHandler {
  const { basePath, deadlineMs, peerAddress, trailingSlash } = resolved
  const report = createReport(resolved.logger, resolved.onError)
  const fail = createFail(report)
  const noteAnswer = createNoteAnswer(resolved.onResponse, report)
  const authentication = createAuthentication(store, deadlineMs)
  const requestLog = createRequestLog(store, resolved.requestLog, resolved)
  const operations = createOperations(store, authentication, resolved, fail)
  const { router, templateOf } = createRouter(store, operations, resolved)
  const spareIds = createIds()

  async function answer(path: string, exchange: Exchange): Promise<ApiReply | null> {
    // HEAD is a GET whose body the adapters leave out.
    const { method } = exchange.request
    const routed = { method: method === 'HEAD' ? 'GET' : method, url: ORIGIN + path }
    const reply: ApiReply | undefined = await router.fetch(routed, exchange)
    return reply ?? null
  }

  function begin(request: ApiRequest, query: string, { remoteAddress, publicPath }: ReceivedFrom): Exchange {
    const requestId = resolved.ids('req')
    if (!isRequestId(requestId))
      throw new TypeError("Cannot use option 'ids' because it made no id for a request")
    const header = (name: string): string | undefined => request.header(name)
    const address = (): string | undefined => peerAddress({ remoteAddress, header })
    const peer = (): string => peerOf(address())
    const credentials = authentication.read(request.header('authorization'))
    let end: (() => void) | undefined
    const hold = (): void => {
      end ??= store.beginRequest?.() ?? (() => {})
    }
    const release = (): void => end?.()
    const about = { request, query, requestId, publicPath, credentials, address, peer, hold, release }
    return beginExchange(about, deadlineMs)
  }

  /** Waits for the turn of an unknown caller, for whom the store stays open meanwhile. */
  async function enter({ hold, peer, inTime }: Exchange): Promise<void> {
    try {
      hold()
    } catch {
      // The operation refuses; the OpenAPI document needs no store.
    }
    const turn = authentication.enter(peer)
    if (turn) await inTime(turn)
  }

  /** Stands in for the exchange of a host with broken ids or a broken clock, with an id of the library's own. */
  function withoutOwnId(request: ApiRequest): DescribedExchange {
    const facts = { operationId: null, organizationId: null, keyId: null }
    const beganAt = performance.now()
    return { request, requestId: spareIds('req'), beganAt, facts, address: () => undefined }
  }

  /** Does the work of a request from the beginning of its exchange to the end. A failure becomes the answer. */
  async function exchanged<Answer>(
    request: ApiRequest,
    query: string,
    from: ReceivedFrom,
    work: (exchange: Exchange) => Promise<Answer>,
  ): Promise<{ readonly answered: Answer | ApiReply; readonly described: LoggedExchange }> {
    let exchange: Exchange | undefined
    try {
      exchange = begin(request, query, from)
      if (exchange.credentials.kind !== 'known') await enter(exchange)
      return { answered: await work(exchange), described: exchange }
    } catch (error) {
      const described = exchange ?? withoutOwnId(request)
      return { answered: fail(error, described), described }
    } finally {
      exchange?.release()
    }
  }

  async function handle(
    request: ApiRequest,
    from: ReceivedFrom,
    traced: RequestTrace | undefined,
  ): Promise<ApiReply | null> {
    const target = splitTarget(request.url, basePath)
    if (target === null) return null
    const path = trailingSlash ? target.path.replace(/(?<=[^/])\/$/, '') : target.path
    const template = PLAIN_PATH.test(path) ? templateOf(path) : undefined
    if (template === undefined) return null
    const { answered, described } = await exchanged(request, target.query, from, (exchange) =>
      answer(path, exchange),
    )
    if (answered) {
      requestLog.note(described, answered, template)
      noteAnswer(described, answered, template, traced)
    }
    return answered
  }

  return {
    requestLog,
    handle(request, received) {
      const describe = (): RequestTrace => ({ method: request.method, path: pathOf(request.url) })
      return trace(channels.request, describe, (traced) => handle(request, received, traced))
    },
    notFound(request, received) {
      const seen = pathOf(request.url).slice(0, 200)
      let described: DescribedExchange
      let refusal: unknown = refusals.notFound(`No such path: ${seen}`)
      try {
        described = begin(request, '', received)
      } catch (error) {
        described = withoutOwnId(request)
        refusal = error
      }
      const reply = fail(refusal, described)
      noteAnswer(described, reply, null, undefined)
      return reply
    },
    async authenticate(request, remoteAddress, scope) {
      const from = { remoteAddress, publicPath: '' }
      const work = (exchange: Exchange) => operations.authenticate(scope, exchange)
      return (await exchanged(request, '', from, work)).answered
    },
    describe: () => buildOpenApiDocument({ ...resolved, operations: createRoutes(store) }),
  }
}

// --- Routing ---

/** The parts of a request that the router needs. */
interface RoutedRequest {
  readonly method: string
  readonly url: string
  /** The parameters of the path, by the router. */
  readonly params?: Readonly<Record<string, string>>
}

/** A constant: nothing may be derived from a Host header or an absolute-form target. */
const ORIGIN = 'http://localhost'

function createRouter(store: BusinessApiStore, operations: Operations, resolved: ResolvedOptions) {
  const routes = createRoutes(store)
  rejectTaken(routes, resolved.routes)
  const describe = createOpenApiReply(routes, resolved)
  const router = Router<RoutedRequest, [Exchange]>()
  const methods = new Map<string, string[]>([['/openapi.json', ['GET']]])

  router.get('/openapi.json', (_, exchange) => describe(exchange))
  for (const route of routes) {
    methods.set(route.path, [...(methods.get(route.path) ?? []), route.method])
    if (route.method === 'GET') router.get(route.path, (_, exchange) => operations.list(route, exchange))
    else router.post(route.path, (_, exchange) => operations.create(route, exchange))
  }
  for (const route of resolved.routes) {
    const path = API_PATH + route.path
    methods.set(path, [...(methods.get(path) ?? []), route.method])
    const add = router[route.method.toLowerCase() as 'get']
    add(patternOf(path), ({ url, params = {} }, exchange) =>
      operations.own(route, { path: url.slice(ORIGIN.length), params: { ...params } }, exchange),
    )
  }
  for (const [path, served] of methods) {
    const allow = [...served, ...(served.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
    const open = path === '/openapi.json' ? OPEN_TO_BROWSERS : {}
    router.options(patternOf(path), (_, exchange) => bareReply(204, exchange, { Allow: allow, ...open }))
    router.all(patternOf(path), () => {
      throw refusals.wrongMethod(allow)
    })
  }
  const templates = [...methods.keys()].filter((path) => path.includes('{'))
  const patterns = templates.map((path) => new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`))
  return {
    router,
    /** Returns the path of the operations that serve a path, with the names of its parameters; undefined for none. */
    templateOf: (path: string): string | undefined =>
      methods.has(path) ? path : templates[patterns.findIndex((pattern) => pattern.test(path))],
  }
}

/** Writes a path with parameters for the router. */
function patternOf(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1')
}

/**
 * Matches paths that reach the router unchanged. Dot segments, backslashes and escapes would be resolved on the way, so that a
 * caller could get around a host's rule for a path. A trailing slash makes another path, but the router would ignore the
 * slash.
 */
const PLAIN_PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.-]+)+$/

// --- Failures ---

function createFail(report: Report): Fail {
  return (error, { request, requestId }, headers = {}) => {
    const refusal = toRefusal(error)
    const { status, message } = refusal
    if (refusal !== error) {
      report(error, { requestId, method: request.method, path: pathOf(request.url), status })
    }
    const body = JSON.stringify({ error: message, requestId })
    return jsonReply(status, body, { requestId, headers }, refusal.headers)
  }
}
