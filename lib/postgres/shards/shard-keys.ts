import type { Database } from '../connection/database.ts'
import { textArray } from '../statements/fragments.ts'
import { askJson } from '../statements/statement.ts'
import type { Entries } from './shard-place.ts'

/** A database's information about some API keys. */
export interface ShardKeys {
  /** Keys of organizations on this database, including those that are moving away. */
  readonly keys: readonly {
    readonly digest: string
    readonly organizationId: string
    readonly isActive: boolean
  }[]
  /** Map entries for organizations in the requested slots and for the owners of the requested keys. */
  readonly moved: Entries
}

/** The connection share for key lookups, since a key's organization isn't known yet. */
const IDENTIFICATION = Symbol('identification of API keys')

/** Finds keys by digest, and map entries by the slots encoded in keys. */
export function readShardKeys(
  database: Database,
  digests: readonly string[],
  slots: readonly number[] = [],
): Promise<ShardKeys> {
  return askJson(
    database,
    IDENTIFICATION,
    (sql, answerTag) => sql`
      with key as (
        select digest, organization_id, (revoked_at is null or revoked_at > now()) and (expires_at is null or expires_at > now()) as is_active
        from business_api.api_keys
        where digest = any (${textArray(sql, digests)})
      ), entry as (
        select distinct on (organization_id) organization_id, name, version, not is_here and version % 2 = 0 as has_left
        from business_api.shard_places
        where organization_id <> '' and (
          slot = any (${`{${slots.join()}}`}::text::int[]) or organization_id = any (array(select organization_id from key))
        )
        order by organization_id, version desc
      )
      select
        pg_catalog.json_build_object(
          'keys', (
            select coalesce(
              pg_catalog.json_agg(pg_catalog.json_build_object('digest', digest, 'organizationId', organization_id, 'isActive', is_active)), '[]'
            )
            from key left join entry using (organization_id) where has_left is not true
          ),
          'moved', (select coalesce(pg_catalog.json_object_agg(organization_id, pg_catalog.json_build_array(name, version)), '{}') from entry)
        )::text,
        ${answerTag}`,
  )
}

/** Returns the organizations of active keys, by digest. */
export function ownersOf(keys: ShardKeys['keys']): ReadonlyMap<string, string> {
  const inForce = keys.filter(({ isActive }) => isActive)
  return new Map(inForce.map(({ digest, organizationId }) => [digest, organizationId]))
}
