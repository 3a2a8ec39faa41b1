import { setMaxListeners } from 'node:events'
import { eventHeaders } from './attempt-headers.ts'
import type { ClaimedDelivery } from './claims.ts'
import type { SecretOpener } from './secret-sealing.ts'
import { signWebhook } from './signature.ts'
import { standardHeaders } from './standard-webhooks.ts'
import { toStorable } from './webhook-answer.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from './webhook-sender.ts'

/** Options for the headers that the service adds to every attempt. */
export interface ServiceHeaders {
  /** The header prefix, for example `X-SERVICE` in `X-SERVICE-Event-Id`. */
  readonly headerPrefix: string
  /** Whether to send the Standard Webhooks headers to all endpoints and not only where enabled. */
  readonly standardWebhooks: boolean
}

/**
 * Builds the request for an attempt (specification, section 6). Requests are signed again for each attempt. The
 * endpoint's own headers can't override the service's.
 *
 * @param timestamp Unix time in seconds, by the store's clock
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

/** The parts of a delivery needed to build a request. */
export type Sendable = Omit<ClaimedDelivery, 'id' | 'attempt'>

/** Removes custom headers that have the same name as one of ours, ignoring case. A sender would send both. */
function without(
  headers: WebhookRequest['headers'],
  own: WebhookRequest['headers'],
): WebhookRequest['headers'] {
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  return Object.fromEntries(Object.entries(own).filter(([name]) => !names.has(name.toLowerCase())))
}

/** Maximum duration of an attempt in milliseconds. The built-in sender times out earlier, after 10 seconds. */
export const ATTEMPT_MAX_MS = 12_000

/** How long a sender may take to end an interrupted attempt, in milliseconds. After that we stop waiting for it. */
export const INTERRUPT_MAX_MS = 500

/** Lets a loop interrupt all of its attempts at once. */
export interface Interruption {
  /** The signal passed to senders. */
  readonly signal: AbortSignal
  /**
   * Callbacks that run right after the signal is aborted. They aren't listeners on the signal because Node scans all of
   * a signal's listeners whenever one is added or removed.
   */
  readonly listeners: Set<() => void>
  interrupt(): void
}

/** Creates an interruption. Can be used for any number of attempts. */
export function createInterruption(): Interruption {
  const controller = new AbortController()
  const listeners = new Set<() => void>()
  // A sender may add a listener for each attempt. Node would warn about a memory leak at the eleventh.
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
 * Makes one attempt. The attempt fails if the sender throws, never responds, or resolves with something that
 * isn't a response.
 *
 * @param onError called with errors from a faulty sender
 * @throws any error thrown by `onError`
 */
export function attempt(
  sender: WebhookSender,
  request: WebhookRequest,
  { signal, listeners }: Interruption,
  onError: (error: unknown) => void,
): Promise<WebhookAnswer> {
  // A single promise, because racing two promises inside an async function took as long as signing the request.
  return new Promise((resolve, reject) => {
    const begunAt = performance.now()
    let timer = setTimeout(end, ATTEMPT_MAX_MS, 'timeout')
    let isEnded = false
    listeners.add(interrupt)

    function interrupt(): void {
      clearTimeout(timer)
      timer = setTimeout(end, INTERRUPT_MAX_MS, 'interrupted')
    }

    /** @param given the sender's result, or an error if the sender didn't finish */
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

    /** Custom senders might resolve with anything. */
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
