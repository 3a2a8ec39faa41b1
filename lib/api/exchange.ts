import { storeUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { ApiRequest } from '../http/message.ts'
import type { Credentials } from './authenticate.ts'

/** Data about a request that becomes known while the request is handled. */
export interface CallFacts {
  /** The operation's id in the OpenAPI document, such as `createClient`, or `null` if no operation was reached. */
  operationId: string | null
  /** The organization of the API key, or `null` if the request has no valid key. */
  organizationId: string | null
  /** The id of the API key, or `null` if the request has no valid key. */
  keyId: string | null
}

/** A request and its deadline. */
export interface Exchange {
  readonly request: ApiRequest
  /** The part of the target after the `?`. */
  readonly query: string
  readonly requestId: string
  /** The mount path as seen by callers. Empty for the root. */
  readonly publicPath: string
  readonly credentials: Credentials
  /**
   * Keeps the store open for a response that may need several statements.
   *
   * @throws `BusinessApiError` with code `store_unavailable` if the store is closing
   */
  hold(): void
  /** Allows the store to close. Called at the end, and before a refusal waits for its turn. */
  release(): void
  /** When the request arrived, in milliseconds of the monotonic clock. */
  readonly beganAt: number
  /** In milliseconds of the monotonic clock. */
  readonly deadlineAt: number
  /** The operation and the caller once they are known. Used by the host's hooks and the trace. */
  readonly facts: CallFacts
  /** The caller's address according to the `peerAddress` option, if known. */
  address(): string | undefined
  /** Returns the group of callers that share their turns. */
  peer(): string
  /**
   * Waits for `work` until the deadline. Late work isn't stopped, but its result is dropped.
   *
   * @param onLate returns the error to throw at the deadline. By default, the code is `store_unavailable`
   */
  inTime<T>(work: Promise<T>, onLate?: () => unknown): Promise<T>
}

/**
 * Starts an exchange.
 *
 * @param about the object that becomes the exchange
 * @param deadlineMs time limit for the response, in ms
 */
export function beginExchange(
  about: Omit<Exchange, 'beganAt' | 'deadlineAt' | 'facts' | 'inTime'>,
  deadlineMs: number,
): Exchange {
  const beganAt = performance.now()
  const deadlineAt = beganAt + deadlineMs
  const late = (): unknown =>
    storeUnavailable(`Cannot answer the request because ${deadlineMs} ms have passed`)
  // We don't spread `about` because that is slow for so many fields.
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
