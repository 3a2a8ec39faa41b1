import { STATUS_CODES } from 'node:http'
import type { Delivery, DeliveryState } from '../../webhooks/deliveries.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge, type Tone } from '../views/elements.ts'

/** All delivery states, in the filter's order. */
export const DELIVERY_STATES = ['failed', 'pending', 'sending', 'delivered', 'skipped', 'cancelled'] as const

/** Returns a state's text and the tone of its badge. */
export function describeState(t: Texts, state: DeliveryState): readonly [word: string, tone: Tone] {
  const words: Readonly<Record<DeliveryState, readonly [string, Tone]>> = {
    pending: [t`Pending`, 'wait'],
    sending: [t`Sending`, 'wait'],
    delivered: [t`Delivered`, 'good'],
    failed: [t`Failed`, 'bad'],
    skipped: [t`Skipped`, 'quiet'],
    cancelled: [t`Cancelled`, 'quiet'],
  }
  return words[state]
}

/** Returns where a list of failed deliveries without entries leads. */
export function retriedText(t: Texts): string {
  return t`Deliveries that are still retried are under Pending.`
}

/** Renders a delivery's state as a badge. */
export function deliveryState(t: Texts, { state }: Delivery): Html {
  const [word, tone] = describeState(t, state)
  return badge(tone, word)
}

/** Formats an attempt's result: the HTTP status with its reason phrase, or why there was no response. */
export function answerText(t: Texts, status: number | null, error: string | null): string {
  if (status !== null) return `${status} ${STATUS_CODES[status] ?? ''}`.trim()
  return error === null ? t`No response yet` : errorText(t, error)
}

/** Describes why there was no response. */
export function errorText(t: Texts, error: string): string {
  const texts: Readonly<Record<string, string>> = {
    timeout: t`Timed out after 10 seconds`,
    connection_refused: t`Connection refused`,
    connection_reset: t`Connection reset`,
    connection_failed: t`Couldn't connect`,
    dns_failed: t`DNS lookup failed`,
    tls_certificate_expired: t`TLS certificate expired or not yet valid`,
    tls_wrong_name: t`TLS certificate doesn't match the hostname`,
    tls_untrusted: t`TLS certificate not issued by a trusted authority`,
    tls_client_certificate_required: t`TLS client certificate required`,
    tls_failed: t`TLS handshake failed: TLS 1.2 or newer required`,
    destination_not_allowed: t`Hostname doesn't exist or isn't publicly accessible`,
    invalid_request: t`Invalid custom header`,
    invalid_response: t`Invalid HTTP response`,
    interrupted: t`Interrupted (internal error)`,
    unreadable: t`Event unreadable (internal error)`,
  }
  return Object.hasOwn(texts, error) ? (texts[error] ?? '') : t`Internal error`
}

/** Describes why a delivery failed or was skipped. */
export function reasonText(t: Texts, reason: string): string {
  if (/^http_\d{3}$/.test(reason)) return answerText(t, Number(reason.slice(5)), null)
  if (reason === 'gone') return t`410 Gone: endpoint disabled`
  if (reason === 'endpoint_disabled') return t`Endpoint disabled or deleted`
  return errorText(t, reason)
}
