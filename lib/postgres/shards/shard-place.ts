import type { RecordDatabase } from '../connection/database.ts'
import { callFor } from '../statements/statement.ts'

/** A database's place among an installation's shards. */
export interface ShardPlace {
  /** The name of the shard. */
  readonly name: string
  /** The version of the map; 0 until the map is on all shards, as the first start begins. */
  readonly version: number
  /** The map: each slot's shard, by name. Equal on all shards, and in all versions. */
  readonly slots: readonly string[]
  /** The names of shards that were added since, and have no slots. */
  readonly added: readonly string[]
}

/** The shard of an organization. An odd version: the organization is moving there, and no shard answers for it. */
export type OrganizationPlace = readonly [name: string, version: number]

/** A place, with the map's entries for single organizations. */
export interface StoredPlace extends ShardPlace {
  /** By organization: every one that has moved away from the shard of its slot, as far as this database was told. */
  readonly moved: Entries
}

/** Places of organizations, by id. */
export type Entries = Readonly<Record<string, OrganizationPlace>>

/** Returns whether an organization is between two shards. */
export function isMoving([, version]: OrganizationPlace): boolean {
  return version % 2 === 1
}

/**
 * Reads the place of a database.
 *
 * @param first the place that a database without one, or with an earlier version, gets. Default null: it gets none
 * @param told entries that the database gets, of organizations on other shards
 * @returns null for a database without a place
 */
export function readShardPlace(
  database: RecordDatabase,
  first: ShardPlace | null = null,
  told: Entries = {},
): Promise<StoredPlace | null> {
  return callFor(database, null, 'shard_place(jsonb, jsonb)', JSON.stringify(first), JSON.stringify(told))
}
