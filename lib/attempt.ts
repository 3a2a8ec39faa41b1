import { setMaxListeners } from 'node:events'
import type { ClaimedDelivery } from './deliveries.ts'
import type { SecretSealer } from './secret-sealing.ts'
import { signWebhook } from './signature.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from './webhook-sender.ts'

/**
 * The request of an attempt (specification, section 6): the endpoint's own headers, and over them the service's, signed
 * anew for each attempt.
 *
 * @param timestamp Unix seconds, by the store's clock
 * @throws `BusinessApiError` with code `secret_unavailable`
 */
export function makeRequest(
  delivery: Sendable,
  sealer: Pick<SecretSealer, 'unseal'>,
  headerPrefix: string,
  timestamp: number,
): WebhookRequest {
  const secrets = delivery.sealedSecrets.map((sealed) => sealer.unseal(sealed, delivery))
  const headers = {
    'Content-Type': 'application/json',
    [`${headerPrefix}-Event-Id`]: delivery.eventId,
    [`${headerPrefix}-Event-Type`]: delivery.type,
    [`${headerPrefix}-Signature`]: signWebhook(delivery.body, secrets, timestamp),
  }
  return {
    url: delivery.url,
    headers: { ...without(headers, delivery.headers), ...headers },
    body: delivery.body,
  }
}

/** What a request is made of. */
export type Sendable = Omit<ClaimedDelivery, 'id' | 'attempt'>

/** The endpoint's own headers but for those of the service's names, in whatever case: a sender would send both. */
function without(
  headers: WebhookRequest['headers'],
  own: WebhookRequest['headers'],
): WebhookRequest['headers'] {
  const names = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  return Object.fromEntries(Object.entries(own).filter(([name]) => !names.has(name.toLowerCase())))
}

/** What an attempt takes at most, with some grace: the shipped sender ends at 10 seconds by itself. */
export const ATTEMPT_MAX_MS = 12_000

/** What a sender takes at most to end an attempt that is interrupted; without it, the attempt ends all the same. */
export const INTERRUPT_MAX_MS = 500

/** What ends all attempts of a loop at once. */
export interface Interruption {
  /** For senders. */
  readonly signal: AbortSignal
  /** Who is to hear of it here: Node looks through all listeners of a signal for each one that comes or goes. */
  readonly listeners: Set<() => void>
  interrupt(): void
}

/** An interruption that any number of attempts can wait for. */
export function createInterruption(): Interruption {
  const controller = new AbortController()
  const listeners = new Set<() => void>()
  // A sender may listen once for each attempt, which Node takes for a leak from the eleventh on.
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
 * Makes one attempt, whatever the sender does: one that throws, never answers or answers nonsense is a failed attempt too.
 *
 * @param onError hears what a sender should not have done
 */
export async function attempt(
  sender: WebhookSender,
  request: WebhookRequest,
  interruption: Interruption,
  onError: (error: unknown) => void,
): Promise<WebhookAnswer> {
  const begunAt = performance.now()
  const overdue = startOverdue(interruption)
  try {
    const answer = await Promise.race([sender.send(request, interruption.signal), overdue.error])
    const durationMs = performance.now() - begunAt
    return typeof answer === 'string' ? failed(answer, durationMs) : toStorable(answer, durationMs)
  } catch (error) {
    onError(error)
    return failed('sender_failed', performance.now() - begunAt)
  } finally {
    overdue.clear()
  }
}

/** Any 2xx is a success (specification, section 6, rule 1 of delivery). */
export function isSuccess({ status }: Pick<WebhookAnswer, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}

function failed(error: string, durationMs: number): WebhookAnswer {
  return { status: null, error, bodyExcerpt: '', durationMs }
}

/** Says why an attempt is over although its sender does not. */
function startOverdue({ listeners }: Interruption): { readonly error: Promise<string>; clear(): void } {
  let timer: NodeJS.Timeout | undefined
  let interrupt = (): void => {}
  const error = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, ATTEMPT_MAX_MS, 'timeout')
    interrupt = () => {
      clearTimeout(timer)
      timer = setTimeout(resolve, INTERRUPT_MAX_MS, 'interrupted')
    }
    listeners.add(interrupt)
  })
  return {
    error,
    clear() {
      clearTimeout(timer)
      listeners.delete(interrupt)
    },
  }
}

// --- What may be kept ---

/** As the shipped sender's. */
const EXCERPT_MAX_LENGTH = 4096
const ERROR_MAX_LENGTH = 100

/** An answer that any store can keep: a sender may be the host's own, and one answer must not spoil a whole batch. */
function toStorable(answer: WebhookAnswer, measuredMs: number): WebhookAnswer {
  const status = readStatus(answer.status)
  const error = readText(answer.error, ERROR_MAX_LENGTH) || (status === null ? 'sender_failed' : null)
  const { dnsMs, connectMs, tlsMs, firstByteMs } = answer.timings ?? {}
  return {
    status,
    error,
    wasMade: answer.wasMade !== false,
    detail: answer.detail ?? null,
    bodyExcerpt: readText(answer.bodyExcerpt, EXCERPT_MAX_LENGTH),
    retryAfterMs: readMs(Math.min(answer.retryAfterMs ?? 0, MS_MAX)),
    durationMs: readMs(answer.durationMs) ?? measuredMs,
    timings: {
      dnsMs: readMs(dnsMs),
      connectMs: readMs(connectMs),
      tlsMs: readMs(tlsMs),
      firstByteMs: readMs(firstByteMs),
    },
  }
}

function readStatus(status: number | null): number | null {
  return status !== null && Number.isInteger(status) && status >= 100 && status <= 999 ? status : null
}

/** PostgreSQL keeps neither NUL nor a lone surrogate. */
function readText(text: string | null, maxLength: number): string {
  if (typeof text !== 'string') return ''
  return text.slice(0, maxLength).toWellFormed().replaceAll('\0', '\uFFFD')
}

/** As long as a timer of Node can be. */
const MS_MAX = 2 ** 31 - 1

function readMs(ms: number | null | undefined): number | null {
  return typeof ms === 'number' && ms >= 0 && ms <= MS_MAX ? ms : null
}
