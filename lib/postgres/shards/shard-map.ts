import { slotOf } from '../../access/slots.ts'
import { type Entries, isMoving, type OrganizationPlace } from './shard-place.ts'

/** The map of a process: the shard of each slot, and of single organizations, as far as the process was told. Its parts only grow. */
export interface ShardMap {
  /** The shard of each slot; undefined until a shard was asked. */
  slots: readonly string[] | undefined
  /** Adds entries that are newer than those of the map. */
  learn(entries: Entries): void
  /** Number of entries learned: two equal numbers are the same map. */
  learned(): number
  entries(): Iterable<readonly [organizationId: string, place: OrganizationPlace]>
  /** Version of an organization's entry; 0 without one. */
  versionOf(organizationId: string): number
  /** Name of an organization's shard; while the organization moves, of the next one. */
  nameOf(organizationId: string): string | undefined
  /** Names of the shards that may have an API key that carries the slot; undefined for all: an organization of the slot is moving. */
  namesOf(slot: number): ReadonlySet<string> | undefined
}

/** Creates an empty map. */
export function createShardMap(): ShardMap {
  const bySlot = new Map<number, Map<string, OrganizationPlace>>()
  let learned = 0

  const entryOf = (organizationId: string): OrganizationPlace | undefined =>
    bySlot.get(slotOf(organizationId))?.get(organizationId)
  const versionOf = (organizationId: string): number => entryOf(organizationId)?.[1] ?? 0

  const map: ShardMap = {
    slots: undefined,
    learn(entries) {
      for (const [organizationId, place] of Object.entries(entries)) {
        if (place[1] <= versionOf(organizationId)) continue
        const slot = slotOf(organizationId)
        bySlot.set(slot, (bySlot.get(slot) ?? new Map()).set(organizationId, place))
        learned++
      }
    },
    learned: () => learned,
    *entries() {
      for (const ofSlot of bySlot.values()) yield* ofSlot
    },
    versionOf,
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
