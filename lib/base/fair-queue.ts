/** A queue of items in groups: first come, first served in a group, round robin between groups. No item is added twice. */
export interface FairQueue<Group, Item extends object> {
  readonly size: number
  /** Counts the items of a group. */
  countOf(group: Group): number
  add(group: Group, item: Item): void
  /**
   * Takes out the oldest item of the next group. The group's next turn comes after the turns of all other groups.
   *
   * @param isReady returns true for a group that may have a turn. Default: every group may
   * @returns undefined if no such group has an item
   */
  shift(isReady?: (group: Group) => boolean): Item | undefined
  /**
   * Takes out the oldest item of the group with most items, to make room.
   *
   * @param atLeast the number of items that the group must have. Default 1
   * @returns undefined if no group has so many
   */
  shiftLongest(atLeast?: number): Item | undefined
  /**
   * Takes out the oldest item of the group with most items, to make room for an item of another group. The group must have at least two
   * more items than the other: with a difference of 1, two groups would displace each other's items forever.
   *
   * @returns undefined if no group has so many
   */
  displace(group: Group): Item | undefined
  /** Takes out an item from any place in the queue. */
  remove(group: Group, item: Item): void
}

/**
 * Creates an empty queue. The queue keeps no group without items, so the number of items bounds the state.
 */
export function createFairQueue<Group, Item extends object>(): FairQueue<Group, Item> {
  /** The groups in the order of their turns, each with the items in the order of arrival. */
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

  function countOf(group: Group): number {
    return groups.get(group)?.size ?? 0
  }

  function shiftLongest(atLeast = 1): Item | undefined {
    let longest: [Group, Set<Item>] | undefined
    for (const entry of groups) {
      if (entry[1].size >= (longest?.[1].size ?? atLeast)) longest = entry
    }
    return longest && takeOldest(...longest)
  }

  return {
    get size() {
      return size
    },
    countOf,
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
        // The round ends with the map.
        if (groups.delete(group)) groups.set(group, items)
        return item
      }
      return undefined
    },
    shiftLongest,
    displace: (group) => shiftLongest(countOf(group) + 2),
    remove(group, item) {
      const items = groups.get(group)
      if (items?.has(item)) take(group, items, item)
    },
  }
}
