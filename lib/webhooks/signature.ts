import { createHmac, type Hmac, timingSafeEqual } from 'node:crypto'

// --- Errors ---

/** The request carries no signature header. Thrown by `verifyWebhook`. */
export const SIGNATURE_MISSING = 'signature_missing'

/** The header is not a single `t` of digits with at least one `v1`. Thrown by `verifyWebhook`. */
export const SIGNATURE_MALFORMED = 'signature_malformed'

/** No `v1` was made with a given secret over this body and this `t`. Thrown by `verifyWebhook`. */
export const SIGNATURE_MISMATCH = 'signature_mismatch'

/** Signed with a secret, but too long ago or too far ahead: perhaps a replay. Thrown by `verifyWebhook`. */
export const SIGNATURE_EXPIRED = 'signature_expired'

/** The request is no POST. Thrown by `receiveWebhook`; answer 405. */
export const WEBHOOK_METHOD = 'webhook_method'

/** The body is larger than `maxBodyBytes`. Thrown by `receiveWebhook`; answer 413. */
export const WEBHOOK_TOO_LARGE = 'webhook_too_large'

/** The body ended early, or is signed and no event. Thrown by `receiveWebhook`; answer 400. */
export const WEBHOOK_MALFORMED = 'webhook_malformed'

/** Every code of a {@link WebhookError}. */
export type WebhookErrorCode =
  | typeof SIGNATURE_MISSING
  | typeof SIGNATURE_MALFORMED
  | typeof SIGNATURE_MISMATCH
  | typeof SIGNATURE_EXPIRED
  | typeof WEBHOOK_METHOD
  | typeof WEBHOOK_TOO_LARGE
  | typeof WEBHOOK_MALFORMED

/** A request that is not to be trusted. `code` names the check that failed, `status` is the answer to give. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError'
  readonly code: WebhookErrorCode
  readonly status: number

  constructor(code: WebhookErrorCode, reason: string, status = 400) {
    super(`Cannot accept the webhook because ${reason}`)
    this.code = code
    this.status = status
  }
}

// --- Signing ---

/**
 * Makes the value of the signature header (specification, section 6): `t=<unix seconds>,v1=<hex>[,v1=<hex>]`.
 *
 * @param body the request's body, byte for byte
 * @param secrets the current secret, and during a rotation's overlap the previous secret after it. Taken literally,
 *   `whsec_` included
 * @param timestamp Unix seconds. Default now
 * @throws `TypeError` without a secret or a raw body, `RangeError` for a timestamp that is not in whole seconds
 */
export function signWebhook(
  body: string | Uint8Array,
  secrets: string | readonly string[],
  timestamp: number = Math.floor(Date.now() / 1000),
): string {
  if (!Number.isSafeInteger(timestamp) || timestamp < 0) {
    throw new RangeError(
      `Cannot sign a webhook as the timestamp must be whole Unix seconds: current value is ${timestamp}`,
    )
  }
  checkBody(body)
  const signatures = readSecrets(secrets).map(
    (secret) => `v1=${hmacOf(body, secret, timestamp).digest('hex')}`,
  )
  return [`t=${timestamp}`, ...signatures].join(',')
}

// --- Verifying ---

/** Options of `verifyWebhook`. */
export interface VerifyWebhookOptions {
  /** Seconds that `t` may differ from the clock, earlier or later. Default 300. */
  toleranceSeconds?: number | undefined
  /** Milliseconds since 1970 in UTC. Default `Date.now`. */
  clock?: (() => number) | undefined
}

/** Specification, section 8. */
const TOLERANCE_SECONDS = 300

/**
 * Checks that a request was signed with a secret, and recently (specification, section 6). The signature is judged
 * before the time, so a sender without the secret learns nothing about the clock.
 *
 * @param body exactly as received: no parsed body can be checked
 * @param header the value of the signature header, as `request.headers` has it
 * @param secrets the endpoint's signing secret, or all secrets that may sign now
 * @returns the time of the signature, in Unix seconds
 * @throws `WebhookError` for a request that is not to be trusted; `TypeError` or `RangeError` for arguments that could
 *   not verify any request
 */
