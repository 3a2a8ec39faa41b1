import { storeUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { ApiRequest } from '../http/message.ts'
import type { Credentials } from './authenticate.ts'

/** The facts about a request that become known on the way. */
export interface CallFacts {
  /** The operation's id in the OpenAPI document: `createClient`. Null for a request that reached no operation. */
  operationId: string | null
  /** The organization that owns the API key; null for a request without a valid key. */
  organizationId: string | null
  /** The id of the API key; null for a request without a valid key. */
  keyId: string | null
}

/** A request with the time left for the answer. */
export interface Exchange {
  readonly request: ApiRequest
  /** The part of the target after the `?`. */
  readonly query: string
  readonly requestId: string
  /** The mount path as callers see it; empty for the root. */
  readonly publicPath: string
  readonly credentials: Credentials
  /**
   * Keeps the store open for an answer that may need several statements.
   *
   * @throws `BusinessApiError` with code `store_unavailable` when the store is being closed
   */
  hold(): void
  /** Lets the store close: at the end of the exchange, and before a refusal that waits for a turn. */
  release(): void
  /** The arrival of the request, on the monotonic clock, in milliseconds. */
  readonly beganAt: number
  /** On the monotonic clock, in milliseconds. */
  readonly deadlineAt: number
  /** The operation and the caller, as soon as known: for the host's hooks and the trace. */
  readonly facts: CallFacts
  /** The caller's address by option `peerAddress`; undefined when unknown. */
  address(): string | undefined
  /** Names the group of callers that share their turns. */
  peer(): string
  /**
   * Waits for work until the deadline. Late work is not stopped, and the result of late work is dropped.
   *
   * @param onLate makes the error of late work. Default `store_unavailable`
   */
  inTime<T>(work: Promise<T>, onLate?: () => unknown): Promise<T>
}

/**
 * Begins an exchange.
 *
 * @param about becomes the exchange
 * @param deadlineMs milliseconds until the answer is due
 */
export function beginExchange(
  about: Omit<Exchange, 'beganAt' | 'deadlineAt' | 'facts' | 'inTime'>,
  deadlineMs: number,
): Exchange {
  const beganAt = performance.now()
  const deadlineAt = beganAt + deadlineMs
  const late = (): unknown =>
    storeUnavailable(`Cannot answer the request because ${deadlineMs} ms have passed`)
  // Not a spread, which is slow for so many fields.
  return Object.assign(about, {
    beganAt,
    deadlineAt,
    facts: { operationId: null, organizationId: null, keyId: null },
    inTime<T>(work: Promise<T>, onLate = late) {
      return withDeadline(work, deadlineAt - performance.now(), () => {
        throw onLate()
      })
    },
  })
}
