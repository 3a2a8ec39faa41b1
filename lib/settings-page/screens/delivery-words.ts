import type { Delivery, DeliveryState } from '../../webhooks/deliveries.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge, type Tone } from '../views/badge.ts'

/** Every state of a delivery, in the order of the filter. */
export const DELIVERY_STATES = ['failed', 'pending', 'sending', 'delivered', 'skipped', 'cancelled'] as const

/** Tells the word of a state, and the tone of its badge. */
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

/** The state of a delivery with an icon. */
export function deliveryState(t: Texts, { state }: Delivery): Html {
  const [word, tone] = describeState(t, state)
  return badge(tone, word)
}

/** Returns the result of an attempt in words: the status, or the reason for none. */
export function answerText(t: Texts, status: number | null, error: string | null): string {
  if (status !== null) return t`${String(status)} ${statusWords(t, status)}`
  return error === null ? t`None yet` : errorText(t, error)
}

function statusWords(t: Texts, status: number): string {
  if (status === 410) return t`(gone: the endpoint was disabled)`
  if (status === 401 || status === 403) return t`(the endpoint refused us)`
  if (status === 404) return t`(nothing at that URL)`
  if (status === 429) return t`(too many requests)`
  if (status >= 300 && status < 400) return t`(a redirect, which is not followed)`
  if (status >= 500) return t`(an error of the endpoint)`
  return status >= 400 ? t`(refused)` : ''
}

/** The reason for a missing answer in words. */
export function errorText(t: Texts, error: string): string {
  switch (error) {
    case 'timeout':
      return t`No answer within 10 seconds`
    case 'connection_refused':
      return t`Nothing listens on that port`
    case 'connection_reset':
      return t`The connection was closed before a response arrived`
    case 'connection_failed':
      return t`No connection could be made`
    case 'dns_failed':
      return t`The name servers of the host name did not answer`
    case 'tls_certificate_expired':
      return t`The certificate has expired or is not valid yet`
    case 'tls_wrong_name':
      return t`The certificate is for another host name`
    case 'tls_untrusted':
      return t`The certificate is not signed by a trusted authority`
    case 'tls_client_certificate_required':
      return t`The server requires a client certificate`
    case 'tls_failed':
      return t`No encrypted connection: the server does not speak TLS 1.2 or newer`
    case 'destination_not_allowed':
      return t`The address is not public, or the host name does not exist`
    case 'invalid_request':
      return t`A header of the endpoint cannot be sent`
    case 'invalid_response':
      return t`The answer was not HTTP`
    case 'interrupted':
      return t`The attempt was interrupted on our side`
    case 'unreadable':
      return t`The delivery could not be read on our side`
    default:
      return t`The attempt failed on our side`
  }
}

/** The reason why a delivery was given up or skipped. */
export function reasonText(t: Texts, reason: string): string {
  if (/^http_\d{3}$/.test(reason)) return answerText(t, Number(reason.slice(5)), null)
  if (reason === 'gone') return t`The endpoint answered 410 Gone`
  if (reason === 'endpoint_disabled') return t`The endpoint was disabled or removed`
  return errorText(t, reason)
}
