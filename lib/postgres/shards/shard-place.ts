import type { RecordDatabase } from '../connection/database.ts'

/** The place of a database among the shards of an installation. */
export interface ShardPlace {
  /** The name of the shard. */
  readonly name: string
  /** The version of the map; 0 until the map is on all shards, as the first start begins. */
  readonly version: number
  /** The map: the name of the shard of each slot. Equal on all shards. */
  readonly slots: readonly string[]
}

/**
 * Reads the place of a database.
 *
 * @param first the place that a database without one, or with an earlier version, gets. Default null: it gets none
 * @returns null for a database without a place
 */
export async function readShardPlace(
  database: RecordDatabase,
  first: ShardPlace | null = null,
): Promise<ShardPlace | null> {
  const [place] = await database.rowFor(
    null,
    (sql, answerTag) =>
      sql`select business_api.shard_place(${JSON.stringify(first)}::text::jsonb)::text, ${answerTag}`,
  )
  return JSON.parse(place ?? 'null')
}
