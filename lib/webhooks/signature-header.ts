import { type Names, printValue, readFunction, rejectUnknown } from '../base/options.ts'
import {
  SIGNATURE_EXPIRED,
  SIGNATURE_MALFORMED,
  SIGNATURE_MISMATCH,
  SIGNATURE_MISSING,
  WebhookError,
} from './webhook-error.ts'

// The parts of signature verification that don't involve cryptography. Shared by the node:crypto and Web Crypto
// implementations, so this file must not import anything from Node.

/** Options for `verifyWebhook`. */
export interface VerifyWebhookOptions {
  /** Maximum difference between `t` and the current time in either direction, in seconds. Defaults to 300. */
  toleranceSeconds?: number | undefined
  /** Returns the current time in milliseconds since 1970 (UTC). Defaults to `Date.now`. */
  clock?: (() => number) | undefined
}

/** The names of {@link VerifyWebhookOptions}. */
export const VERIFY_NAMES: Names<VerifyWebhookOptions> = { toleranceSeconds: true, clock: true }

/** See section 8 of the spec. */
const TOLERANCE_SECONDS = 300

/** A request's signature and the secrets to check it against. Everything but the cryptography is done. */
export interface SignatureToVerify {
  /** The timestamp's digits exactly as received, because those are what was signed. */
  readonly timestamp: string
  /** All well-formed `v1` values. They have the right length for a constant-time comparison. */
  readonly signatures: readonly string[]
  readonly secrets: readonly string[]
  /**
   * Completes the verification.
   *
   * @throws `WebhookError` if there was no match, or if `t` is too far from the current time. The match is checked
   * first, so a sender without the secret can't find out anything about our clock
   */
  conclude(isMatch: boolean): { timestamp: number }
}

/**
 * Runs all checks that don't involve cryptography.
 *
 * @throws the same errors as `verifyWebhook`
 */
export function readSignature(
  body: string | Uint8Array,
  header: string | readonly string[] | null | undefined,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions,
): SignatureToVerify {
  rejectUnknown(options, VERIFY_NAMES)
  const { toleranceSeconds = TOLERANCE_SECONDS } = options
  const clock = readFunction('clock', options.clock) ?? Date.now
  checkTolerance(toleranceSeconds)
  checkBody(body)
  const keys = readSecrets(secrets)
  const { timestamp, signatures } = parseHeader(header)
  return {
    timestamp,
    // Hex decoders silently stop at the first invalid character, so validate the string rather than the bytes.
    signatures: signatures.filter((signature) => SIGNATURE.test(signature)),
    secrets: keys,
    conclude(isMatch) {
      if (!isMatch) {
        throw new WebhookError(
          SIGNATURE_MISMATCH,
          `no signature matches: the secret differs from the sender's, or the body was changed after signing${hintOf(keys)}`,
        )
      }
      checkTime(Number(timestamp), toleranceSeconds, clock)
      return { timestamp: Number(timestamp) }
    },
  }
}

/** Returns hints about copy-and-paste mistakes. Only used after a mismatch because any string is a valid secret. */
function hintOf(secrets: readonly string[]): string {
  const hints = secrets.flatMap((secret, index) => {
    const bare = secret.trim().replace(/^["'`\u2018\u201c]+|["'`\u2019\u201d]+$/g, '')
    const faults = [
      /[\s\p{Cc}\p{Cf}]/u.test(secret) && 'contains white space or invisible characters',
      bare !== secret.trim() && 'is in quotes',
      !bare.trimStart().startsWith('whsec_') && 'does not begin with whsec_',
    ].filter((fault) => fault !== false)
    const name = secrets.length === 1 ? 'the secret' : `secret ${index + 1} of ${secrets.length}`
    return faults.length === 0 ? [] : [`; ${name} ${faults.join(', ')}`]
  })
  return hints.join('')
}

/** A SHA-256 digest in hex */
const SIGNATURE = /^[0-9a-f]{64}$/i

/** Maximum number of `v1` values to compare. We only ever send one or two, but anyone can send more. */
const SIGNATURES_MAX = 16
/** Maximum number of header parts to read, including other schemes. */
const PARTS_MAX = 64

interface SignatureHeader {
  readonly timestamp: string
  readonly signatures: readonly string[]
}

function parseHeader(header: string | readonly string[] | null | undefined): SignatureHeader {
  const values = [header ?? []].flat()
  if (!values.every((value) => typeof value === 'string')) {
    throw new TypeError(
      'Cannot verify a webhook because the signature header is not a string: pass its value',
    )
  }
  const [value, ...others] = values
  if (!value) {
    throw new WebhookError(SIGNATURE_MISSING, 'the signature header is missing')
  }
  const [timestamp = '', ...otherTimes] = valuesOf(value, 't')
  const signatures = valuesOf(value, 'v1').slice(0, SIGNATURES_MAX)
  if (others.length > 0 || otherTimes.length > 0 || !/^\d+$/.test(timestamp) || !signatures.length) {
    throw new WebhookError(
      SIGNATURE_MALFORMED,
      'the signature header must have a single t with digits and at least one v1',
    )
  }
  return { timestamp, signatures }
}

/**
 * Ignores other schemes, such as v0 or a future v2. Parts are trimmed because Node joins repeated headers with ", " and
 * we must not miss a second `t`.
 */
function valuesOf(header: string, scheme: string): string[] {
  const parts = header.split(',', PARTS_MAX).map((part) => part.trim())
  return parts.filter((part) => part.startsWith(`${scheme}=`)).map((part) => part.slice(scheme.length + 1))
}

/**
 * Compares whole seconds. `t` has no fraction, so we drop the current time's as well. A difference of exactly the
 * tolerance is still accepted.
 */
function checkTime(timestamp: number, toleranceSeconds: number, clock: () => number): void {
  const difference = Math.abs(Math.floor(clock() / 1000) - timestamp)
  // Negated so that NaN from the clock is rejected.
  if (!(difference <= toleranceSeconds)) {
    throw new WebhookError(
      SIGNATURE_EXPIRED,
      `the time t of the signature is ${difference} seconds away from the clock, more than ${toleranceSeconds}: check the clock`,
    )
  }
}

/** @throws `TypeError` if there are no usable secrets. The message doesn't include them */
export function readSecrets(secrets: string | readonly string[]): readonly string[] {
  const list = typeof secrets === 'string' ? [secrets] : secrets
  const isUsable = Array.isArray(list) && list.every((secret) => typeof secret === 'string' && secret !== '')
  if (!isUsable || list.length === 0) {
    throw new TypeError('The signing secrets must be one or more non-empty strings')
  }
  return list
}

/** @throws `TypeError` if the body is neither a string nor bytes */
export function checkBody(body: unknown): void {
  if (typeof body === 'string' || body instanceof Uint8Array) return
  throw new TypeError(
    'Cannot sign or verify a body that is neither a string nor bytes: pass the raw body, before any parser',
  )
}

function checkTolerance(toleranceSeconds: number): void {
  if (Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0) return
  throw new RangeError(
    `Option 'toleranceSeconds' must be a number from 0 on: current value is ${printValue(toleranceSeconds)}`,
  )
}
