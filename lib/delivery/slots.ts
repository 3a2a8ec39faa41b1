import { readWhole } from '../base/options.ts'

/** The slots that the delivery loops of a process share: attempts in flight at once, of all loops together. */
export interface DeliverySlots {
  /** The number of slots. */
  readonly concurrency: number
  /**
   * Adds a loop: a share is kept for it while it runs.
   *
   * @param used counts the slots that the loop uses
   * @returns removes the loop
   */
  join(used: () => number): () => void
  /** Counts the slots that are free for a loop. @param used of the loop, as in `join` */
  free(used: () => number): number
}

/** The share of an equal part that is kept for each loop. The rest goes to whichever loop has something to deliver. */
const KEPT_SHARE = 1 / 2

/**
 * Creates slots that the loops of a process share, one loop for each shard. Half of the slots are divided equally, so a shard with a flood or slow
 * subscribers can't take all.
 *
 * @param concurrency maximum number of attempts in flight, of all loops together. Default 256
 * @throws `RangeError` for an invalid number
 * @example
 * ```ts
 * const concurrency = createDeliverySlots(256)
 * for (const shard of sharded.shards) createDeliveryLoop(shard.store, sender, { concurrency }).start()
 * ```
 */
export function createDeliverySlots(concurrency?: number): DeliverySlots {
  const total = readWhole('concurrency', concurrency, 256)
  const loops = new Set<() => number>()
  return {
    concurrency: total,
    join(used) {
      loops.add(used)
      return () => loops.delete(used)
    },
    free(used) {
      const others = [...loops].filter((each) => each !== used)
      const kept = Math.floor((total / (others.length + 1)) * KEPT_SHARE)
      return others.reduce((free, each) => free - Math.max(each(), kept), total - used())
    },
  }
}
