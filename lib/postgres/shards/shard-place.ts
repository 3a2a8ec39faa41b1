import type { RecordDatabase } from '../connection/database.ts'
import type { PostgresTransaction } from '../connection/transaction.ts'
import type { SqlTransaction } from '../drivers/sql-transaction.ts'

/** The place of a database among the shards of an installation. */
export interface ShardPlace {
  /** The name of the shard. */
  readonly name: string
  /** The version of the map, from 1. */
  readonly version: number
  /** The map: the name of the shard of each slot. Equal on all shards. */
  readonly slots: readonly string[]
}

/** Reads and writes the place of a database. */
export interface ShardPlaces {
  /**
   * Reads the place.
   *
   * @param transaction the transaction of the host whose database is asked. Default: the store's own connections
   * @returns null for a database without a place
   */
  read(transaction?: PostgresTransaction | SqlTransaction): Promise<ShardPlace | null>
  /** Writes the place, unless the database has one. */
  write(place: ShardPlace): Promise<void>
}

/** Creates the reading and writing of the place, the row of business_api.shard_places. */
export function createShardPlaces(
  database: RecordDatabase,
  inTransaction: (transaction: PostgresTransaction | SqlTransaction) => RecordDatabase,
): ShardPlaces {
  return {
    async read(transaction) {
      const [place] = await (transaction ? inTransaction(transaction) : database).rowFor(
        null,
        (sql, answerTag) => sql`
          select
            (select pg_catalog.json_build_object('name', name, 'version', version, 'slots', slots)
               from business_api.shard_places)::text,
            ${answerTag}`,
      )
      return JSON.parse(place ?? 'null')
    },

    async write({ name, version, slots }) {
      await database.rowFor(
        null,
        (sql, answerTag) => sql`
          with written as (
            insert into business_api.shard_places (name, version, slots)
            select ${name}::text, ${version}::bigint, array(
              select slot from pg_catalog.jsonb_array_elements_text(${JSON.stringify(slots)}::text::jsonb)
                with ordinality as given (slot, number) order by number
            )
            on conflict (organization_id) do nothing
            returning 1
          )
          select (select count(*) from written)::text, ${answerTag}`,
      )
    },
  }
}
