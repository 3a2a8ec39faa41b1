import { createHash } from 'node:crypto'
import { canonicalJson } from '../base/json-text.ts'
import type { CreationOutcome, KeyReservation } from './creation.ts'

/** How long a key can be replayed after it first succeeds, in ms (see section 4, rule 4 of the spec). */
export const IDEMPOTENCY_WINDOW_MS: number = 7 * 24 * 60 * 60 * 1000

/** Maximum key length in characters (see section 8 of the spec). */
export const IDEMPOTENCY_KEY_MAX = 200

/** Matches visible ASCII. Node.js joins repeated headers with a comma and a space, so they don't match. */
const KEY_PATTERN = new RegExp(`^[\\x21-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`)

/** Returns `true` if a string is a valid idempotency key. */
export function isIdempotencyKey(text: string): boolean {
  return KEY_PATTERN.test(text)
}

/** Returns the SHA-256 of a flat, validated input as canonical JSON, so field order doesn't matter. */
export function fingerprint(input: object): string {
  const fields = Object.keys(input).sort()
  return createHash('sha256').update(JSON.stringify(input, fields)).digest('hex')
}

/**
 * Returns the SHA-256 of a value as canonical JSON. Pass the value as sent, not as validated, since the host's schema
 * may add the current time or return a `Map`, which JSON can't represent.
 *
 * @returns `null` if {@link canonicalJson} doesn't support the value
 */
export function fingerprintOfJson(value: unknown): string | null {
  const text = canonicalJson(value)
  return text === null ? null : createHash('sha256').update(text).digest('hex')
}

// --- Store ---

/** A request to run the host's own code once and store its reply. */
export interface ReplyRequest {
  readonly organizationId: string
  /** The caller's API key, checked just a moment ago. Nothing runs if it's no longer active. */
  readonly apiKeyId: string
  /** This call's id. */
  readonly writeId: string
  /** `null` to run the code on every call. */
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
}

/** The part of a store that keeps replies from the host's own code. */
export interface ReplyStore {
  /**
   * Reserves the key, runs `work` and stores the reply, all in the host's transaction. A concurrent call with the same
   * key waits up to `waitMs` for the first transaction to end. If `work` throws, the reservation is rolled back. The
   * outcomes are the same as for a creation.
   *
   * @param work writes in the same transaction and returns the reply
   */
  once(request: ReplyRequest, work: () => Promise<string>): Promise<CreationOutcome>
}
