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
  const find = createRouting(store, operations, resolved)
  const spareIds = createIds()

  async function answer({ router }: Served, path: string, exchange: Exchange): Promise<ApiReply> {
    // HEAD is a GET whose body the adapters leave out.
    const { method } = exchange.request
    return router.fetch({ method: method === 'HEAD' ? 'GET' : method, url: ORIGIN + path }, exchange)
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
    const served = PLAIN_PATH.test(path) ? find(path) : undefined
    if (served === undefined) return null
    const { answered, described } = await exchanged(request, target.query, from, (exchange) =>
      answer(served, path, exchange),
    )
    requestLog.note(described, answered, served.template)
    noteAnswer(described, answered, served.template, traced)
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

type Answer = (request: RoutedRequest, exchange: Exchange) => ApiReply | Promise<ApiReply>

/** A path of the API, with the names of its parameters: `/api/v1/bookings/{bookingId}`. */
interface Served {
  readonly template: string
  readonly pattern: RegExp
  readonly router: ReturnType<typeof Router<RoutedRequest, [Exchange]>>
}

/** A constant: nothing may be derived from a Host header or an absolute-form target. */
const ORIGIN = 'http://localhost'

/** Finds what serves a path. The built-in paths come first, then those with fewer parameters. */
function createRouting(store: BusinessApiStore, operations: Operations, resolved: ResolvedOptions) {
  const routes = createRoutes(store)
  rejectTaken(routes, resolved.routes)
  const describe = createOpenApiReply(routes, resolved)
  const answers = new Map<string, Record<string, Answer>>()
  const add = (path: string, method: string, answer: Answer) =>
    answers.set(path, { ...answers.get(path), [method]: answer })

  add('/openapi.json', 'GET', (_, exchange) => describe(exchange))
  for (const route of routes)
    add(route.path, route.method, (_, exchange) =>
      route.method === 'GET' ? operations.list(route, exchange) : operations.create(route, exchange),
    )
  for (const route of resolved.routes)
    add(API_PATH + route.path, route.method, ({ url, params = {} }, exchange) =>
      operations.own(route, { path: url.slice(ORIGIN.length), params: { ...params } }, exchange),
    )
  const served = new Map([...answers].map(([path, byMethod]) => [path, serve(path, byMethod)]))
  const templates = [...served.values()].filter(({ template }) => template.includes('{'))
  return (path: string) => served.get(path) ?? templates.find(({ pattern }) => pattern.test(path))
}

function serve(template: string, answers: Readonly<Record<string, Answer>>): Served {
  const router = Router<RoutedRequest, [Exchange]>()
  const path = template.replace(/\{(\w+)\}/g, ':$1')
  const allow = [...Object.keys(answers), ...(answers.GET ? ['HEAD'] : []), 'OPTIONS'].join(', ')
  const open = template === '/openapi.json' ? OPEN_TO_BROWSERS : {}
  for (const [method, answer] of Object.entries(answers)) router[method.toLowerCase() as 'get'](path, answer)
  router.options(path, (_, exchange) => bareReply(204, exchange, { Allow: allow, ...open }))
  router.all(path, () => {
    throw refusals.wrongMethod(allow)
  })
  return { template, pattern: new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`), router }
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
