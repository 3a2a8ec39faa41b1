/** Reproducible random values. With the same seed, the demo is the same on every machine. */
export interface Random {
  /** Returns a whole number from `min` to `max` (inclusive). */
  between(min: number, max: number): number
  /** Returns `true` with the given probability. */
  chance(probability: number): boolean
  pick<T>(items: readonly [T, ...T[]]): T
  /** Picks one of the outcomes according to their weights. */
  weigh<T>(outcomes: readonly [readonly [T, number], ...(readonly [T, number])[]]): T
  /** Returns the items in random order. */
  shuffle<T>(items: readonly T[]): T[]
}

/** An implementation of mulberry32 with 32 bits of state. Fine for realistic data, but not for anything important. */
export function createRandom(seed: number): Random {
  let state = seed

  function next(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  function between(min: number, max: number): number {
    return min + Math.floor(next() * (max - min + 1))
  }

  return {
    between,
    chance: (probability) => next() < probability,
    pick: (items) => items[between(0, items.length - 1)] ?? items[0],
    weigh(outcomes) {
      let rest = next() * outcomes.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [outcome, weight] of outcomes) {
        rest -= weight
        if (rest < 0) return outcome
      }
      return outcomes[0][0]
    },
    shuffle: (items) =>
      items
        .map((item) => ({ item, place: next() }))
        .sort((a, b) => a.place - b.place)
        .map(({ item }) => item),
  }
}
