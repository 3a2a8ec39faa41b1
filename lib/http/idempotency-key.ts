import { IDEMPOTENCY_KEY_MAX, isIdempotencyKey } from '../writes/idempotency.ts'
import { refusals } from './refusal.ts'

/**
 * Reads a request's idempotency key. Returns `null` if the header is absent.
 *
 * @throws `Refusal` with status 422 if the key is empty, longer than 200 characters, not visible ASCII, or sent twice
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
