import type { Caller } from '../access/admission.ts'
import { readTraceparent } from '../base/traceparent.ts'
import { readJson } from '../http/body.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import { refusals } from '../http/refusal.ts'
import { validate } from '../http/validate.ts'
import type { CreateRoute } from '../resources/route.ts'
import type { Creation } from '../writes/creation.ts'
import { fingerprint, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import type { Exchange } from './exchange.ts'
import type { ResolvedOptions } from './options.ts'

/** A creation that a request asks for. */
export interface AskedCreation {
  /** The body of the answer. */
  readonly reply: string
  creation(caller: Caller): Creation<unknown>
}

/** The longest wait for another request with the same key, and its share of the time that is left. */
const WAIT_MAX_MS = 4000
const WAIT_SHARE = 0.8

/**
 * Reads the creation that a request asks for.
 *
 * @throws `Refusal` 415, 413, 400 or 422
 */
export async function readCreation(
  route: CreateRoute,
  exchange: Exchange,
  { maxBodyBytes, clock, ids, traceparent: current }: ResolvedOptions,
): Promise<AskedCreation> {
  const { request, deadlineAt } = exchange
  const json = await exchange.inTime(readJson(request, maxBodyBytes), refusals.slowBody)
  const key = readIdempotencyKey(request.header('idempotency-key'))
  const input = validate(route.input, json)
  const traceparent = current ? current() : readTraceparent(request.header('traceparent'))
  const { record, events, representation } = route.prepare(input, { ids, now: clock(), traceparent })
  const reply = JSON.stringify({ data: representation })
  const reservation =
    key === null
      ? null
      : {
          operation: `${route.method} ${route.path}`,
          key,
          fingerprint: fingerprint(input as object),
          reply,
          windowMs: IDEMPOTENCY_WINDOW_MS,
        }
  return {
    reply,
    creation({ organizationId, keyId }) {
      const atMostMs = Math.max(1, deadlineAt - performance.now())
      const idempotency = reservation && { ...reservation, waitMs: waitMsOf(deadlineAt) }
      return { organizationId, apiKeyId: keyId, record, events, idempotency, atMostMs }
    },
  }
}

/** Returns the milliseconds for which a request with a deadline may wait for another one with its idempotency key. */
export function waitMsOf(deadlineAt: number): number {
  return Math.max(1, Math.min(WAIT_MAX_MS, (deadlineAt - performance.now()) * WAIT_SHARE))
}
