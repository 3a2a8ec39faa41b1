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
  switch (error) {
    case 'timeout':
      return t`Timed out after 10 seconds`
    case 'connection_refused':
      return t`Connection refused`
    case 'connection_reset':
      return t`Connection reset`
    case 'connection_failed':
      return t`Couldn't connect`
    case 'dns_failed':
      return t`DNS lookup failed`
    case 'tls_certificate_expired':
      return t`TLS certificate expired or not yet valid`
    case 'tls_wrong_name':
      return t`TLS certificate doesn't match the hostname`
    case 'tls_untrusted':
      return t`TLS certificate not issued by a trusted authority`
    case 'tls_client_certificate_required':
      return t`TLS client certificate required`
    case 'tls_failed':
      return t`TLS handshake failed: TLS 1.2 or newer required`
    case 'destination_not_allowed':
      return t`Hostname doesn't exist or isn't publicly accessible`
    case 'invalid_request':
      return t`Invalid custom header`
    case 'invalid_response':
      return t`Invalid HTTP response`
    case 'interrupted':
      return t`Interrupted (internal error)`
    case 'unreadable':
      return t`Event unreadable (internal error)`
    default:
      return t`Internal error`
  }
}

/** Describes why a delivery failed or was skipped. */
export function reasonText(t: Texts, reason: string): string {
  if (/^http_\d{3}$/.test(reason)) return answerText(t, Number(reason.slice(5)), null)
  if (reason === 'gone') return t`410 Gone: endpoint disabled`
  if (reason === 'endpoint_disabled') return t`Endpoint disabled or deleted`
  return errorText(t, reason)
}
