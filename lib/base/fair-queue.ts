/** Items that wait: first come, first served within a group, round robin between the groups. Every item is in it once. */
export interface FairQueue<Group, Item extends object> {
  readonly size: number
  /** Counts the items of a group. */
  countOf(group: Group): number
  add(group: Group, item: Item): void
  /**
   * Takes out the oldest item of the next group, which goes behind all other groups.
   *
   * @param isReady passes over a group. Default: none is passed over
   * @returns undefined when no group that is ready has an item
   */
  shift(isReady?: (group: Group) => boolean): Item | undefined
  /**
   * Takes out the oldest item of the group with most items, to make room.
   *
   * @param atLeast how many items that group must have. Default 1
   * @returns undefined when no group has so many
   */
  shiftLongest(atLeast?: number): Item | undefined
  /** Takes out an item wherever it stands. */
  remove(group: Group, item: Item): void
}

/**
 * Creates an empty queue. A group exists while it has items, so that the state is bounded by the number of items, however
 * many groups there are.
 */
export function createFairQueue<Group, Item extends object>(): FairQueue<Group, Item> {
  /** In the order of their turns; the items of each in the order in which they came. */
  const groups = new Map<Group, Set<Item>>()
  let size = 0

  function take(group: Group, items: Set<Item>, item: Item): void {
    items.delete(item)
    size--
    if (items.size === 0) groups.delete(group)
  }

  function takeOldest(group: Group, items: Set<Item>): Item | undefined {
    const [oldest] = items
    if (oldest) take(group, items, oldest)
    return oldest
  }

  return {
    get size() {
      return size
    },
    countOf: (group) => groups.get(group)?.size ?? 0,
    add(group, item) {
      const items = groups.get(group) ?? new Set()
      items.add(item)
      groups.set(group, items)
      size++
    },
    shift(isReady = () => true) {
      for (const [group, items] of groups) {
        if (!isReady(group)) continue
        const item = takeOldest(group, items)
        // Its next turn comes after those of all others.
        if (groups.delete(group)) groups.set(group, items)
        return item
      }
      return undefined
    },
    shiftLongest(atLeast = 1) {
      let longest: [Group, Set<Item>] | undefined
      for (const entry of groups) {
        if (entry[1].size >= (longest?.[1].size ?? atLeast)) longest = entry
      }
      return longest && takeOldest(...longest)
    },
    remove(group, item) {
      const items = groups.get(group)
      if (items?.has(item)) take(group, items, item)
    },
  }
}
