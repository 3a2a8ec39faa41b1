import { isSuccess } from '../webhooks/attempt.ts'
import type { AttemptResult } from '../webhooks/deliveries.ts'
import type { WebhookAnswer } from '../webhooks/webhook-sender.ts'

/** The consequences of an attempt. */
export interface Verdict extends Pick<AttemptResult, 'outcome' | 'reason' | 'isGone' | 'delayMs'> {
  /** The load that the endpoint can take: more after a success, less after a timeout or 429. */
  readonly load: 'more' | 'same' | 'less'
}

/** Milliseconds between attempts (specification, section 6, rule 3 of delivery): 5 attempts in all. */
export const RETRY_DELAYS_MS: readonly number[] = [30_000, 60_000, 120_000, 240_000]

/** A `Retry-After` lengthens the backoff to an hour at most. */
const RETRY_AFTER_MAX_MS = 60 * 60 * 1000

const GONE = 410
/** Statuses with a `Retry-After` that counts. */
const RETRY_AFTER_STATUSES = [429, 503]

/**
 * Judges an answer: any 2xx is a success, 410 fails the delivery at once, and every other answer, redirects included, is retried
 * until the delays are used up (specification, section 6, rules 1 to 4 of delivery).
 *
 * @param attempt number of the attempt in the round, from 1
 */
export function judgeAnswer(
  answer: WebhookAnswer,
  attempt: number,
  retryDelaysMs: readonly number[] = RETRY_DELAYS_MS,
): Verdict {
  if (isSuccess(answer)) {
    return { outcome: 'delivered', reason: null, isGone: false, delayMs: 0, load: 'more' }
  }
  const { status, error, retryAfterMs } = answer
  // This process ended the attempt, so the delivery is due at once and never fails for the interruption.
  if (error === 'interrupted')
    return { outcome: 'retry', reason: null, isGone: false, delayMs: 0, load: 'same' }
  const load = error === 'timeout' || status === 429 ? 'less' : 'same'
  if (status === GONE) return { outcome: 'failed', reason: 'gone', isGone: true, delayMs: 0, load }
  const delayMs = retryDelaysMs[attempt - 1]
  if (delayMs === undefined) {
    const reason = error ?? `http_${status}`
    return { outcome: 'failed', reason, isGone: false, delayMs: 0, load }
  }
  const askedMs = RETRY_AFTER_STATUSES.includes(status ?? 0)
    ? Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS)
    : 0
  return { outcome: 'retry', reason: null, isGone: false, delayMs: Math.max(delayMs, askedMs), load }
}
