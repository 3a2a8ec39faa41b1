import { isSuccess } from '../attempt.ts'
import type { AttemptResult } from '../deliveries.ts'
import type { WebhookAnswer } from '../webhook-sender.ts'

/** What follows from an attempt. */
export interface Verdict extends Pick<AttemptResult, 'outcome' | 'reason' | 'isGone' | 'delayMs'> {
  /** What the endpoint can take: more after a success, less when it was slow or asked for less. */
  readonly load: 'more' | 'same' | 'less'
}

/** The waits between attempts (specification, section 6, rule 3 of delivery): 5 attempts in all. */
export const RETRY_DELAYS_MS: readonly number[] = [30_000, 60_000, 120_000, 240_000]

/** A `Retry-After` lengthens a wait to an hour at most. */
const RETRY_AFTER_MAX_MS = 60 * 60 * 1000

const GONE = 410
const ASKS_FOR_LESS = [429, 503]

/**
 * Judges an answer: any 2xx is a success, 410 ends it at once, everything else, redirects included, is tried again until
 * the delays are used up (specification, section 6, rules 1 to 4 of delivery).
 *
 * @param attempt which attempt of its round it was, from 1
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
  // Nobody but this process ended the attempt: there is nothing to wait for, and nothing to give up for.
  if (error === 'interrupted')
    return { outcome: 'retry', reason: null, isGone: false, delayMs: 0, load: 'same' }
  const load = error === 'timeout' || status === 429 ? 'less' : 'same'
  if (status === GONE) return { outcome: 'dead_lettered', reason: 'gone', isGone: true, delayMs: 0, load }
  const delayMs = retryDelaysMs[attempt - 1]
  if (delayMs === undefined) {
    const reason = error ?? `http_${status}`
    return { outcome: 'dead_lettered', reason, isGone: false, delayMs: 0, load }
  }
  const askedMs = ASKS_FOR_LESS.includes(status ?? 0) ? Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS) : 0
  return { outcome: 'retry', reason: null, isGone: false, delayMs: Math.max(delayMs, askedMs), load }
}
