import type { Caller } from '../access/admission.ts'
import { storeUnavailable } from '../base/errors.ts'
import { checkValue, quickCheck, type StandardSchema } from '../base/standard-schema.ts'
import { readJson, readParameters } from '../http/body.ts'
import { isIdLike, listUrl, nextLink, readListQuery } from '../http/list-query.ts'
import type { ApiReply } from '../http/message.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { jsonReply } from '../http/reply.ts'
import { readIdempotencyKey, validateOwn } from '../http/validate.ts'
import { REPLY, type Rendered, type RouteContext, type RouteState, STATE } from '../resources/own-replies.ts'
import { API_PATH, isIdempotent, type Route } from '../resources/own-routes.ts'
import { fingerprintOfJson } from '../writes/idempotency.ts'
import { reserve, settle } from './asked-creation.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/** A path below the mount path that matches a route. */
export interface Matched {
  readonly path: string
  readonly params: Readonly<Record<string, string>>
}

/** An admitted caller and what to repeat in the response. */
export interface Admitted {
  readonly requestId: string
  readonly caller: Caller
  /** The rate limit headers, sent with every response to this caller. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Handles an admitted request with a route defined by the host. Validates the input, calls the host's function until
 * the deadline, and validates the result.
 *
 * @throws `Refusal` with status 415, 413, 400 or 422, or any error that the host throws
 */
export async function answerOwn(
  route: Route,
  matched: Matched,
  exchange: Exchange,
  { caller: { organizationId, keyId }, ...admitted }: Admitted,
  options: ResolvedOptions,
): Promise<ApiReply> {
  const { input, paging, key, fingerprint } = await readInput(route, matched, exchange, options)
  const { requestId, deadlineAt } = exchange
  let controller: AbortController | undefined
  const state: RouteState = {
    paging,
    ending() {
      controller ??= new AbortController()
      return controller
    },
    render: (result) => render(route, result),
    async once(replies, writeId, work) {
      const { signal } = state.ending()
      signal.throwIfAborted()
      const operation = `${route.method} ${API_PATH}${route.path}`
      const idempotency = key === null ? null : reserve(operation, key, fingerprint, deadlineAt)
      let body = ''
      const outcome = await replies.once(
        { organizationId, apiKeyId: keyId, writeId, idempotency },
        async () => {
          body = render(route, await work())
          signal.throwIfAborted()
          return body
        },
      )
      return settle(outcome, body)
    },
  }
  const facts = { organizationId, apiKey: { id: keyId }, input, requestId, [STATE]: state }
  const context = Object.defineProperty(facts, 'signal', SIGNAL) as RouteContext
  const result: unknown = await exchange.inTime((async () => route.handle(context))(), () => {
    const late = `Cannot answer the request because route ${route.operationId} has not answered in time`
    state.ending().abort(storeUnavailable(late))
    return state.ending().signal.reason
  })
  const rendered: Rendered | undefined = Object(result)[REPLY]
  if (!rendered && isIdempotent(route)) {
    throw new TypeError(
      `Cannot answer by route ${route.operationId} because handle() has not returned the reply of platform.using(tx).idempotent(…): ` +
        'return it, or say idempotent: false',
    )
  }
  return jsonReply(200, rendered?.body ?? render(route, result), admitted, rendered?.headers)
}

/**
 * Creates the signal lazily, since creating it takes a tenth of a short request. All contexts share this accessor.
 * Otherwise each one would have a separate hidden class, and garbage collection would take a fifth of the time.
 */
const SIGNAL: PropertyDescriptor & ThisType<RouteContext> = {
  enumerable: true,
  get() {
    return this[STATE].ending().signal
  },
}

/** Fast result checks, by schema. */
const CHECKS = new WeakMap<StandardSchema, (result: unknown) => boolean>()

function render({ operationId, response }: Route, result: unknown): string {
  const fits = CHECKS.get(response) ?? quickCheck(response)
  CHECKS.set(response, fits)
  const checked = fits(result) ? { value: result } : checkValue(response, result)
  const text = 'value' in checked ? JSON.stringify(checked.value) : undefined
  if (text !== undefined) return text
  const faults = 'faults' in checked ? checked.faults : []
  const reasons = faults.map(({ path, requirement }) => `${path.join('.') || 'it'} ${requirement}`)
  const misfit = reasons.join('; ') || 'it is no JSON'
  throw new TypeError(
    `Cannot answer by route ${operationId} because its result does not fit 'response': ${misfit}`,
  )
}

// --- Input ---

async function readInput(
  route: Route,
  { path, params }: Matched,
  exchange: Exchange,
  { maxBodyBytes, baseUrl }: ResolvedOptions,
) {
  const { request } = exchange
  const sent = route.body && (await exchange.inTime(readJson(request, maxBodyBytes), refusals.slowBody))
  const query = route.query && textsOf(exchange.query)
  // A GET without a query can't contain anything unstorable, and doesn't support idempotency keys.
  const fingerprint = route.method === 'GET' && !query ? '' : fingerprintOfJson({ params, query, sent })
  if (fingerprint === null) throw refusals.unstorable()
  const paging = route.paged ? readPaging(route.paged, path, exchange, baseUrl) : null
  const key = route.method === 'GET' ? null : readIdempotencyKey(request.header('idempotency-key'))
  if (key !== null && !isIdempotent(route)) throw refusals.noIdempotency()
  const input = {
    params,
    query: route.query && validateOwn(route.query, query, 'query '),
    body: route.body && validateOwn(route.body, sent, ''),
  }
  return { input, paging, key, fingerprint }
}

function readPaging(
  ids: RegExp,
  path: string,
  { query, request }: Exchange,
  baseUrl: string | undefined,
): RouteState['paging'] {
  const asked = readListQuery(query, ids)
  if (asked instanceof Refusal) throw asked
  return {
    limit: asked.limit,
    before: asked.before ?? null,
    linkAfter(before) {
      if (isIdLike(before, ids)) return nextLink(listUrl(path, baseUrl, request.url), query, { before }, true)
      throw new TypeError(`Cannot link the next page because the id '${before}' does not fit 'paged'`)
    },
  }
}

/** Parses a query string. Values are strings, or lists of strings if a name is repeated. */
function textsOf(query: string): Readonly<Record<string, string | readonly string[]>> {
  const entries = [...readParameters(query)]
  return Object.fromEntries(entries.map(([name, all]) => [name, all.length > 1 ? all : (all[0] ?? '')]))
}
