import { readWhole } from '../base/options.ts'

/** Attempt slots shared by a process's delivery loops. They limit the total number of in-flight attempts. */
export interface DeliverySlots {
  /** The number of slots. */
  readonly concurrency: number
  /**
   * Adds a running loop and reserves a share of the slots for it.
   *
   * @param used returns the number of slots the loop uses
   * @returns a function that removes the loop
   */
  join(used: () => number): () => void
  /** Returns the number of slots a loop can use. @param used the function passed to `join` */
  free(used: () => number): number
}

/** The part of each loop's equal share that is reserved for it. The rest is first come, first served. */
const KEPT_SHARE = 1 / 2

/**
 * Creates slots that a process's loops share, one loop per shard. Half of the slots are divided equally, so a single
 * shard with a flood of events or slow subscribers can't use them all.
 *
 * @param concurrency maximum number of in-flight attempts across all loops. Defaults to 256
 * @throws `RangeError` if `concurrency` is invalid
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
