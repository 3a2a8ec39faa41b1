import { setMaxListeners } from 'node:events'
import { eventHeaders } from './attempt-headers.ts'
import type { ClaimedDelivery } from './claims.ts'
import type { SecretOpener } from './secret-sealing.ts'
import { signWebhook } from './signature.ts'
import { standardHeaders } from './standard-webhooks.ts'
import { toStorable } from './webhook-answer.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from './webhook-sender.ts'

/** The headers that the service adds to an attempt. */
export interface ServiceHeaders {
  /** `X-SERVICE` in `X-SERVICE-Event-Id`. */
  readonly headerPrefix: string
  /** True: the headers of Standard Webhooks too, for every endpoint; false: for endpoints that have chosen these headers. */
  readonly standardWebhooks: boolean
}

/**
 * Makes the request of an attempt (specification, section 6): the endpoint's own headers under the headers of the service,
 * signed anew for each attempt.
 *
 * @param timestamp Unix seconds, by the store's clock
 * @throws `BusinessApiError` with code `secret_unavailable`
 */
export function makeRequest(
  delivery: Sendable,
  sealer: SecretOpener,
  { headerPrefix, standardWebhooks }: ServiceHeaders,
  timestamp: number,
): WebhookRequest {
  const secrets = delivery.sealedSecrets.map((sealed) => sealer.unseal(sealed, delivery))
  const headers = {
    ...eventHeaders(delivery, headerPrefix),
    [`${headerPrefix}-Signature`]: signWebhook(delivery.body, secrets, timestamp),
    ...(standardWebhooks || delivery.standardWebhooks ? standardHeaders(delivery, secrets, timestamp) : {}),
  }
  const { url, body } = delivery
  if (delivery.sealedHeaders === null) return { url, headers, body }
  const own = without(headers, sealer.unsealHeaders(delivery, delivery))
  return { url, headers: { ...own, ...headers }, body }
}

/** The parts of a delivery that make a request. */
export type Sendable = Omit<ClaimedDelivery, 'id' | 'attempt'>

/** Leaves out own headers with a name of the service, in any case: a sender would send both. */
function without(
  headers: WebhookRequest['headers'],
  own: WebhookRequest['headers'],
): WebhookRequest['headers'] {
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  return Object.fromEntries(Object.entries(own).filter(([name]) => !names.has(name.toLowerCase())))
}

/** Longest duration of an attempt in milliseconds. The shipped sender ends by itself after 10 seconds. */
export const ATTEMPT_MAX_MS = 12_000

/** Time for a sender to end an interrupted attempt, in milliseconds; then the attempt ends without its sender. */
export const INTERRUPT_MAX_MS = 500

/** Ends all attempts of a loop at once. */
export interface Interruption {
  /** The signal that senders receive. */
  readonly signal: AbortSignal
  /**
   * Called before senders have ended. Not listeners of the signal: Node searches all listeners whenever a listener is
   * added or removed.
   */
  readonly listeners: Set<() => void>
  interrupt(): void
}

/** Creates an interruption for any number of attempts. */
export function createInterruption(): Interruption {
  const controller = new AbortController()
  const listeners = new Set<() => void>()
  // A sender may add a listener for each attempt, which Node takes for a leak from the eleventh on.
  setMaxListeners(0, controller.signal)
  return {
    signal: controller.signal,
    listeners,
    interrupt() {
      controller.abort()
      for (const listener of listeners) listener()
    },
  }
}

/**
 * Makes one attempt. The attempt also fails if the sender throws, never responds or returns a value that is not an
 * response.
 *
 * @param onError receives the errors of a faulty sender
 * @throws the error that `onError` throws
 */
export function attempt(
  sender: WebhookSender,
  request: WebhookRequest,
  { signal, listeners }: Interruption,
  onError: (error: unknown) => void,
): Promise<WebhookAnswer> {
  // A single promise: a race of two and an async function around the race cost as much as the signature.
  return new Promise((resolve, reject) => {
    const begunAt = performance.now()
    let timer = setTimeout(end, ATTEMPT_MAX_MS, 'timeout')
    let isEnded = false
    listeners.add(interrupt)

    function interrupt(): void {
      clearTimeout(timer)
      timer = setTimeout(end, INTERRUPT_MAX_MS, 'interrupted')
    }

    /** @param given the sender's result, or the error of an attempt that the sender doesn't end */
    function end(given: WebhookAnswer | string): void {
      if (isEnded) return
      const durationMs = performance.now() - begunAt
      const answer =
        typeof given === 'string' ? failed(given, durationMs) : toStorable(given, request.url, durationMs)
      isEnded = true
      clearTimeout(timer)
      listeners.delete(interrupt)
      resolve(answer)
    }

    /** A sender of the host's own may resolve with anything. */
    function endAnswered(answer: WebhookAnswer): void {
      if (typeof answer !== 'object' || answer === null)
        throw new TypeError('Cannot read the result of the sender')
      end(answer)
    }

    function endFaulty(error: unknown): void {
      if (isEnded) return
      try {
        onError(error)
      } catch (thrown) {
        reject(thrown)
      }
      end('sender_failed')
    }

    try {
      Promise.resolve(sender.send(request, signal)).then(endAnswered).catch(endFaulty)
    } catch (error) {
      endFaulty(error)
    }
  })
}

function failed(error: string, durationMs: number): WebhookAnswer {
  return { status: null, error, bodyExcerpt: '', durationMs }
}
