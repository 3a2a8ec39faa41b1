import { storeUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { ApiRequest } from '../http/message.ts'
import type { Credentials } from './authenticate.ts'

/** Facts about a request that aren't known until the request is being handled. */
export interface CallFacts {
  /** The operation's id in the OpenAPI document, like `createClient`, or `null` if no operation was reached. */
  operationId: string | null
  /** The organization that owns the API key, or `null` if there's no valid key. */
  organizationId: string | null
  /** The API key's id, or `null` if there's no valid key. */
  keyId: string | null
}

/** A request and its deadline. */
export interface Exchange {
  readonly request: ApiRequest
  /** Everything after the `?` in the request target. */
  readonly query: string
  readonly requestId: string
  /** The mount path as callers see it. Empty for the root. */
  readonly publicPath: string
  readonly credentials: Credentials
  /**
   * Keeps the store open for a response that may need several statements.
   *
   * @throws `BusinessApiError` with code `store_unavailable` if the store is closing
   */
  hold(): void
  /** Lets the store close. Called when the response is done, and before a rejection waits its turn. */
  release(): void
  /** When the request arrived, in milliseconds on the monotonic clock. */
  readonly beganAt: number
  /** In milliseconds on the monotonic clock. */
  readonly deadlineAt: number
  /** The operation and the caller, once they're known. Used for the host's hooks and for tracing. */
  readonly facts: CallFacts
  /** The caller's address according to the `peerAddress` option, if known. */
  address(): string | undefined
  /** Returns the group that the caller shares turns with. */
  peer(): string
  /**
   * Waits for `work` until the deadline. We can't stop late work, but we ignore its result.
   *
   * @param onLate returns the error to throw at the deadline. Defaults to an error with code `store_unavailable`
   */
  inTime<T>(work: Promise<T>, onLate?: () => unknown): Promise<T>
}

/**
 * Starts an exchange.
 *
 * @param about the object to turn into an exchange
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
  // We don't spread `about`, because that's slow for this many fields.
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
