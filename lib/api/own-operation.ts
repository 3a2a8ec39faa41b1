import type { Caller } from '../access/admission.ts'
import { storeUnavailable } from '../base/errors.ts'
import { checkValue } from '../base/standard-schema.ts'
import { readJson } from '../http/body.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import { listUrl, nextLink, readListQuery } from '../http/list-query.ts'
import type { ApiReply } from '../http/message.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { jsonReply } from '../http/reply.ts'
import { validateOwn } from '../http/validate.ts'
import {
  REPLY,
  type ReplyParts,
  type RouteContext,
  type RouteState,
  STATE,
} from '../resources/own-replies.ts'
import { API_PATH, isIdempotent, type Route } from '../resources/own-routes.ts'
import { fingerprintOfJson, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import { waitMsOf } from './asked-creation.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/** The path that a route has matched, below the mount. */
export interface Matched {
  readonly path: string
  readonly params: Readonly<Record<string, string>>
}

/** An admitted caller, with the facts about the request that an answer repeats. */
export interface Admitted {
  readonly requestId: string
  readonly caller: Caller
  /** The headers of every answer to the caller: the rate limits. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Answers an admitted request by a route of the host's own: checks the input, lets the host work until the deadline, and checks the result.
 *
 * @throws `Refusal` 415, 413, 400 or 422, or of the host; every other error of the host
 */
export async function answerOwn(
  route: Route,
  matched: Matched,
  exchange: Exchange,
  admitted: Admitted,
  options: ResolvedOptions,
): Promise<ApiReply> {
  const { input, paging, reserve } = await readInput(route, matched, exchange, options)
  const { organizationId, keyId } = admitted.caller
  let controller: AbortController | undefined
  const ending = () => {
    controller ??= new AbortController()
    return controller
  }
  const facts: Omit<RouteContext, 'signal'> = {
    organizationId,
    apiKey: { id: keyId },
    input,
    requestId: exchange.requestId,
    [STATE]: { paging, reserve, ending, render: (given) => render(route, given) },
  }
  const context = Object.defineProperty(facts, 'signal', SIGNAL) as RouteContext
  const result: unknown = await exchange.inTime((async () => route.handle(context))(), () => {
    const late = `Cannot answer the request because route ${route.operationId} has not answered in time`
    ending().abort(storeUnavailable(late))
    return ending().signal.reason
  })
  const { body, data, headers }: ReplyParts = Object(result)[REPLY] ?? { data: result, headers: {} }
  if (body === undefined && isIdempotent(route)) {
    throw new TypeError(
      `Cannot answer by route ${route.operationId} because handle() has not returned the reply of platform.using(tx).idempotent(…): ` +
        'return it, or say idempotent: false',
    )
  }
  return jsonReply(200, body ?? render(route, data), admitted, headers)
}

/**
 * The signal is made when asked for, because Node.js takes a tenth of a short answer for it. One accessor for all contexts: with accessors of
 * their own, each would have a hidden class of its own, and the garbage collector a fifth of the work.
 */
const SIGNAL: PropertyDescriptor & ThisType<RouteContext> = {
  enumerable: true,
  get() {
    return this[STATE].ending().signal
  },
}

function render({ operationId, response }: Route, result: unknown): string {
  const checked = checkValue(response, result)
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
): Promise<Pick<RouteState, 'paging' | 'reserve'> & Pick<RouteContext, 'input'>> {
  const { request, deadlineAt } = exchange
  const sent = route.body && (await exchange.inTime(readJson(request, maxBodyBytes), refusals.slowBody))
  const query = route.query && textsOf(exchange.query)
  // A GET without a query has nothing that could not be stored, and takes no key.
  const fingerprint = route.method === 'GET' && !query ? '' : fingerprintOfJson({ params, query, sent })
  if (fingerprint === null) throw refusals.unstorable()
  const asked = route.paged && readListQuery(exchange.query, route.paged)
  if (asked instanceof Refusal) throw asked
  if (asked?.since) throw refusals.notSynced()
  const linkAfter = (before: string) =>
    nextLink(listUrl(path, baseUrl, request.url), exchange.query, { before }, true)
  const key = route.method === 'GET' ? null : readIdempotencyKey(request.header('idempotency-key'))
  if (key !== null && !isIdempotent(route)) throw refusals.noIdempotency()
  const operation = `${route.method} ${API_PATH}${route.path}`
  const reservation = key === null ? null : { operation, key, fingerprint, windowMs: IDEMPOTENCY_WINDOW_MS }
  return {
    input: {
      params,
      query: route.query && validateOwn(route.query, query, 'query '),
      body: route.body && validateOwn(route.body, sent, ''),
    },
    paging: asked ? { limit: asked.limit, before: asked.before ?? null, linkAfter } : null,
    reserve: isIdempotent(route)
      ? () => reservation && { ...reservation, waitMs: waitMsOf(deadlineAt) }
      : undefined,
  }
}

/** Reads a query as texts; a repeated name gives a list. */
function textsOf(query: string): Readonly<Record<string, string | readonly string[]>> {
  const given = new URLSearchParams(query)
  const names = [...new Set(given.keys())]
  return Object.fromEntries(
    names.map((name) => [name, given.getAll(name).length > 1 ? given.getAll(name) : (given.get(name) ?? '')]),
  )
}
