import type { NoticeStore } from '../webhooks/notices.ts'
import type { Database } from './connection/database.ts'
import { isoTimestamp } from './statements/fragments.ts'
import { isNotElsewhere } from './statements/here.ts'
import { askJson } from './statements/statement.ts'

/** Creates the PostgreSQL store for notices about expiring secrets and keys. */
export function createNoticeStore(database: Database): NoticeStore {
  return {
    // Rows claimed with the same token come first, so a retry finds all of them within the limit. Rows that another
    // transaction has locked are left for the next call.
    claimExpiring: ({ token, secretsWithinMs, apiKeysWithinMs, limit }) =>
      askJson(
        database,
        null,
        (sql, answerTag) => sql`
          with expiring_secret as (
            select organization_id, id from business_api.webhook_endpoints
            where previous_secret_expires_at > now() and ${isNotElsewhere(sql, 'webhook_endpoints')}
              and previous_secret_expires_at <= now() + ${secretsWithinMs}::float8 * interval '1 millisecond'
              and state <> 'removed'
              and (
                secret_expiry_noticed is distinct from previous_secret_expires_at
                or secret_expiry_noticed_by = ${token}::text
              )
            order by secret_expiry_noticed_by is distinct from ${token}::text, previous_secret_expires_at
            limit ${limit}::int
            for no key update skip locked
          ), noticed_secret as (
            update business_api.webhook_endpoints endpoint
            set secret_expiry_noticed = previous_secret_expires_at, secret_expiry_noticed_by = ${token}::text
            from expiring_secret expiring
            where endpoint.organization_id = expiring.organization_id and endpoint.id = expiring.id
            returning endpoint.organization_id, endpoint.id, endpoint.previous_secret_expires_at as expires_at
          ), expiring_key as (
            select organization_id, id from business_api.api_keys
            where expires_at > now() and ${isNotElsewhere(sql, 'api_keys')}
              and expires_at <= now() + ${apiKeysWithinMs}::float8 * interval '1 millisecond'
              and revoked_at is null and successor_id is null
              and (expiry_noticed is distinct from expires_at or expiry_noticed_by = ${token}::text)
            order by expiry_noticed_by is distinct from ${token}::text, expires_at
            limit ${limit}::int
            for no key update skip locked
          ), noticed_key as (
            update business_api.api_keys key
            set expiry_noticed = expires_at, expiry_noticed_by = ${token}::text
            from expiring_key expiring
            where key.organization_id = expiring.organization_id and key.id = expiring.id
            returning key.organization_id, key.id, key.name, key.expires_at
          ), erased_secret as materialized (
            select business_api.erase_ended_secrets(${limit}::int) as erased
          ), notice as (
            select expires_at, pg_catalog.json_build_object(
              'kind', 'secret_expiring', 'organizationId', organization_id, 'endpointId', id,
              'expiresAt', ${isoTimestamp(sql, 'expires_at')}
            ) as item
            from noticed_secret
            union all
            select expires_at, pg_catalog.json_build_object(
              'kind', 'api_key_expiring', 'organizationId', organization_id, 'keyId', id, 'name', name,
              'expiresAt', ${isoTimestamp(sql, 'expires_at')}
            )
            from noticed_key
          )
          select
            coalesce((select pg_catalog.json_agg(item order by expires_at) from notice), '[]')::text,
            ${answerTag}
          from erased_secret where erased >= 0`,
      ),
  }
}