export function verifyWebhook(
  body: string | Uint8Array,
  header: string | readonly string[] | null | undefined,
  secrets: string | readonly string[],
  { toleranceSeconds = TOLERANCE_SECONDS, clock = Date.now }: VerifyWebhookOptions = {},
): { timestamp: number } {
  checkTolerance(toleranceSeconds)
  checkBody(body)
  const keys = readSecrets(secrets)
  const { timestamp, signatures } = parseHeader(header)
  const expected = keys.map((secret) => hmacOf(body, secret, timestamp).digest())
  if (!hasMatch(signatures, expected)) {
    throw new WebhookError(
      SIGNATURE_MISMATCH,
      "no signature matches: the secret differs from the sender's, or the body was changed after signing",
    )
  }
  checkTime(Number(timestamp), toleranceSeconds, clock)
  return { timestamp: Number(timestamp) }
}

interface SignatureHeader {
  /** The digits as received, because the signature covers these digits. */
  readonly timestamp: string
  readonly signatures: readonly string[]
}

function parseHeader(header: string | readonly string[] | null | undefined): SignatureHeader {
  const [value, ...others] = typeof header === 'string' ? [header] : (header ?? [])
  if (!value) {
    throw new WebhookError(SIGNATURE_MISSING, 'the signature header is missing')
  }
  const [timestamp = '', ...otherTimes] = valuesOf(value, 't')
  const signatures = valuesOf(value, 'v1')
  if (others.length > 0 || otherTimes.length > 0 || !/^\d+$/.test(timestamp) || !signatures.length) {
    throw new WebhookError(
      SIGNATURE_MALFORMED,
      'the signature header is not a single t of digits with at least one v1',
    )
  }
  return { timestamp, signatures }
}

/**
 * Values of other schemes, v0 or a v2 to come, are passed over. Trimmed, because Node.js joins a repeated header with
 * ", ", and the second `t` must be seen.
 */
function valuesOf(header: string, scheme: string): string[] {
  const parts = header.split(',').map((part) => part.trim())
  return parts.filter((part) => part.startsWith(`${scheme}=`)).map((part) => part.slice(scheme.length + 1))
}

/** SHA-256 in hex. The length is checked before `timingSafeEqual`, which throws for any other length. */
const SIGNATURE = /^[0-9a-f]{64}$/i

function hasMatch(signatures: readonly string[], expected: readonly Uint8Array[]): boolean {
  let isMatch = false
  for (const signature of signatures) {
    // A decoder of hex stops silently at the first character that is not a digit, so the text is judged, not the bytes.
    if (!SIGNATURE.test(signature)) continue
    const bytes = Buffer.from(signature, 'hex')
    // Never left early: the duration must not reveal the matching secret, or that a secret matched.
    for (const one of expected) isMatch = timingSafeEqual(bytes, one) || isMatch
  }
  return isMatch
}

/**
 * Compared in whole seconds: `t` has no fraction, so the fraction of the clock is dropped too. A difference of exactly
 * the tolerance passes in both directions, one second more does not.
 */
function checkTime(timestamp: number, toleranceSeconds: number, clock: () => number): void {
  const difference = Math.abs(Math.floor(clock() / 1000) - timestamp)
  // Negated, so that a clock that gives NaN lets nothing through.
  if (!(difference <= toleranceSeconds)) {
    throw new WebhookError(
      SIGNATURE_EXPIRED,
      `the time t of the signature is ${difference} seconds away from the clock, more than ${toleranceSeconds}: check the clock`,
    )
  }
}

// --- Both ---

/** Over `<t>.<raw body>` (specification, section 6). */
function hmacOf(body: string | Uint8Array, secret: string, timestamp: number | string): Hmac {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body)
}

/** No message repeats a secret. */
function readSecrets(secrets: string | readonly string[]): readonly string[] {
  const list = typeof secrets === 'string' ? [secrets] : secrets
  const isUsable = Array.isArray(list) && list.every((secret) => typeof secret === 'string' && secret !== '')
  if (!isUsable || list.length === 0) {
    throw new TypeError(
      'Cannot use the signing secrets as they must be one or more texts, none of them empty',
    )
  }
  return list
}

function checkBody(body: unknown): void {
  if (typeof body === 'string' || body instanceof Uint8Array) return
  throw new TypeError(
    'Cannot sign or verify a body that is neither text nor bytes: give the raw body, before any parser',
  )
}

function checkTolerance(toleranceSeconds: number): void {
  if (Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0) return
  throw new RangeError(
    `Cannot use option 'toleranceSeconds' as it must be a number from 0 on: current value is ${toleranceSeconds}`,
  )
}
