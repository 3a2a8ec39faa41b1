import type { Caller } from '../access/admission.ts'
import { readTraceparent } from '../base/traceparent.ts'
import { readJson } from '../http/body.ts'
import { refusals } from '../http/refusal.ts'
import { readIdempotencyKey, validate } from '../http/validate.ts'
import type { Rendered } from '../resources/own-replies.ts'
import type { CreateRoute } from '../resources/route.ts'
import type { ApiCreationOutcome, Creation, KeyReservation } from '../writes/creation.ts'
import { fingerprint, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/** Maximum wait for another request with the same key, in ms and as a fraction of the remaining time. */
const WAIT_MAX_MS = 4000
const WAIT_SHARE = 0.8

/**
 * Reads a creation from a request.
 *
 * @returns the creation and the response body
 * @throws `Refusal` with status 415, 413, 400 or 422
 */
export async function readCreation(
  route: CreateRoute,
  exchange: Exchange,
  { organizationId, keyId }: Caller,
  { maxBodyBytes, clock, ids, traceparent: current }: ResolvedOptions,
): Promise<{ readonly creation: Creation<unknown>; readonly reply: string }> {
  const { request, deadlineAt } = exchange
  const json = await exchange.inTime(readJson(request, maxBodyBytes), refusals.slowBody)
  const key = readIdempotencyKey(request.header('idempotency-key'))
  const input = validate(route.input, json)
  const traceparent = current ? current() : readTraceparent(request.header('traceparent'))
  const { record, events, representation } = route.prepare(input, { ids, now: clock(), traceparent })
  const reply = JSON.stringify({ data: representation })
  const idempotency =
    key === null
      ? null
      : { ...reserve(`POST ${route.path}`, key, fingerprint(input as object), deadlineAt), reply }
  const atMostMs = Math.max(1, deadlineAt - performance.now())
  return { reply, creation: { organizationId, apiKeyId: keyId, record, events, idempotency, atMostMs } }
}

/** Returns the reservation for a request's idempotency key, including how long to wait for a concurrent request. */
export function reserve(
  operation: string,
  key: string,
  fingerprint: string,
  deadlineAt: number,
): Omit<KeyReservation, 'reply'> {
  const waitMs = Math.max(1, Math.min(WAIT_MAX_MS, (deadlineAt - performance.now()) * WAIT_SHARE))
  return { operation, key, fingerprint, windowMs: IDEMPOTENCY_WINDOW_MS, waitMs }
}

/** Converts a creation outcome to a response. `reply` is the body for a new record. @throws `Refusal` */
export function settle(created: ApiCreationOutcome, reply: string): Rendered {
  switch (created.outcome) {
    case 'created':
      return { body: reply, headers: {} }
    case 'replayed':
      return { body: created.reply, headers: { 'Idempotent-Replayed': 'true' } }
    case 'mismatch':
      throw refusals.keyReused()
    case 'in_progress':
      throw refusals.inProgress()
    case 'no_business':
      throw refusals.noBusiness()
    case 'unauthenticated':
      throw refusals.invalidKey()
  }
}
