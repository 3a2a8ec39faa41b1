import type { Admission, AdmissionRequest } from '../access/admission.ts'
import type { Scope } from '../access/scopes.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { readJson } from '../http/body.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import type { ApiReply } from '../http/message.ts'
import { rateLimitHeaders } from '../http/rate-limit-headers.ts'
import { Refusal, refusals } from '../http/refusal.ts'
import { jsonReply } from '../http/reply.ts'
import { readLimit, validate } from '../http/validate.ts'
import type { CreateRoute, ListRoute, Route } from '../resources/route.ts'
import type { CreationOutcome, KeyReservation } from '../writes/creation.ts'
import { fingerprint, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import type { Authentication, PresentedKey } from './authenticate.ts'
import type { Exchange } from './exchange.ts'
import { createLastUse } from './last-use.ts'
import { createLocalLimiter } from './local-limiter.ts'
import type { ResolvedOptions } from './options.ts'
import { createRefusalPace } from './refusal-pace.ts'

/** The two kinds of operations. */
export interface Operations {
  list(route: ListRoute, exchange: Exchange): Promise<ApiReply>
  create(route: CreateRoute, exchange: Exchange): Promise<ApiReply>
}

/** An exchange with an admitted caller. */
interface Admitted extends Exchange {
  readonly organizationId: string
  /** The headers of every answer to the caller: the rate limits. */
  readonly headers: Readonly<Record<string, string>>
}

/** Makes the answer to a failure. */
export type Fail = (
  error: unknown,
  about: Pick<Exchange, 'request' | 'requestId'>,
  headers?: Readonly<Record<string, string>>,
) => ApiReply

/**
 * Creates the operations. The order of checks: 401, 429, 403, then 415, 413, 400, then 422, then idempotency, then 404 or
 * 200. Routing and 405 came before.
 */
export function createOperations(
  store: BusinessApiStore,
  authentication: Authentication,
  resolved: ResolvedOptions,
  fail: Fail,
): Operations {
  const { rateLimits, rateLimitScope, maxBodyBytes, clock, ids } = resolved
  const limitLocally =
    rateLimits && rateLimitScope === 'process'
      ? createLocalLimiter(rateLimits)
      : (admission: Admission) => admission
  const waitToRefuse = createRefusalPace(resolved.deadlineMs)
  const lastUse = createLastUse(store.apiKeys, resolved.logger)

  async function admissionRequest(
    scope: Scope,
    exchange: Exchange,
    onRefused: () => void,
  ): Promise<AdmissionRequest> {
    const key = await presentedKey(exchange, onRefused)
    return { ...key, scope, rateLimits: rateLimitScope === 'shared' ? rateLimits : null }
  }

  async function presentedKey(
    { credentials, peer, inTime }: Exchange,
    onRefused: () => void,
  ): Promise<PresentedKey> {
    if (credentials.kind === 'known') return credentials.key
    try {
      if (credentials.kind === 'refused') throw credentials.refusal
      return await inTime(authentication.find(credentials, peer))
    } catch (error) {
      if (error instanceof Refusal) {
        onRefused()
        await inTime(waitToRefuse(peer()), () => error)
      }
      throw error
    }
  }

  /** Turns a verdict into the answer of an admitted caller, or into the refusal. */
  async function enter(
    verdict: Admission,
    { keyDigest, scope }: AdmissionRequest,
    exchange: Exchange,
    answer: (admitted: Admitted) => ApiReply | Promise<ApiReply>,
  ): Promise<ApiReply> {
    const admission = limitLocally(verdict)
    if (admission.outcome === 'unauthenticated') throw authentication.refuse(keyDigest)
    if (admission.lastUseIsStale) lastUse.record(admission.caller)
    const { organizationId } = admission.caller
    const headers = admission.rateLimit ? rateLimitHeaders(admission.rateLimit) : {}
    try {
      if (admission.outcome === 'limited') throw refusals.limited(admission.rateLimit?.retryAfterMs ?? 0)
      if (admission.outcome === 'forbidden') throw refusals.forbidden(scope)
      return await answer({ ...exchange, organizationId, headers })
    } catch (error) {
      return fail(error, exchange, headers)
    }
  }

  async function answerList(
    route: ListRoute,
    request: AdmissionRequest,
    exchange: Exchange,
  ): Promise<ApiReply> {
    const limit = readLimit(exchange.query)
    if (limit instanceof Refusal) {
      const admission = await exchange.inTime(store.apiKeys.admit(request))
      return enter(admission, request, exchange, () => Promise.reject(limit))
    }
    const { admission, page } = await exchange.inTime(route.admitAndList(request, limit))
    return enter(admission, request, exchange, (admitted) => {
      if (page === null)
        throw new TypeError(`Cannot answer ${route.operationId} because the store gave no page`)
      return jsonReply(200, pageBody(page), admitted)
    })
  }

  async function answerCreate(
    route: CreateRoute,
    request: AdmissionRequest,
    exchange: Exchange,
  ): Promise<ApiReply> {
    const admission = await exchange.inTime(store.apiKeys.admit(request))
    return enter(admission, request, exchange, async (admitted) => {
      const json = await exchange.inTime(readJson(exchange.request, maxBodyBytes), refusals.slowBody)
      const key = readIdempotencyKey(exchange.request.header('idempotency-key'))
      const input = validate(route.input, json)
      const { representation, create } = route.prepare(input, { ids, now: clock() })
      const reply = JSON.stringify({ data: representation })
      const idempotency = key === null ? null : reservationFor(route, key, input, reply, exchange.deadlineAt)
      const { organizationId } = admitted
      const atMostMs = Math.max(1, exchange.deadlineAt - performance.now())
      const outcome = await exchange.inTime(create({ organizationId, idempotency, atMostMs }))
      return creationReply(outcome, reply, admitted)
    })
  }

  /** Keeps the store open for an answer that may need several statements, but not for a refusal that waits for a turn. */
  async function whileOpen<Asked extends Route>(
    route: Asked,
    exchange: Exchange,
    answer: (route: Asked, request: AdmissionRequest, exchange: Exchange) => Promise<ApiReply>,
  ): Promise<ApiReply> {
    const end = store.beginRequest?.() ?? (() => {})
    try {
      return await answer(route, await admissionRequest(route.scope, exchange, end), exchange)
    } finally {
      end()
    }
  }

  return {
    list: (route, exchange) => whileOpen(route, exchange, answerList),
    create: (route, exchange) => whileOpen(route, exchange, answerCreate),
  }
}

const PAGE_START = Buffer.from('{"data":')
const PAGE_END = Buffer.from('}')

/** The bytes of a page pass through and never become a string. */
function pageBody(page: string | Uint8Array): string | Uint8Array {
  return typeof page === 'string' ? `{"data":${page}}` : Buffer.concat([PAGE_START, page, PAGE_END])
}

/** The longest wait for another request with the same key: milliseconds, and a share of the remaining time. */
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
  admitted: Admitted,
): ApiReply {
  switch (created.outcome) {
    case 'created':
      return jsonReply(200, reply, admitted)
    case 'replayed':
      return jsonReply(200, created.reply, admitted, { 'Idempotent-Replayed': 'true' })
    case 'mismatch':
      throw refusals.keyReused()
    case 'in_progress':
      throw refusals.inProgress()
    case 'no_business':
      throw refusals.noBusiness()
  }
}
