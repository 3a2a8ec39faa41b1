import { isStoreUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { QueueCounts } from '../webhooks/queue-counts.ts'
import type { MetricsStore } from './metrics-options.ts'

/** The latest counts from the store, or the reason why there are none. */
export interface QueueReading {
  /** `null` if counting failed or the option `countQueue` is `false`. */
  readonly counts: QueueCounts | null
  /** Why counting failed, or `null` if it didn't. For operators, doesn't name hosts, users or databases. */
  readonly failure: string | null
}

/**
 * Returns a function that reads the queue. Only one query runs at a time, and its result is shared by all callers and
 * cached for `maxAgeMs`. So it doesn't matter how many scrapes and probes there are.
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
      // If the role can't read deliveries, look up a key that doesn't exist instead.
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

/** Only returns the kind of failure, because messages may contain hosts and users. */
function describeFailure(error: unknown): string {
  if (isStoreUnavailable(error)) return 'cannot be reached'
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? `has failed with ${code}` : 'has failed'
}
