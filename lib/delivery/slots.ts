import { readWhole } from '../base/options.ts'

/** Attempt slots shared by the delivery loops of a process. They limit the attempts in flight of all loops together. */
export interface DeliverySlots {
  /** The number of slots. */
  readonly concurrency: number
  /**
   * Adds a running loop, so that a share of the slots is reserved for it.
   *
   * @param used returns the number of slots the loop uses
   * @returns a function that removes the loop
   */
  join(used: () => number): () => void
  /** Returns the number of slots a loop can use. @param used the same function as in `join` */
  free(used: () => number): number
}

/** The part of each loop's equal share that is reserved for it. Any loop with deliveries can use the rest. */
const KEPT_SHARE = 1 / 2

/**
 * Creates slots to be shared by the loops of a process, one loop per shard. Half of the slots are divided equally, so a
 * single shard with a flood of events or slow subscribers can't use all of them.
 *
 * @param concurrency maximum number of attempts in flight across all loops. Defaults to 256
 * @throws `RangeError` if the number is invalid
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
