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
 * Creates slots for the loops of a process, one for each shard of a store: `createDeliveryLoop(shard.store, sender, { concurrency: slots })`.
 * Half of the slots are divided equally, so that a shard with a flood or with slow subscribers does not take all.
 *
 * @param concurrency attempts in flight at once, of all loops. Default 256
 * @throws `RangeError` for a number that cannot be used
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
