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
  creation(organizationId: string): Creation<unknown>
}

/** The body of a request that asks for a creation. It is read once. */
export interface Asked {
  /**
   * Reads the creation before the request is judged. Null for a body that is to be refused: {@link Asked.read} throws the
   * refusal once the request has been judged.
   */
  readEarly(): Promise<AskedCreation | null>
  /**
   * Reads the creation, or gives what was read early.
   *
   * @throws `Refusal` 415, 413, 400 or 422
   */
  read(): Promise<AskedCreation>
}

/** The longest wait for another request with the same key, and its share of the time that is left. */
const WAIT_MAX_MS = 4000
const WAIT_SHARE = 0.8

/** Prepares the reading of a request that asks for a creation. */
export function createAsked(
  route: CreateRoute,
  exchange: Exchange,
  { maxBodyBytes, clock, ids, traceparent: current }: ResolvedOptions,
): Asked {
  const { request, deadlineAt } = exchange
  let reading: Promise<AskedCreation> | undefined

  async function readNow(): Promise<AskedCreation> {
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
      creation(organizationId) {
        const atMostMs = Math.max(1, deadlineAt - performance.now())
        const waitMs = Math.max(1, Math.min(WAIT_MAX_MS, atMostMs * WAIT_SHARE))
        const idempotency = reservation && { ...reservation, waitMs }
        return { organizationId, record, events, idempotency, atMostMs }
      },
    }
  }

  function read(): Promise<AskedCreation> {
    reading ??= readNow()
    return reading
  }

  return { read, readEarly: () => read().catch(() => null) }
}
