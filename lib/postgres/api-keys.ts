import type { Fragment, ISql as Sql } from 'postgres'
import type { ApiKey, ApiKeyStore } from '../access/api-keys.ts'
import type { Admissions } from './admission/admission.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { Database } from './connection/database.ts'
import { ownersOf, readShardKeys } from './shards/shard-keys.ts'
import { isoTimestamp } from './statements/fragments.ts'
import { askJson, jsonFor, listOf } from './statements/statement.ts'

/** Creates the PostgreSQL store for API keys, which also admits requests. */
export function createApiKeyStore(database: Database, admissions: Admissions): ApiKeyStore {
  return {
    async identify(digests) {
      const { keys } = await readShardKeys(database, digests)
      return ownersOf(keys)
    },

    admit: admissions.admit,

    async markUsed(organizationId, keyId) {
      await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with used as (
            update business_api.api_keys set last_used_at = now()
            where organization_id = ${organizationId}::text and id = ${keyId}::text
              and (last_used_at is null or last_used_at < now() - interval '1 minute')
            returning 1
          )
          select count(*)::text, ${answerTag} from used`,
      )
    },

    async insert({ organizationId, key, limit, entry }) {
      const [item, digest] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with inserted as (
            select * from business_api.insert_api_key(
              ${organizationId}::text, ${JSON.stringify(key)}::text::jsonb, ${limit}::int
            )
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`inserted where is_new`)}
          ), present as (
            select (key).* from inserted
          )
          select ${one(sql, sql`present`)}::text, (select digest from present), ${answerTag}`,
      )
      if (!item) return { outcome: 'limit_reached' }
      if (digest === null) return { outcome: 'already_exists', item: null }
      return {
        outcome: digest === key.digest ? 'inserted' : 'already_exists',
        item: JSON.parse(item) as ApiKey,
      }
    },

    get: (organizationId, keyId) =>
      jsonFor(database, organizationId, (sql) => {
        const key = sql`business_api.api_keys where organization_id = ${organizationId}::text and id = ${keyId}::text`
        return sql`${one(sql, key)}::text`
      }),

    list: (organizationId) =>
      jsonFor(database, organizationId, (sql) => {
        const keys = sql`
          select ${apiKeyColumns(sql)} from business_api.api_keys
          where organization_id = ${organizationId}::text
          order by id desc`
        return listOf(sql, keys)
      }),

    update: ({ organizationId, keyId, name, replaces, entry }) =>
      askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with before as (
            select * from business_api.api_keys
            where organization_id = ${organizationId}::text and id = ${keyId}::text
            for no key update
          ), seen as (
            select organization_id, id, ${isRecorded(sql, organizationId, entry)} as is_recorded from before
          ), renamed as (
            update business_api.api_keys key set name = ${name}::text from seen
            where key.organization_id = ${organizationId}::text and key.id = seen.id
              and not seen.is_recorded and key.name <> ${name}::text
              and key.name = coalesce(${replaces ?? null}::text, key.name)
            returning key.*
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`renamed`)}
          )
          select coalesce(${one(sql, sql`renamed`)}, ${one(sql, sql`before`)})::text, ${answerTag}`,
      ),

    revoke: ({ organizationId, keyId, entry }) =>
      askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with before as (
            select organization_id, id, revoked_at, coalesce(revoked_at, now()) as ended_at from business_api.api_keys
            where organization_id = ${organizationId}::text and id = ${keyId}::text
            for no key update
          ), revoked as (
            update business_api.api_keys key set revoked_at = before.ended_at from before
            where key.organization_id = ${organizationId}::text and key.id = before.id
            returning key.*
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`before where revoked_at is null`)}
          )
          select ${one(sql, sql`revoked`)}::text, ${answerTag}`,
      ),

    rotate: ({ organizationId, keyId, successor, overlapMs, limit, entry }) =>
      askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with rotated as (
            select * from business_api.rotate_api_key(
              ${organizationId}::text, ${keyId}::text, ${JSON.stringify(successor)}::text::jsonb, ${overlapMs}::float8,
              ${limit}::int
            )
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`rotated where is_new`)}
          )
          select
            (
              select pg_catalog.json_build_object(
                'outcome', outcome,
                'previous', ${one(sql, sql`(select (rotated.previous).*) as present`)},
                'key', ${one(sql, sql`(select (rotated.key).*) as present where id is not null`)}
              )::text
              from rotated
            ),
            ${answerTag}`,
      ),

    async limitOrganization({ organizationId, rateLimit, entry }) {
      await database.rowFor(organizationId, (sql, answerTag) =>
        rateLimit === null
          ? sql`
              with seen as materialized (
                select ${isRecorded(sql, organizationId, entry)} as is_recorded
              ), removed as (
                delete from business_api.organization_limits
                where organization_id = ${organizationId}::text and not (select is_recorded from seen)
                returning 1
              ), filled as (
                update business_api.rate_buckets set full_at = 0
                where organization_id = ${organizationId}::text and bucket = 'organization' and exists (select 1 from removed)
              ), audited as (
                ${recordEntry(sql, organizationId, entry, sql`removed`)}
              )
              select count(*)::text, ${answerTag} from removed`
          : sql`
              with written as (
                insert into business_api.organization_limits as present (organization_id, per_second, burst)
                select ${organizationId}::text, ${rateLimit.perSecond}::float8, ${rateLimit.burst}::int
                where not ${isRecorded(sql, organizationId, entry)}
                on conflict (organization_id) do update set per_second = excluded.per_second, burst = excluded.burst
                where (present.per_second, present.burst) <> (excluded.per_second, excluded.burst)
                returning 1
              ), audited as (
                ${recordEntry(sql, organizationId, entry, sql`written`)}
              )
              select count(*)::text, ${answerTag} from written`,
      )
    },

    readResets: (organizationId) =>
      jsonFor(
        database,
        organizationId,
        (sql) => sql`(
          select coalesce(
            pg_catalog.json_object_agg(bucket, (full_at - extract(epoch from clock_timestamp())) * 1000), '{}'
          )::text
          from business_api.rate_buckets
          where organization_id = ${organizationId}::text and bucket <> 'organization'
            and full_at > extract(epoch from clock_timestamp())
        )`,
      ),

    getOrganizationLimit: (organizationId) =>
      jsonFor(
        database,
        organizationId,
        (sql) => sql`(
          select pg_catalog.json_build_object('perSecond', per_second, 'burst', burst)::text
          from business_api.organization_limits where organization_id = ${organizationId}::text
        )`,
      ),
  }
}

/** Builds the JSON of the key in the only row of `from`, or null if there's no row. */
function one(sql: Sql, from: Fragment): Fragment {
  return sql`(select pg_catalog.row_to_json(item) from (select ${apiKeyColumns(sql)} from ${from}) as item)`
}

/** Builds the key columns that administrators can see. */
export function apiKeyColumns(sql: Sql): Fragment {
  return sql`
    id, name, scopes, prefix, last_four as "lastFour",
    case when burst is not null then pg_catalog.json_build_object('perSecond', per_second, 'burst', burst) end as "rateLimit",
    ${isoTimestamp(sql, 'created_at')} as "createdAt",
    ${isoTimestamp(sql, 'expires_at')} as "expiresAt",
    ${isoTimestamp(sql, 'revoked_at')} as "revokedAt",
    successor_id as "successorId",
    ${isoTimestamp(sql, 'last_used_at')} as "lastUsedAt"`
}
