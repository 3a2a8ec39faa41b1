import { type Names, rejectUnknown } from '../base/options.ts'
import {
  SIGNATURE_EXPIRED,
  SIGNATURE_MALFORMED,
  SIGNATURE_MISMATCH,
  SIGNATURE_MISSING,
  WebhookError,
} from './webhook-error.ts'

// The checks of a signature that need no cryptography, for the verifier on node:crypto and the verifier on Web Crypto. Nothing of Node
// is loaded or used here.

/** Options of `verifyWebhook`. */
export interface VerifyWebhookOptions {
  /** Seconds that `t` may differ from the clock, earlier or later. Default 300. */
  toleranceSeconds?: number | undefined
  /** Milliseconds since 1970 in UTC. Default `Date.now`. */
  clock?: (() => number) | undefined
}

/** The names of {@link VerifyWebhookOptions}. */
export const VERIFY_NAMES: Names<VerifyWebhookOptions> = { toleranceSeconds: true, clock: true }

/** Specification, section 8. */
const TOLERANCE_SECONDS = 300

/** A request's signature and the secrets to compare with, after every check that comes before the cryptography. */
export interface SignatureToVerify {
  /** The digits as received, because the signature covers these digits. */
  readonly timestamp: string
  /** The well-formed `v1` values. The length is right for a comparison in constant time. */
  readonly signatures: readonly string[]
  readonly secrets: readonly string[]
  /**
   * Ends the verification.
   *
   * @throws `WebhookError` without a match, and for a `t` too far from the clock: in this order, so a sender without the
   *   secret learns nothing about the clock
   */
  conclude(isMatch: boolean): { timestamp: number }
}

/**
 * Makes the checks before the cryptography.
 *
 * @throws as `verifyWebhook`
 */
export function readSignature(
  body: string | Uint8Array,
  header: string | readonly string[] | null | undefined,
  secrets: string | readonly string[],
  options: VerifyWebhookOptions,
): SignatureToVerify {
  rejectUnknown(options, VERIFY_NAMES)
  const { toleranceSeconds = TOLERANCE_SECONDS, clock = Date.now } = options
  checkTolerance(toleranceSeconds)
  checkBody(body)
  const keys = readSecrets(secrets)
  const { timestamp, signatures } = parseHeader(header)
  return {
    timestamp,
    // A hex decoder stops silently at the first invalid character, so the string is checked, not the bytes.
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

/** Names what a secret that was copied wrongly shows of it. Only after a mismatch, because secrets are taken literally. */
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

/** SHA-256 in hex. */
const SIGNATURE = /^[0-9a-f]{64}$/i

/** Number of `v1` that are compared: the sender gives one, two in an overlap. A stranger could send any number. */
const SIGNATURES_MAX = 16
/** Maximum number of header values that are read, other schemes included. */
const PARTS_MAX = 64

interface SignatureHeader {
  readonly timestamp: string
  readonly signatures: readonly string[]
}

function parseHeader(header: string | readonly string[] | null | undefined): SignatureHeader {
  const [value, ...others] = typeof header === 'string' ? [header] : (header ?? [])
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
 * Values of other schemes, v0 or a v2 to come, are passed over. Trimmed, because Node.js joins a repeated header with
 * ", ", and the second `t` must be seen.
 */
function valuesOf(header: string, scheme: string): string[] {
  const parts = header.split(',', PARTS_MAX).map((part) => part.trim())
  return parts.filter((part) => part.startsWith(`${scheme}=`)).map((part) => part.slice(scheme.length + 1))
}

/**
 * Compared in whole seconds: `t` has no fraction, so the fraction of the clock is dropped too. A difference of exactly
 * the tolerance passes in both directions, one second more does not.
 */
function checkTime(timestamp: number, toleranceSeconds: number, clock: () => number): void {
  const difference = Math.abs(Math.floor(clock() / 1000) - timestamp)
  // Negated, so a clock that gives NaN lets nothing through.
  if (!(difference <= toleranceSeconds)) {
    throw new WebhookError(
      SIGNATURE_EXPIRED,
      `the time t of the signature is ${difference} seconds away from the clock, more than ${toleranceSeconds}: check the clock`,
    )
  }
}

/** @throws `TypeError` unless there is at least one secret, without repeating a secret */
export function readSecrets(secrets: string | readonly string[]): readonly string[] {
  const list = typeof secrets === 'string' ? [secrets] : secrets
  const isUsable = Array.isArray(list) && list.every((secret) => typeof secret === 'string' && secret !== '')
  if (!isUsable || list.length === 0) {
    throw new TypeError('Cannot use the signing secrets because they must be one or more non-empty strings')
  }
  return list
}

/** @throws `TypeError` for a body that is neither a string nor bytes */
export function checkBody(body: unknown): void {
  if (typeof body === 'string' || body instanceof Uint8Array) return
  throw new TypeError(
    'Cannot sign or verify a body that is neither a string nor bytes: pass the raw body, before any parser',
  )
}

function checkTolerance(toleranceSeconds: number): void {
  if (Number.isFinite(toleranceSeconds) && toleranceSeconds >= 0) return
  throw new RangeError(
    `Cannot use option 'toleranceSeconds' because it must be a number from 0 on: current value is ${toleranceSeconds}`,
  )
}
