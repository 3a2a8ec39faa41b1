import { createHmac, type Hmac, timingSafeEqual } from 'node:crypto'
import { checkBody, readSecrets, readSignature, type VerifyWebhookOptions } from './signature-header.ts'

/**
 * Signs a webhook: returns the value of the signature header (specification, section 6), `t=<unix seconds>,v1=<hex>[,v1=<hex>]`.
 *
 * @param body the request body, byte for byte
 * @param secrets the current secret, followed by the previous one during the overlap of a rotation. The whole string is the key, `whsec_` included
 * @param timestamp Unix seconds. Default now
 * @throws `TypeError` without a secret or a raw body, `RangeError` for a timestamp that isn't in whole seconds
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
 * Verifies that a request was signed with a secret, and recently (specification, section 6). The signature is checked before the time, so a
 * sender without the secret learns nothing about the clock.
 *
 * @param body exactly as received: a parsed body can't be verified
 * @param header the value of the signature header, as `request.headers` has it
 * @param secrets the endpoint's signing secret, or all secrets that may sign now
 * @returns the time of the signature, in Unix seconds
 * @throws `WebhookError` for a request that can't be trusted; `TypeError` or `RangeError` for arguments with which no request could be verified
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
    // Never left early: the duration must not reveal the matching secret, or that a secret matched.
    for (const one of expected) isMatch = timingSafeEqual(bytes, one) || isMatch
  }
  return isMatch
}

/** Over `<t>.<raw body>` (specification, section 6). */
function hmacOf(body: string | Uint8Array, secret: string, timestamp: number | string): Hmac {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body)
}

/** Age of an attempt, in ms, before its signature is shown: twice the tolerance of verifiers, whose clocks differ. */
export const SIGNATURE_HIDDEN_MS = 600_000
