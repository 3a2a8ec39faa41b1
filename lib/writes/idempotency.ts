import { createHash } from 'node:crypto'
import { canonicalJson } from '../base/json-text.ts'
import type { CreationOutcome, KeyReservation } from './creation.ts'

/** How long a key is replayed after the first success, in ms (specification, section 4, rule 4). */
export const IDEMPOTENCY_WINDOW_MS: number = 7 * 24 * 60 * 60 * 1000

/** Greatest length of a key in characters (specification, section 8). */
export const IDEMPOTENCY_KEY_MAX = 200

/** Visible ASCII only: Node.js joins a repeated header with a comma and a space, and the space shows the repetition. */
const KEY_PATTERN = new RegExp(`^[\\x21-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`)

/** Returns true for a string that is allowed as an idempotency key. */
export function isIdempotencyKey(text: string): boolean {
  return KEY_PATTERN.test(text)
}

/** Computes SHA-256 over the canonical JSON of validated flat fields, so the order of fields in a request does not matter. */
export function fingerprint(input: object): string {
  const fields = Object.keys(input).sort()
  return createHash('sha256').update(JSON.stringify(input, fields)).digest('hex')
}

/**
 * Computes SHA-256 over the canonical JSON of a value as it was sent. Not from a validated value: the host's schema may add the current
 * time, or return a `Map`, which JSON can't show.
 *
 * @returns null for a value that {@link canonicalJson} cannot write
 */
export function fingerprintOfJson(value: unknown): string | null {
  const text = canonicalJson(value)
  return text === null ? null : createHash('sha256').update(text).digest('hex')
}

// --- Store ---

/** A reply of the host's own work. */
export interface ReplyRequest {
  readonly organizationId: string
  /** The caller's API key, checked a moment ago: no work is done if the key is no longer active. */
  readonly apiKeyId: string
  /** Names this call. */
  readonly writeId: string
  /** Null: the work is done at every call. */
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
}

/** The slice for replies of the host's own work, in the host's transaction. */
export interface ReplyStore {
  /**
   * Reserves the key, does the work and stores the reply, all in the host's transaction. A second call with the key waits for the end of the
   * first transaction, for at most `waitMs`. If the work throws, the key is as it was. The outcomes are those of a creation.
   *
   * @param work writes in the same transaction, and returns the reply
   */
  once(request: ReplyRequest, work: () => Promise<string>): Promise<CreationOutcome>
}
