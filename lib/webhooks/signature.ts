import { createHmac, type Hmac, timingSafeEqual } from 'node:crypto'
import { printValue } from '../base/options.ts'
import { checkBody, readSecrets, readSignature, type VerifyWebhookOptions } from './signature-header.ts'

/**
 * Signs a webhook. Returns the signature header's value, `t=<unix seconds>,v1=<hex>[,v1=<hex>]` (see section 6 of
 * the spec).
 *
 * @param body the exact request body
 * @param secrets the current secret, followed by the previous one during a rotation's overlap period. The key is the
 * whole string, including `whsec_`
 * @param timestamp Unix time in seconds. Defaults to now
 * @throws `TypeError` if there is no secret or raw body, `RangeError` if the timestamp isn't a whole number
 * @example
 * ```ts
 * const headers = { 'X-SERVICE-Signature': signWebhook(rawBody, secret) }   // in a test of your subscriber
 * ```
 */
export function signWebhook(
  body: string | Uint8Array,
  secrets: string | readonly string[],
  timestamp: number = Math.floor(Date.now() / 1000),
): string {
  if (!Number.isSafeInteger(timestamp) || timestamp < 0) {
    throw new RangeError(
      `Cannot sign a webhook because the timestamp must be whole Unix seconds: current value is ${printValue(timestamp)}`,
    )
  }
  checkBody(body)
  const signatures = readSecrets(secrets).map(
    (secret) => `v1=${hmacOf(body, secret, timestamp).digest('hex')}`,
  )
  return [`t=${timestamp}`, ...signatures].join(',')
}

/**
 * Verifies that a request was signed with one of the secrets and isn't too old (see section 6 of the spec). The
 * signature is checked before the time, so a sender without the secret can't find out anything about your clock.
 *
 * @param body the body exactly as received. A parsed body can't be verified
 * @param header the signature header's value, as found in `request.headers`
 * @param secrets the endpoint's signing secret, or all secrets that are currently valid
 * @returns when the request was signed, in Unix seconds
 * @throws `WebhookError` if the request can't be trusted, `TypeError` or `RangeError` for invalid arguments
 * @example
 * ```ts
 * verifyWebhook(rawBody, request.headers['x-service-signature'], secret)
 * ```
 */
export function verifyWebhook(
  body: string | Uint8Array,
  header: string | readonly string[] | null | undefined,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions = {},
): { timestamp: number } {
  const { timestamp, signatures, secrets: keys, conclude } = readSignature(body, header, secrets, options)
  const expected = keys.map((secret) => hmacOf(body, secret, timestamp).digest())
  return conclude(hasMatch(signatures, expected))
}

function hasMatch(signatures: readonly string[], expected: readonly Uint8Array[]): boolean {
  let isMatch = false
  for (const signature of signatures) {
    const bytes = Buffer.from(signature, 'hex')
    // Don't return early. The timing must not reveal which secret matched, or whether any did.
    for (const one of expected) isMatch = timingSafeEqual(bytes, one) || isMatch
  }
  return isMatch
}

/** Signs `<t>.<raw body>` (see section 6 of the spec). */
function hmacOf(body: string | Uint8Array, secret: string, timestamp: number | string): Hmac {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body)
}

/** How long to hide an attempt's signature, in milliseconds. Twice the default tolerance to allow for clock skew. */
export const SIGNATURE_HIDDEN_MS = 600_000
