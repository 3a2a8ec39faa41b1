import { createHmac, type Hmac, timingSafeEqual } from 'node:crypto'
import { checkBody, readSecrets, readSignature, type VerifyWebhookOptions } from './signature-header.ts'

/**
 * Signs a webhook. Returns the value for the signature header, `t=<unix seconds>,v1=<hex>[,v1=<hex>]`
 * (specification, section 6).
 *
 * @param body the exact request body
 * @param secrets the current secret, followed by the previous one during the overlap of a rotation. The whole string
 * including `whsec_` is used as the key
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
      `Cannot sign a webhook because the timestamp must be whole Unix seconds: current value is ${timestamp}`,
    )
  }
  checkBody(body)
  const signatures = readSecrets(secrets).map(
    (secret) => `v1=${hmacOf(body, secret, timestamp).digest('hex')}`,
  )
  return [`t=${timestamp}`, ...signatures].join(',')
}

/**
 * Verifies that a request was signed with one of the secrets and isn't too old (specification, section 6). The
 * signature is checked before the time, so a sender without the secret learns nothing about the clock.
 *
 * @param body the body exactly as received. A parsed body can't be verified
 * @param header the value of the signature header as it appears in `request.headers`
 * @param secrets the endpoint's signing secret, or all secrets that are currently valid
 * @returns when the request was signed, as Unix time in seconds
 * @throws `WebhookError` if the request can't be trusted, `TypeError` or `RangeError` if the arguments are invalid
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
    // Don't return early. The duration must not reveal which secret matched, or if any did.
    for (const one of expected) isMatch = timingSafeEqual(bytes, one) || isMatch
  }
  return isMatch
}

/** The HMAC covers `<t>.<raw body>` (specification, section 6). */
function hmacOf(body: string | Uint8Array, secret: string, timestamp: number | string): Hmac {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body)
}

/** How long to hide the signature of an attempt, in milliseconds. Twice the usual tolerance, because clocks differ. */
export const SIGNATURE_HIDDEN_MS = 600_000
