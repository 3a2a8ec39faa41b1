import { IDEMPOTENCY_KEY_MAX, isIdempotencyKey } from '../writes/idempotency.ts'
import { refusals } from './refusal.ts'

/**
 * Reads the idempotency key of a request; null without the header.
 *
 * @throws `Refusal` 422 for a key that is empty, longer than 200 characters, not visible ASCII, or given twice
 */
export function readIdempotencyKey(header: string | undefined): string | null {
  if (header === undefined) return null
  if (!isIdempotencyKey(header)) {
    throw refusals.invalid(
      `Validation failed: Idempotency-Key must be given once and have 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`,
    )
  }
  return header
}
