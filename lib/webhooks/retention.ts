import type { DeliveryStore } from '../deliveries.ts'
import type { Chore } from './chores.ts'

/** Rows of each kind that one part forgets at most. */
const PURGE_LIMIT = 1000

/** Longer than anybody keeps anything. */
const FOR_EVER_MS = 1000 * 365 * 24 * 60 * 60 * 1000

/**
 * Forgets what is old, a little at a time.
 *
 * @param retentionMs of events; `false` keeps them, and lets go of expired idempotency keys only
 */
export function createPurge(store: Pick<DeliveryStore, 'purge'>, retentionMs: number | false): Chore {
  const eventsAfterMs = retentionMs === false ? FOR_EVER_MS : retentionMs
  return async () => {
    const { events, idempotencyKeys } = await store.purge({ eventsAfterMs, limit: PURGE_LIMIT })
    return events < PURGE_LIMIT && idempotencyKeys < PURGE_LIMIT
  }
}
