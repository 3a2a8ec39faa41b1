import type { Caller } from '../access/admission.ts'
import {
  ALREADY_EXISTS,
  BusinessApiError,
  INVALID_STATE,
  LIMIT_REACHED,
  NOT_FOUND,
  OVERPAYMENT,
  storeUnavailable,
} from '../base/errors.ts'
import { isStorable } from '../base/fields.ts'
import { checkValue } from '../base/standard-schema.ts'
import { readJson } from '../http/body.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import { listUrl, ownNextLink, readListQuery } from '../http/list-query.ts'
import type { ApiReply } from '../http/message.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { jsonReply } from '../http/reply.ts'
import { validateOwn } from '../http/validate.ts'
import {
  createContext,
  type Paging,
  partsOfResult,
  type RouteContext,
  type RouteState,
} from '../resources/own-replies.ts'
import { API_PATH, partsOf, type Route } from '../resources/own-routes.ts'
import type { KeyReservation } from '../writes/creation.ts'
import { fingerprintOfBody, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import { waitMsOf } from './asked-creation.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/** A path that a route matches. */
export interface Matched {
  readonly path: string
  readonly params: Readonly<Record<string, string>>
}

/** An admitted caller, and what every answer to it has. */
interface Admitted {
  readonly requestId: string
  readonly caller: Caller
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Answers an admitted request by a route of the host's own: reads and checks the input, lets the host work until the deadline, and checks
 * the result.
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
  const read = await readInput(route, matched, exchange, options)
  const ending = new AbortController()
  const { deadlineAt, requestId } = exchange
  const late = () =>
    storeUnavailable(
      `Cannot answer the request because operation '${route.operationId}' has not answered in time`,
    )
  const { organizationId, keyId } = admitted.caller
  const state: RouteState = {
    operationId: route.operationId,
    paging: read.paging,
    reserve: isIdempotent(route)
      ? () => read.reservation && { ...read.reservation, waitMs: waitMsOf(deadlineAt) }
      : null,
    render: async (result) => render(route, result),
    checkTime() {
      if (performance.now() >= deadlineAt) throw late()
    },
  }
  const { signal } = ending
  const context = createContext(
    { organizationId, apiKey: { id: keyId }, input: read.input, requestId, signal },
    state,
  )
  const { body, headers } = await exchange.inTime(work(route, context), () => {
    const error = late()
    ending.abort(error)
    return error
  })
  return jsonReply(200, body, admitted, headers)
}

/** Lets the host work, and gives the body and the headers of the answer. */
async function work(route: Route, context: RouteContext) {
  try {
    const { data, body, headers } = partsOfResult(await route.handle(context))
    if (body !== undefined) return { body, headers }
    if (isIdempotent(route)) {
      throw new TypeError(
        `Cannot answer '${route.operationId}' because handle() has not returned the reply of platform.using(tx).idempotent(…): ` +
          'use it, or say idempotent: false',
      )
    }
    return { body: render(route, data), headers }
  } catch (error) {
    throw toOwnRefusal(error)
  }
}

function isIdempotent({ method, idempotent = true }: Route): boolean {
  return method !== 'GET' && idempotent
}

/** The errors of the library's typed calls that tell a caller something, by code. */
const STATUSES: Readonly<Record<string, number>> = {
  [NOT_FOUND]: 404,
  [ALREADY_EXISTS]: 409,
  [INVALID_STATE]: 409,
  [LIMIT_REACHED]: 409,
  [OVERPAYMENT]: 409,
}

function toOwnRefusal(error: unknown): unknown {
  const status = error instanceof BusinessApiError ? STATUSES[error.code] : undefined
  return status === undefined ? error : new Refusal(status, (error as Error).message)
}

/** @throws `TypeError` for a result that the route's `response` rejects */
function render(route: Route, result: unknown): string {
  const refuse = (reason: string): never => {
    throw new TypeError(
      `Cannot answer '${route.operationId}' because the result of handle() does not fit 'response': ${reason}`,
    )
  }
  const checked = checkValue(partsOf(route.response).schema, result)
  if ('faults' in checked)
    return refuse(
      checked.faults.map(({ path, requirement }) => `${path.join('.') || 'it'} ${requirement}`).join('; '),
    )
  return JSON.stringify(checked.value) ?? refuse('it must be a value of JSON')
}

// --- Input ---

interface ReadInput {
  readonly input: { readonly params: object; readonly query: unknown; readonly body: unknown }
  readonly paging: Paging | null
  readonly reservation: Omit<KeyReservation, 'reply' | 'waitMs'> | null
}

async function readInput(
  route: Route,
  { path, params }: Matched,
  exchange: Exchange,
  { maxBodyBytes, baseUrl }: ResolvedOptions,
): Promise<ReadInput> {
  const { request, query } = exchange
  const sent = route.body && (await exchange.inTime(readJson(request, maxBodyBytes), refusals.slowBody))
  const fingerprint = fingerprintOfBody({ params, query: route.query && query, body: sent })
  if (fingerprint === null)
    throw refusals.invalid(
      'Validation failed: the body must be storable, without NUL, lone surrogates and endless nesting',
    )
  const paging = readPaging(route, exchange.query, (last) =>
    ownNextLink(listUrl(path, baseUrl, request.url), query, last),
  )
  const key = route.method === 'GET' ? null : readIdempotencyKey(request.header('idempotency-key'))
  if (key !== null && !isIdempotent(route)) throw refusals.noIdempotency()
  const body = route.body && (await validateOwn(partsOf(route.body).schema, sent, ''))
  const operation = `${route.method} ${API_PATH}${route.path}`
  return {
    input: { params, query: route.query && (await readQuery(route.query, query)), body },
    paging,
    reservation: key === null ? null : { operation, key, fingerprint, windowMs: IDEMPOTENCY_WINDOW_MS },
  }
}

const ANY_ID = '^[\\w-]{1,64}$'

/** The pattern of the ids of a route's list; undefined for a route that is none. */
export function beforePattern({ paged = false }: Route): string | undefined {
  if (paged === false) return undefined
  return paged === true ? ANY_ID : paged.before
}

function readPaging(route: Route, query: string, linkAfter: Paging['linkAfter']): Paging | null {
  const pattern = beforePattern(route)
  if (pattern === undefined) return null
  const asked = readListQuery(query, new RegExp(pattern, 'u'))
  if (asked instanceof Refusal) throw asked
  if (asked.since !== undefined) throw refusals.notSynced()
  return { limit: asked.limit, before: asked.before ?? null, linkAfter }
}

/** Reads the query as texts; a repeated name gives a list. */
function readQuery(schema: NonNullable<Route['query']>, query: string): Promise<unknown> {
  const given = new URLSearchParams(query)
  const values = new Map<string, string | readonly string[]>()
  for (const name of new Set(given.keys())) {
    const all = given.getAll(name)
    if (![name, ...all].every(isStorable))
      throw refusals.invalid('Validation failed: the query must not contain NUL')
    values.set(name, all.length === 1 ? (all[0] ?? '') : all)
  }
  return validateOwn(partsOf(schema).schema, Object.fromEntries(values), 'query ')
}
