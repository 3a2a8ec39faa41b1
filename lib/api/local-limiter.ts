import type { Admission } from '../access/admission.ts'
import { type RateLimits, takeToken } from '../access/rate-limit.ts'

/** With more buckets than this, we remove the full ones. Callers can't tell, since new buckets start out full. */
const MAX_BUCKETS = 10_000

/** Creates a per-process rate limiter. Used when the store doesn't take tokens. */
export function createLocalLimiter(limits: RateLimits): (admission: Admission) => Admission {
  const fullAt = new Map<string, number>()
  let sweepAt = MAX_BUCKETS

  return (admission) => {
    if (admission.outcome === 'unauthenticated') return admission
    const now = performance.now()
    const { keyId, organizationId } = admission.caller
    const keyBucket = `key:${organizationId}:${keyId}`
    const organizationBucket = `org:${organizationId}`
    const { times, state } = takeToken(
      { key: fullAt.get(keyBucket) ?? 0, organization: fullAt.get(organizationBucket) ?? 0 },
      limits,
      now,
    )
    fullAt.set(keyBucket, times.key).set(organizationBucket, times.organization)
    if (fullAt.size > sweepAt) {
      dropFull(fullAt, now)
      // Wait for the number of buckets to double, so sweeps stay rare no matter how many callers there are.
      sweepAt = Math.max(MAX_BUCKETS, fullAt.size * 2)
    }
    return { ...admission, rateLimit: state, outcome: state.retryAfterMs > 0 ? 'limited' : admission.outcome }
  }
}

function dropFull(fullAt: Map<string, number>, now: number): void {
  for (const [bucket, time] of fullAt) {
    if (time <= now) fullAt.delete(bucket)
  }
}
