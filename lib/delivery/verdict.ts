import type { AttemptResult } from '../webhooks/claims.ts'
import { isSuccess } from '../webhooks/webhook-answer.ts'
import type { WebhookAnswer } from '../webhooks/webhook-sender.ts'

/** The consequences of an attempt. */
export interface Verdict
  extends Pick<AttemptResult, 'outcome' | 'reason' | 'isGone' | 'delayMs' | 'backOffMs'> {
  /** The load that the endpoint can take: more after a success, less after a timeout. */
  readonly load: 'more' | 'same' | 'less'
}

/** Delays between attempts, in ms (specification, section 6, rule 3 of delivery): 5 attempts in all. */
export const RETRY_DELAYS_MS: readonly number[] = [30_000, 60_000, 120_000, 240_000]

/** A `Retry-After` lengthens the wait to an hour at most. */
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
/** Statuses with which an endpoint rejects deliveries for now; other failures are rejections if they have a `Retry-After`. */
const REJECTIONS = [429, 503]

/**
 * Judges a response: any 2xx is a success, 410 fails the delivery at once, and every other response, redirects included, is retried
 * until the delays are used up (specification, section 6, rules 1 to 4 of delivery).
 *
 * @param attempt number of the attempt in the round, from 1
 */
export function judgeAnswer(
  answer: WebhookAnswer,
  attempt: number,
  retryDelaysMs: readonly number[] = RETRY_DELAYS_MS,
): Verdict {
  if (isSuccess(answer)) return DELIVERED
  const rest = { reason: null, isGone: false, delayMs: 0, backOffMs: null, load: 'same' } as const
  const { status, error, retryAfterMs = null } = answer
  // This process ended the attempt, so the delivery is due at once and never fails for the interruption.
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
