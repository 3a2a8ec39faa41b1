import type { ExpiryNotice, ExpiryRequest } from '../../webhooks/notices.ts'
import type { Database } from '../connection/database.ts'
import { groupByOrganization } from './each-organization.ts'

/**
 * Claims the notices of expiries on a distributed database: a look at the secrets of all organizations without locks, and then a
 * claim of each organization by itself. Keys are on every node.
 */
export async function claimExpiringOnNodes(
  database: Database,
  { token, secretsWithinMs, apiKeysWithinMs, limit }: ExpiryRequest,
): Promise<readonly ExpiryNotice[]> {
  const [found, keys] = await Promise.all([
    database.row(
      (sql, answerTag) => sql`
        with expiring_secret as (
          select organization_id, id, previous_secret_expires_at from business_api.webhook_endpoints
          where previous_secret_expires_at > now()
            and previous_secret_expires_at <= now() + ${secretsWithinMs}::float8 * interval '1 millisecond'
            and state <> 'removed'
            and (
              secret_expiry_noticed is distinct from previous_secret_expires_at
              or secret_expiry_noticed_by = ${token}::text
            )
          order by secret_expiry_noticed_by is distinct from ${token}::text, previous_secret_expires_at
          limit ${limit}::int
        )
        select
          coalesce(pg_catalog.json_agg(
            pg_catalog.json_build_object('organizationId', organization_id, 'id', id) order by previous_secret_expires_at
          ), '[]')::text,
          ${answerTag}
        from expiring_secret`,
    ),
    database.row(
      (sql, answerTag) => sql`
        select
          business_api.notice_keys(${token}::text, ${apiKeysWithinMs}::float8, ${limit}::int), ${answerTag}`,
    ),
  ])
  const endpoints = JSON.parse(found[0] ?? '[]') as { organizationId: string; id: string }[]
  const notices = JSON.parse(keys[0] ?? '[]') as ExpiryNotice[]
  for (const { organizationId, own } of groupByOrganization(endpoints)) {
    const [answer] = await database.row(
      (sql, answerTag) => sql`
        select answer, ${answerTag}
        from business_api.notice_secrets_of(
          ${organizationId}::text, ${token}::text, ${secretsWithinMs}::float8,
          ${JSON.stringify(own.map(({ id }) => id))}::text::jsonb
        ) as answer`,
    )
    notices.push(...(JSON.parse(answer ?? '[]') as ExpiryNotice[]))
  }
  return notices.sort((a, b) => Date.parse(a.expiresAt) - Date.parse(b.expiresAt))
}
