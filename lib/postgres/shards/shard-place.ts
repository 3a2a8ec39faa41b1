/** A database's place among an installation's shards. */
export interface ShardPlace {
  /** Name of the shard. */
  readonly name: string
  /** 1, or 0 during the first start until all shards have the map. */
  readonly version: number
  /** The map: the shard name for each slot. Identical on all shards. */
  readonly slots: readonly string[]
}

/** An organization's shard. With an odd version, the organization is moving there and isn't available on any shard. */
export type OrganizationPlace = readonly [name: string, version: number]

/** A place, along with the map's entries for individual organizations. */
export interface StoredPlace extends ShardPlace {
  /** Organizations known to have moved away from their slot's shard. */
  readonly moved: Entries
}

/** Places of organizations, by ID. */
export type Entries = Readonly<Record<string, OrganizationPlace>>

/** Returns `true` if an organization is between two shards. */
export function isMoving([, version]: OrganizationPlace): boolean {
  return version % 2 === 1
}
