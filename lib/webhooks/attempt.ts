import { setMaxListeners } from 'node:events'
import { eventHeaders } from './attempt-headers.ts'
import type { ClaimedDelivery } from './claims.ts'
import type { SecretOpener } from './secret-sealing.ts'
import { signWebhook } from './signature.ts'
import { standardHeaders } from './standard-webhooks.ts'
import { toStorable } from './webhook-answer.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from './webhook-sender.ts'

/** Options for the headers we add to every attempt. */
export interface ServiceHeaders {
  /** The header prefix, such as `X-SERVICE` in `X-SERVICE-Event-Id`. */
  readonly headerPrefix: string
  /** If `true`, the Standard Webhooks headers are sent to all endpoints, even if not enabled for the endpoint. */
  readonly standardWebhooks: boolean
}

/**
 * Builds and signs the request for one attempt (see section 6 of the spec). Custom headers can't override ours.
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

/** The parts of a delivery that are needed to build its request. */
export type Sendable = Omit<ClaimedDelivery, 'id' | 'attempt'>

/** Drops custom headers whose name matches one of ours, ignoring case. Otherwise the sender would send both. */
function without(
  headers: WebhookRequest['headers'],
  own: WebhookRequest['headers'],
): WebhookRequest['headers'] {
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  return Object.fromEntries(Object.entries(own).filter(([name]) => !names.has(name.toLowerCase())))
}

/** Hard limit for an attempt, in milliseconds. The built-in sender already times out after 10 seconds. */
export const ATTEMPT_MAX_MS = 12_000

/** How long to wait for a sender to stop after an interrupt, in milliseconds. */
export const INTERRUPT_MAX_MS = 500

/** Allows a loop to interrupt all of its attempts at once. */
export interface Interruption {
  /** The signal that is passed to senders. */
  readonly signal: AbortSignal
  /**
   * Callbacks to run right after the signal is aborted. We don't add them to the signal because Node does a linear scan
   * of a signal's listeners on every add and remove.
   */
  readonly listeners: Set<() => void>
  interrupt(): void
}

/** Creates an interruption that any number of attempts can share. */
export function createInterruption(): Interruption {
  const controller = new AbortController()
  const listeners = new Set<() => void>()
  // Senders may add one listener per attempt, and by default Node warns about a possible leak at 11.
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
 * Makes a single attempt. It fails if the sender throws, never responds, or resolves with something other than
 * a response.
 *
 * @param onError called with any error caused by a faulty sender
 * @throws whatever `onError` throws
 */
export function attempt(
  sender: WebhookSender,
  request: WebhookRequest,
  { signal, listeners }: Interruption,
  onError: (error: unknown) => void,
): Promise<WebhookAnswer> {
  // Use a single promise. Racing two promises in an async function took as long as signing the request.
  return new Promise((resolve, reject) => {
    const begunAt = performance.now()
    let timer = setTimeout(end, ATTEMPT_MAX_MS, 'timeout')
    let isEnded = false
    listeners.add(interrupt)

    function interrupt(): void {
      clearTimeout(timer)
      timer = setTimeout(end, INTERRUPT_MAX_MS, 'interrupted')
    }

    /** @param given the sender's response, or an error code if it didn't finish */
    function end(given: WebhookAnswer | string): void {
      if (isEnded) return
      const durationMs = performance.now() - begunAt
      const answer =
        typeof given === 'string'
          ? { status: null, error: given, bodyExcerpt: '', durationMs }
          : toStorable(given, request.url, durationMs)
      isEnded = true
      clearTimeout(timer)
      listeners.delete(interrupt)
      resolve(answer)
    }

    /** Custom senders can resolve with anything. */
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
