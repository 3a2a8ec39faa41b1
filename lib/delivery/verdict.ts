import type { AttemptResult } from '../webhooks/claims.ts'
import { isSuccess } from '../webhooks/webhook-answer.ts'
import type { WebhookAnswer } from '../webhooks/webhook-sender.ts'

/** What to do after an attempt. */
export interface Verdict
  extends Pick<AttemptResult, 'outcome' | 'reason' | 'isGone' | 'delayMs' | 'backOffMs'> {
  /** How the load on the endpoint should change: more after a success, less after a timeout. */
  readonly load: 'more' | 'same' | 'less'
}

/** Delays between the 5 attempts in milliseconds (specification, section 6, rule 3 of delivery). */
export const RETRY_DELAYS_MS: readonly number[] = [30_000, 60_000, 120_000, 240_000]

/** A `Retry-After` can extend the wait to this many milliseconds at most. */
const RETRY_AFTER_MAX_MS = 60 * 60 * 1000

const DELIVERED: Verdict = {
  outcome: 'delivered',
  reason: null,
  isGone: false,
  delayMs: 0,
  backOffMs: null,
  load: 'more',
}

const GONE = 410
/** Statuses for temporary rejections. Any other failure with a `Retry-After` is treated as a rejection as well. */
const REJECTIONS = [429, 503]

/**
 * Decides what to do after a response. 2xx is a success, and 410 fails the delivery right away. Any other response,
 * including redirects, is retried until there are no more delays (specification, section 6, rules 1 to 4 of delivery).
 *
 * @param attempt number of the attempt in the round, starting at 1
 */
export function judgeAnswer(
  answer: WebhookAnswer,
  attempt: number,
  retryDelaysMs: readonly number[] = RETRY_DELAYS_MS,
): Verdict {
  if (isSuccess(answer)) return DELIVERED
  const rest = { reason: null, isGone: false, delayMs: 0, backOffMs: null, load: 'same' } as const
  const { status, error, retryAfterMs = null } = answer
  // This process ended the attempt, so the delivery is due again immediately and can't fail because of it.
  if (error === 'interrupted') return { ...rest, outcome: 'retry' }
  if (status === GONE) return { ...rest, outcome: 'failed', reason: 'gone', isGone: true }
  const isRejected = status !== null && (REJECTIONS.includes(status) || retryAfterMs !== null)
  const askedMs = Math.min(Math.max(0, retryAfterMs ?? 0), RETRY_AFTER_MAX_MS)
  const failed = {
    ...rest,
    backOffMs: isRejected ? askedMs : null,
    load: error === 'timeout' ? 'less' : 'same',
  } as const
  const delayMs = retryDelaysMs[attempt - 1]
  if (delayMs === undefined) return { ...failed, outcome: 'failed', reason: error ?? `http_${status}` }
  return { ...failed, outcome: 'retry', delayMs: Math.max(delayMs, isRejected ? askedMs : 0) }
}
