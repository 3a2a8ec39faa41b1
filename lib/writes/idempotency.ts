import { createHash } from 'node:crypto'

/** Milliseconds for which a key is replayed, from the first success on (specification, section 4, rule 4). */
export const IDEMPOTENCY_WINDOW_MS: number = 7 * 24 * 60 * 60 * 1000

/** Greatest length of a key in characters (specification, section 8). */
export const IDEMPOTENCY_KEY_MAX = 200

/** Visible ASCII only: Node.js joins a repeated header with a comma and a space, and the space shows the repetition. */
const KEY_PATTERN = new RegExp(`^[\\x21-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`)

/** Returns true for a text that is allowed as an idempotency key. */
export function isIdempotencyKey(text: string): boolean {
  return KEY_PATTERN.test(text)
}

/** Computes SHA-256 over the canonical JSON of validated flat fields, so that the order of fields in a request does not matter. */
export function fingerprint(input: object): string {
  const fields = Object.keys(input).sort()
  return createHash('sha256').update(JSON.stringify(input, fields)).digest('hex')
}
