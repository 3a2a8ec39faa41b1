import { isStoreUnavailable } from '../base/errors.ts'
import { withDeadline } from '../base/time.ts'
import type { QueueCounts } from '../webhooks/queue-counts.ts'
import type { MetricsStore } from './metrics-options.ts'

/** The store's latest result: the counts, or why there are none. */
export interface QueueReading {
  /** Null without a result, and with option `countQueue: false`. */
  readonly counts: QueueCounts | null
  /** Null with a result. For operators: names no host, user or database. */
  readonly failure: string | null
}

/**
 * Creates the reading of the queue. A single query runs at a time, shared by all callers, and the result is reused for `maxAgeMs`: any
 * number of scrapes and probes cost a single statement.
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
      // A key that does not exist, for a role that may not read deliveries.
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

/** Names the kind of a failure only: a message may name hosts and users. */
function describeFailure(error: unknown): string {
  if (isStoreUnavailable(error)) return 'cannot be reached'
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? `has failed with ${code}` : 'has failed'
}
