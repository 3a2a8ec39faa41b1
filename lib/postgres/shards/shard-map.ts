import { slotOf } from '../../access/slots.ts'
import { type Entries, isMoving, type OrganizationPlace } from './shard-place.ts'

/**
 * A process's shard map, with the shard of each slot and of individual organizations, as far as the process has been
 * told. Entries are never removed.
 */
export interface ShardMap {
  /** The shard of each slot. `undefined` until a shard has been queried. */
  slots: readonly string[] | undefined
  /** Adds entries that are newer than the existing ones. */
  learn(entries: Entries): void
  /** Number of entries learned so far. As long as this stays the same, so does the map. */
  learned(): number
  entries(): Iterable<readonly [organizationId: string, place: OrganizationPlace]>
  /** Name of an organization's shard, or of the next one while it's moving. */
  nameOf(organizationId: string): string | undefined
  /** Names of the shards that may have keys with this slot. `undefined` means all, because of a move in progress. */
  namesOf(slot: number): ReadonlySet<string> | undefined
}

/** Creates an empty map. */
export function createShardMap(): ShardMap {
  const bySlot = new Map<number, Map<string, OrganizationPlace>>()
  let learned = 0

  const entryOf = (organizationId: string): OrganizationPlace | undefined =>
    bySlot.get(slotOf(organizationId))?.get(organizationId)

  const map: ShardMap = {
    slots: undefined,
    learn(entries) {
      for (const [organizationId, place] of Object.entries(entries)) {
        if (place[1] <= (entryOf(organizationId)?.[1] ?? 0)) continue
        const slot = slotOf(organizationId)
        bySlot.set(slot, (bySlot.get(slot) ?? new Map()).set(organizationId, place))
        learned++
      }
    },
    learned: () => learned,
    *entries() {
      for (const ofSlot of bySlot.values()) yield* ofSlot
    },
    nameOf: (organizationId) => entryOf(organizationId)?.[0] ?? map.slots?.[slotOf(organizationId)],
    namesOf(slot) {
      const places = [...(bySlot.get(slot)?.values() ?? [])]
      return places.some(isMoving)
        ? undefined
        : new Set([map.slots?.[slot] ?? '', ...places.map(([name]) => name)])
    },
  }
  return map
}
