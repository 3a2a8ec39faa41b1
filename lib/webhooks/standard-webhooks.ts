import { createHmac } from 'node:crypto'
import type { WebhookRequest } from './webhook-sender.ts'

// Standard Webhooks (https://www.standardwebhooks.com), beside the signature of the service.

const GROUP = '[A-Za-z0-9+/]{4}'
/** `whsec_` and 24 to 64 bytes in standard base64. */
const SECRET = new RegExp(
  `^whsec_((?:${GROUP}){8,20}(?:${GROUP}|[A-Za-z0-9+/]{3}=)?|(?:${GROUP}){8,21}[A-Za-z0-9+/]{2}==)$`,
)

/** Returns true for a secret that the verifiers of Standard Webhooks can decode, as every new secret is. */
export function isStandardSecret(secret: string): boolean {
  return SECRET.test(secret)
}

/**
 * Makes the headers of Standard Webhooks: HMAC-SHA256 in base64 over `<event id>.<timestamp>.<body>`, for each secret that
 * can be decoded.
 *
 * @param secrets the current secret first; two during the overlap of a rotation
 * @param timestamp Unix seconds, the same as in the signature of the service
 * @returns no headers if no secret can be decoded
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
