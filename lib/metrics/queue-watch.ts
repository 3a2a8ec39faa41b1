import { isStoreUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { QueueCounts } from '../webhooks/queue-counts.ts'
import type { MetricsStore } from './metrics-options.ts'

/** The latest queue counts, or the reason there aren't any. */
export interface QueueReading {
  /** `null` if counting failed or `countQueue` is `false`. */
  readonly counts: QueueCounts | null
  /** Why counting failed, otherwise `null`. For operators. Never includes hostnames, usernames or database names. */
  readonly failure: string | null
}

/**
 * Returns a function that reads the queue counts. At most one query runs at a time. The result is shared by all callers
 * and cached for `maxAgeMs`, so the number of scrapes and probes doesn't matter.
 */
export function createQueueWatch(
  { deliveries, apiKeys }: MetricsStore,
  options: { readonly countQueue: boolean; readonly maxAgeMs: number; readonly timeoutMs: number },
): () => Promise<QueueReading> {
  const { countQueue, maxAgeMs, timeoutMs } = options
  let latest: { readonly reading: QueueReading; readonly readAt: number } | undefined
  let underWay: Promise<QueueReading> | undefined

  async function ask(): Promise<QueueReading> {
    try {
      // The role can't read deliveries, so look up a nonexistent key instead.
      const counts = countQueue ? await deliveries.countQueue(null) : null
      if (!countQueue) await apiKeys.identify([NO_DIGEST])
      const reading = { counts, failure: null }
      latest = { reading, readAt: performance.now() }
      return reading
    } catch (error) {
      return { counts: null, failure: describeFailure(error) }
    }
  }

  return async () => {
    if (latest && performance.now() - latest.readAt < maxAgeMs) return latest.reading
    underWay ??= ask().finally(() => {
      underWay = undefined
    })
    return await withDeadline(underWay, timeoutMs, () => ({
      counts: null,
      failure: `did not respond within ${timeoutMs} ms`,
    }))
  }
}

const NO_DIGEST = '0'.repeat(64)

/** Returns only the failure type, since messages may contain hostnames and usernames. */
function describeFailure(error: unknown): string {
  if (isStoreUnavailable(error)) return 'cannot be reached'
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? `has failed with ${code}` : 'has failed'
}
