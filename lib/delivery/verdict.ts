import type { AttemptResult } from '../webhooks/claims.ts'
import { isSuccess } from '../webhooks/webhook-answer.ts'
import type { WebhookAnswer } from '../webhooks/webhook-sender.ts'

/** What happens next after an attempt. */
export interface Verdict
  extends Pick<AttemptResult, 'outcome' | 'reason' | 'isGone' | 'delayMs' | 'backOffMs'> {
  /** Whether the endpoint can take more load (after a success) or less (after a timeout). */
  readonly load: 'more' | 'same' | 'less'
}

/** Delays between the five attempts, in milliseconds (see section 6 of the spec, delivery rule 3). */
export const RETRY_DELAYS_MS: readonly number[] = [30_000, 60_000, 120_000, 240_000]

/** Maximum `Retry-After` to respect, in milliseconds. */
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
/** Statuses that mean a temporary rejection. Any failure with a `Retry-After` counts as a rejection too. */
const REJECTIONS = [429, 503]

/**
 * Decides what happens after a response. 2xx is a success, and 410 fails the delivery right away. Any other response,
 * including redirects, is retried until there are no more delays (see section 6 of the spec, delivery rules 1 to 4).
 *
 * @param attempt the attempt number within the round, starting at 1
 */
export function judgeAnswer(
  answer: WebhookAnswer,
  attempt: number,
  retryDelaysMs: readonly number[] = RETRY_DELAYS_MS,
): Verdict {
  if (isSuccess(answer)) return DELIVERED
  const rest = { reason: null, isGone: false, delayMs: 0, backOffMs: null, load: 'same' } as const
  const { status, error, retryAfterMs = null } = answer
  // We ended the attempt ourselves, so the delivery is due again immediately and can't fail because of it.
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
