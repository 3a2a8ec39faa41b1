import type { DeliveryStore } from '../deliveries.ts'
import type { Alarm } from './alarm.ts'

/** Rows of each kind that one statement forgets at most. */
const PURGE_LIMIT = 1000
const PURGE_EVERY_MS = 60_000
/** Between two parts of a long purge: the deliveries go first. */
const PURGE_PAUSE_MS = 250

/** Longer than anybody keeps anything. */
const FOR_EVER_MS = 1000 * 365 * 24 * 60 * 60 * 1000

/**
 * Forgets what is old, a little at a time, until it is told to end.
 *
 * @param retentionMs of events; `false` keeps them, and lets go of expired idempotency keys only
 * @param alarm rung to end
 */
export async function keepPurging(
  store: Pick<DeliveryStore, 'purge'>,
  retentionMs: number | false,
  alarm: Alarm,
  isEnded: () => boolean,
  onError: (error: unknown) => void,
): Promise<void> {
  while (!isEnded()) {
    const isDone = await purgeSome(store, retentionMs).catch((error) => {
      onError(error)
      return true
    })
    if (!isEnded()) await alarm.wait(isDone ? PURGE_EVERY_MS : PURGE_PAUSE_MS)
  }
}

/** Forgets a part of what is old. @returns whether nothing is left to forget */
export async function purgeSome(
  store: Pick<DeliveryStore, 'purge'>,
  retentionMs: number | false,
): Promise<boolean> {
  const eventsAfterMs = retentionMs === false ? FOR_EVER_MS : retentionMs
  const { events, idempotencyKeys } = await store.purge({ eventsAfterMs, limit: PURGE_LIMIT })
  return events < PURGE_LIMIT && idempotencyKeys < PURGE_LIMIT
}
