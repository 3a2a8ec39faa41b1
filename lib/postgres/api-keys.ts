import type { Fragment, ISql as Sql } from 'postgres'
import type { ApiKey, ApiKeyStore } from '../api-keys.ts'
import { admit } from './admission.ts'
import type { Database } from './database.ts'
import { isoTimestamp, textArray } from './fragments.ts'

/** API keys, and the admission of requests by them, in PostgreSQL. */
export function createApiKeyStore(database: Database): ApiKeyStore {
  return {
    admit: (request) => admit(database, request),

    async markUsed(organizationId, keyId) {
      await database.row(
        (sql, mark) => sql`
          with used as (
            update business_api.api_keys set last_used_at = now()
            where organization_id = ${organizationId}::text and id = ${keyId}::text
              and (last_used_at is null or last_used_at < now() - interval '1 minute')
            returning 1
          )
          select count(*)::text, ${mark} from used`,
      )
    },

    async insert(organizationId, key) {
      await database.row(
        (sql, mark) => sql`
          with inserted as (
            insert into business_api.api_keys
              (organization_id, id, digest, name, scopes, prefix, last_four, per_second, burst, created_at, expires_at)
            select
              ${organizationId}::text, ${key.id}::text, ${key.digest}::text, ${key.name}::text,
              ${textArray(sql, key.scopes)},
              ${key.prefix}::text, ${key.lastFour}::text,
              ${key.rateLimit?.perSecond ?? null}::float8, ${key.rateLimit?.burst ?? null}::int,
              ${key.createdAt}::text::timestamptz, ${key.expiresAt}::text::timestamptz
            on conflict (organization_id, id) do nothing
            returning 1
          )
          select count(*)::text, ${mark} from inserted`,
      )
    },

    async list(organizationId) {
      const [keys] = await database.row(
        (sql, mark) => sql`
          select coalesce(pg_catalog.json_agg(item), '[]')::text, ${mark} from (
            select ${columns(sql)} from business_api.api_keys
            where organization_id = ${organizationId}::text
            order by id desc
          ) as item`,
      )
      return JSON.parse(keys ?? '[]') as ApiKey[]
    },

    async revoke(organizationId, keyId) {
      const [key] = await database.row(
        (sql, mark) => sql`
          with revoked as (
            update business_api.api_keys set revoked_at = coalesce(revoked_at, now())
            where organization_id = ${organizationId}::text and id = ${keyId}::text
            returning *
          )
          select (select pg_catalog.row_to_json(item)::text from (select ${columns(sql)} from revoked) as item), ${mark}`,
      )
      return JSON.parse(key ?? 'null') as ApiKey | null
    },

    async limitOrganization(organizationId, rateLimit) {
      await database.row((sql, mark) =>
        rateLimit === null
          ? sql`
              with removed as (
                delete from business_api.organization_limits
                where organization_id = ${organizationId}::text returning 1
              )
              select count(*)::text, ${mark} from removed`
          : sql`
              with written as (
                insert into business_api.organization_limits (organization_id, per_second, burst)
                values (${organizationId}::text, ${rateLimit.perSecond}::float8, ${rateLimit.burst}::int)
                on conflict (organization_id)
                do update set per_second = excluded.per_second, burst = excluded.burst
                returning 1
              )
              select count(*)::text, ${mark} from written`,
      )
    },
  }
}

function columns(sql: Sql): Fragment {
  return sql`
    id, name, scopes, prefix, last_four as "lastFour",
    case when burst is not null then pg_catalog.json_build_object('perSecond', per_second, 'burst', burst) end as "rateLimit",
    ${isoTimestamp(sql, 'created_at')} as "createdAt",
    ${isoTimestamp(sql, 'expires_at')} as "expiresAt",
    ${isoTimestamp(sql, 'revoked_at')} as "revokedAt",
    ${isoTimestamp(sql, 'last_used_at')} as "lastUsedAt"`
}
