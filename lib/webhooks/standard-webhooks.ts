import { createHmac } from 'node:crypto'
import type { WebhookRequest } from './webhook-sender.ts'

// Standard Webhooks signatures (https://www.standardwebhooks.com), sent alongside our own.

const GROUP = '[A-Za-z0-9+/]{4}'
/** `whsec_` followed by 24 to 64 bytes in standard base64. */
const SECRET = new RegExp(
  `^whsec_((?:${GROUP}){8,20}(?:${GROUP}|[A-Za-z0-9+/]{3}=)?|(?:${GROUP}){8,21}[A-Za-z0-9+/]{2}==)$`,
)

/** Returns `true` if Standard Webhooks verifiers can decode the secret. New secrets can always be decoded. */
export function isStandardSecret(secret: string): boolean {
  return SECRET.test(secret)
}

/**
 * Returns the Standard Webhooks headers. The signature is the base64 HMAC-SHA256 of `<event id>.<timestamp>.<body>`,
 * one for each secret that can be decoded.
 *
 * @param secrets the signing secrets, newest first. There are two during a rotation's overlap period
 * @param timestamp Unix time in seconds, the same as in our own signature
 * @returns the headers, or an empty object if none of the secrets can be decoded
 */
export function standardHeaders(
  { eventId, body }: { readonly eventId: string; readonly body: string },
  secrets: readonly string[],
  timestamp: number,
): WebhookRequest['headers'] {
  const keys = secrets.flatMap((secret) => SECRET.exec(secret)?.[1] ?? [])
  if (keys.length === 0) return {}
  const signatures = keys.map((key) => {
    const hmac = createHmac('sha256', Buffer.from(key, 'base64'))
      .update(`${eventId}.${timestamp}.`)
      .update(body)
    return `v1,${hmac.digest('base64')}`
  })
  return {
    'Webhook-Id': eventId,
    'Webhook-Timestamp': String(timestamp),
    'Webhook-Signature': signatures.join(' '),
  }
}
