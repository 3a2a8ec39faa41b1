import type { RecordDatabase } from '../connection/database.ts'
import { callFor } from '../statements/statement.ts'

/** A database's place among the shards of an installation. */
export interface ShardPlace {
  /** Name of the shard. */
  readonly name: string
  /** Version of the map. 0 during the first start, until all shards have it. */
  readonly version: number
  /** The map, which is the name of the shard for each slot. It's the same on all shards and in all versions. */
  readonly slots: readonly string[]
  /** Names of shards that were added later and have no slots. */
  readonly added: readonly string[]
}

/**
 * The shard of an organization. If the version is odd, the organization is moving there and isn't available
 * on any shard.
 */
export type OrganizationPlace = readonly [name: string, version: number]

/** A place, along with the map's entries for individual organizations. */
export interface StoredPlace extends ShardPlace {
  /** All organizations that have moved away from their slot's shard, as far as this database knows. */
  readonly moved: Entries
}

/** Places of organizations, by ID. */
export type Entries = Readonly<Record<string, OrganizationPlace>>

/** Returns `true` if an organization is between two shards. */
export function isMoving([, version]: OrganizationPlace): boolean {
  return version % 2 === 1
}

/**
 * Reads the place of a database.
 *
 * @param first the place to assign if the database has none or an earlier version. Defaults to `null`,
 *   which assigns none
 * @param told entries of organizations on other shards to store in the database
 * @returns `null` if the database has no place
 */
export function readShardPlace(
  database: RecordDatabase,
  first: ShardPlace | null = null,
  told: Entries = {},
): Promise<StoredPlace | null> {
  return callFor(database, null, 'shard_place(jsonb, jsonb)', JSON.stringify(first), JSON.stringify(told))
}
