import type { Admission } from '../access/admission.ts'
import { type RateLimits, takeToken } from '../access/rate-limit.ts'

/** Full buckets are dropped from this number of buckets on. A new bucket is full too, so no caller notices. */
const MAX_BUCKETS = 10_000

/** Creates a limiter for hosts that prefer buckets of each process: it judges admissions that took no token from the store. */
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
      // Twice the buckets in use, so that sweeps are rare for any number of callers.
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
