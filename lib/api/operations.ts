import type { Admission, AdmissionRequest } from '../access/admission.ts'
import type { Scope } from '../access/scopes.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { readJson } from '../http/body.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import type { ApiReply, ApiRequest } from '../http/message.ts'
import { rateLimitHeaders } from '../http/rate-limit-headers.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { jsonReply } from '../http/reply.ts'
import { readLimit, validate } from '../http/validate.ts'
import type { CreateRoute, ListRoute } from '../resources/route.ts'
import type { CreationOutcome, KeyReservation } from '../writes/creation.ts'
import { fingerprint, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import { createAuthentication, type PresentedKey } from './authenticate.ts'
import { createLastUse } from './last-use.ts'
import { createLocalLimiter } from './local-limiter.ts'
import type { ResolvedOptions } from './options.ts'
import { createRefusalPace } from './refusal-pace.ts'

/** A request on its way. */
export interface Exchange {
  readonly request: ApiRequest
  /** What follows the `?`. */
  readonly query: string
  /** Names the group of callers that take turns as one with this caller. */
  readonly peer: () => string
  readonly requestId: string
  /** On the monotonic clock, in milliseconds. */
  readonly deadlineAt: number
  /** Headers that the reply will carry whatever it is: the rate limits, once they are known. */
  headers: Record<string, string>
  /** Whether it is the caller that is waited for, and not the store. */
  isReadingBody: boolean
  /** The 401 that waits for its turn. */
  refusal: Refusal | null
}

/** What the two kinds of routes do. */
export interface Operations {
  list(route: ListRoute, exchange: Exchange): Promise<ApiReply>
  create(route: CreateRoute, exchange: Exchange): Promise<ApiReply>
}

/**
 * The order of checks: 401, 429, 403, then 415, 413, 400, then 422, then idempotency, then 404 or 200. Routing and 405
 * came before.
 */
export function createOperations(store: BusinessApiStore, resolved: ResolvedOptions): Operations {
  const { rateLimits, rateLimitScope, maxBodyBytes, clock, ids } = resolved
  const limitLocally =
    rateLimits && rateLimitScope === 'process'
      ? createLocalLimiter(rateLimits)
      : (admission: Admission) => admission
  const authentication = createAuthentication(store.apiKeys)
  const waitToRefuse = createRefusalPace(resolved.deadlineMs)
  const lastUse = createLastUse(store.apiKeys, resolved.logger)

  async function admissionRequest(scope: Scope, exchange: Exchange): Promise<AdmissionRequest> {
    const key = await presentedKey(exchange)
    return { ...key, scope, rateLimits: rateLimitScope === 'shared' ? rateLimits : null }
  }

  async function presentedKey(exchange: Exchange): Promise<PresentedKey> {
    const { request, peer } = exchange
    try {
      return await authentication.present(request.header('authorization'), peer)
    } catch (error) {
      if (error instanceof Refusal) {
        exchange.refusal = error
        await waitToRefuse(peer())
      }
      throw error
    }
  }

  /** Turns a verdict into the caller, or into its refusal. */
  function enter(
    verdict: Admission,
    { keyDigest, scope }: AdmissionRequest,
    exchange: Exchange,
  ): { organizationId: string } {
    const admission = limitLocally(verdict)
    if (admission.outcome === 'unauthenticated') throw authentication.refuse(keyDigest)
    if (admission.lastUseIsStale) lastUse.record(admission.caller)
    if (admission.rateLimit) exchange.headers = rateLimitHeaders(admission.rateLimit)
    if (admission.outcome === 'limited') throw refusals.limited(admission.rateLimit?.retryAfterMs ?? 0)
    if (admission.outcome === 'forbidden') throw refusals.forbidden(scope)
    return admission.caller
  }

  return {
    async list(route, exchange) {
      const request = await admissionRequest(route.scope, exchange)
      const limit = tryReadLimit(exchange.query)
      if (typeof limit !== 'number') {
        // The key is judged before the query; only then may the query be refused.
        enter(await store.apiKeys.admit(request), request, exchange)
        throw limit.refusal
      }
      const { admission, page } = await route.admitAndList(request, limit)
      enter(admission, request, exchange)
      if (page === null) throw new TypeError(`Cannot answer ${route.operationId} as the store gave no page`)
      return jsonReply(200, pageBody(page), exchange)
    },

    async create(route, exchange) {
      const request = await admissionRequest(route.scope, exchange)
      const { organizationId } = enter(await store.apiKeys.admit(request), request, exchange)
      exchange.isReadingBody = true
      const json = await readJson(exchange.request, maxBodyBytes)
      exchange.isReadingBody = false
      const key = readIdempotencyKey(exchange.request.header('idempotency-key'))
      const input = validate(route.input, json)
      // The caller has had a 503 by now; writing after it would be a create that nobody asked for any more.
      if (performance.now() >= exchange.deadlineAt) throw refusals.unavailable()
      const { representation, create } = route.prepare(input, { ids, now: clock() })
      const reply = JSON.stringify({ data: representation })
      const idempotency = key === null ? null : reservationFor(route, key, input, reply, exchange.deadlineAt)
      return creationReply(await create({ organizationId, idempotency }), reply, exchange)
    },
  }
}

const PAGE_START = Buffer.from('{"data":')
const PAGE_END = Buffer.from('}')

/** The bytes of a page pass through: they never become a string. */
function pageBody(page: string | Uint8Array): string | Uint8Array {
  return typeof page === 'string' ? `{"data":${page}}` : Buffer.concat([PAGE_START, page, PAGE_END])
}

function tryReadLimit(query: string): number | { refusal: unknown } {
  try {
    return readLimit(query)
  } catch (refusal) {
    return { refusal }
  }
}

/** The longest wait for another request with the same key, and its share of the time that is left. */
const WAIT_MAX_MS = 4000
const WAIT_SHARE = 0.8

function reservationFor(
  route: CreateRoute,
  key: string,
  input: unknown,
  reply: string,
  deadlineAt: number,
): KeyReservation {
  const leftMs = deadlineAt - performance.now()
  return {
    operation: `${route.method} ${route.path}`,
    key,
    fingerprint: fingerprint(input as object),
    reply,
    windowMs: IDEMPOTENCY_WINDOW_MS,
    waitMs: Math.max(1, Math.min(WAIT_MAX_MS, leftMs * WAIT_SHARE)),
  }
}

function creationReply(
  created: CreationOutcome | { readonly outcome: 'no_business' },
  reply: string,
  exchange: Exchange,
): ApiReply {
  switch (created.outcome) {
    case 'created':
      return jsonReply(200, reply, exchange)
    case 'replayed':
      return jsonReply(200, created.reply, exchange, { 'Idempotent-Replayed': 'true' })
    case 'mismatch':
      throw refusals.keyReused()
    case 'in_progress':
      throw refusals.inProgress()
    case 'no_business':
      throw refusals.noBusiness()
  }
}
