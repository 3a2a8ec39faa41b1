import type { DeliveryStore } from '../webhooks/deliveries.ts'
import type { MaintenanceTask } from './maintenance.ts'

/** Rows of each kind in one part of a purge. */
const PURGE_LIMIT = 1000

/** 1,000 years: longer than any host keeps events. */
const FOREVER_MS = 1000 * 365 * 24 * 60 * 60 * 1000

/**
 * Creates the task that purges old events and expired idempotency keys, part by part.
 *
 * @param retentionMs age of the events to purge in milliseconds; `false` keeps every event and purges expired idempotency
 *   keys only
 */
export function createPurge(
  store: Pick<DeliveryStore, 'purge'>,
  retentionMs: number | false,
): MaintenanceTask {
  const eventsAfterMs = retentionMs === false ? FOREVER_MS : retentionMs
  return async () => {
    const { events, idempotencyKeys } = await store.purge({ eventsAfterMs, limit: PURGE_LIMIT })
    return events < PURGE_LIMIT && idempotencyKeys < PURGE_LIMIT
  }
}
