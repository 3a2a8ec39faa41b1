/** A round-robin queue of groups. Items in the same group are first in, first out. Don't add an item twice. */
export interface FairQueue<Group, Item extends object> {
  readonly size: number
  /** Returns the number of items in a group. */
  countOf(group: Group): number
  add(group: Group, item: Item): void
  /**
   * Removes and returns the next group's oldest item, and moves the group to the back.
   *
   * @param isReady returns `true` if it can be the group's turn. By default, all groups are ready
   * @returns `undefined` if no ready group has an item
   */
  shift(isReady?: (group: Group) => boolean): Item | undefined
  /**
   * Removes and returns the largest group's oldest item to make room.
   *
   * @param atLeast the minimum number of items in the group. Defaults to 1
   * @returns `undefined` if no group has that many items
   */
  shiftLongest(atLeast?: number): Item | undefined
  /**
   * Removes and returns the largest group's oldest item to make room for a new item in `group`. The largest group must
   * have at least two more items than `group`, otherwise two groups could keep displacing each other's items.
   *
   * @returns `undefined` if no group has that many items
   */
  displace(group: Group): Item | undefined
  /** Removes an item from anywhere in the queue. */
  remove(group: Group, item: Item): void
}

/** Creates an empty queue. We remove empty groups, so memory use depends only on the number of items. */
export function createFairQueue<Group, Item extends object>(): FairQueue<Group, Item> {
  /** Groups in turn order, each with its items in insertion order. */
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
        // Move the group to the end of the map, which is the back of the queue.
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
