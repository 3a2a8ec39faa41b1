import { createHash } from 'node:crypto'
import { refusals } from './refusal.ts'

/** Specification, section 4, rule 4. */
export const IDEMPOTENCY_WINDOW_MS: number = 7 * 24 * 60 * 60 * 1000

/** Specification, section 8. */
export const IDEMPOTENCY_KEY_MAX = 200

/** Visible ASCII only: a repeated header arrives joined with a comma and a space, and the space gives it away. */
const KEY_PATTERN = new RegExp(`^[\\x21-\\x7e]{1,${IDEMPOTENCY_KEY_MAX}}$`)

/**
 * The idempotency key of a request; null when it has none.
 *
 * @throws `Refusal` 422 for one that is empty, longer than 200 characters, not visible ASCII, or given twice
 */
export function readIdempotencyKey(header: string | undefined): string | null {
  if (header === undefined) return null
  if (!KEY_PATTERN.test(header)) {
    throw refusals.invalid(
      'Validation failed: Idempotency-Key must be given once and have 1 to 200 visible ASCII characters',
    )
  }
  return header
}

/** SHA-256 over the canonical JSON of validated fields: their order in the request does not matter. */
export function fingerprint(input: unknown): string {
  const fields = Object.keys(input as object).sort()
  return createHash('sha256').update(JSON.stringify(input, fields)).digest('hex')
}
