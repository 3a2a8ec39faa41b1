import type { ClaimedDelivery } from '../deliveries.ts'
import type { SecretSealer } from '../secret-sealing.ts'
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
  delivery: ClaimedDelivery,
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

/**
 * Makes one attempt, whatever the sender does: one that throws, never answers or answers nonsense is a failed attempt too.
 *
 * @param onError hears what a sender should not have done
 */
export async function attempt(
  sender: WebhookSender,
  request: WebhookRequest,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<WebhookAnswer> {
  const begunAt = performance.now()
  const overdue = startOverdue(signal)
  try {
    const answer = await Promise.race([sender.send(request, signal), overdue.error])
    const durationMs = performance.now() - begunAt
    return typeof answer === 'string' ? failed(answer, durationMs) : toStorable(answer, durationMs)
  } catch (error) {
    onError(error)
    return failed('sender_failed', performance.now() - begunAt)
  } finally {
    overdue.clear()
  }
}

function failed(error: string, durationMs: number): WebhookAnswer {
  return { status: null, error, bodyExcerpt: '', durationMs }
}

/** Says why an attempt is over although its sender does not. */
function startOverdue(signal: AbortSignal): { readonly error: Promise<string>; clear(): void } {
  let timer: NodeJS.Timeout | undefined
  let interrupt = (): void => {}
  const error = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, ATTEMPT_MAX_MS, 'timeout')
    interrupt = () => {
      clearTimeout(timer)
      timer = setTimeout(resolve, INTERRUPT_MAX_MS, 'interrupted')
    }
    signal.addEventListener('abort', interrupt)
  })
  return {
    error,
    clear() {
      clearTimeout(timer)
      signal.removeEventListener('abort', interrupt)
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
    detail: answer.detail ?? null,
    bodyExcerpt: readText(answer.bodyExcerpt, EXCERPT_MAX_LENGTH),
    retryAfterMs: readMs(answer.retryAfterMs),
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

function readMs(ms: number | null | undefined): number | null {
  return typeof ms === 'number' && ms >= 0 && Number.isFinite(ms) ? ms : null
}
