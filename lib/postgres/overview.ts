import { OVERVIEW_COUNT_MAX, type Overview, type OverviewStore } from '../webhooks/overview.ts'
import { apiKeyColumns } from './api-keys.ts'
import type { Database } from './connection/database.ts'
import { columns as endpointColumns } from './statements/endpoints.ts'

/** Creates the slice of the overview in PostgreSQL. */
export function createOverviewStore(database: Database): OverviewStore {
  return {
    async read(organizationId, { keysWithinMs, failedWithinMs, limit }) {
      // Failed deliveries are counted endpoint by endpoint along finished_deliveries_state_idx, from the first id of the period on. The
      // index has no column for time, but an id begins with the time of creation.
      const [overview] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with keys as materialized (
            select * from business_api.api_keys where organization_id = ${organizationId}::text
          ), in_force as (
            select * from keys
            where revoked_at is null and (expires_at is null or expires_at > now())
          ), endpoints as materialized (
            select * from business_api.webhook_endpoints
            where organization_id = ${organizationId}::text and state <> 'removed'
          ), period as (
            -- The first ten digits of a ULID are its milliseconds since 1970 in Crockford's base 32.
            select 'dlv_' || string_agg(
              substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((ms >> (5 * place)) & 31)::int + 1, 1), '' order by place desc
            ) as first_id
            from generate_series(0, 9) as place,
              (select (extract(epoch from now()) * 1000 - ${failedWithinMs}::float8)::bigint as ms) as beginning
          ), failed as (
            select 1
            from endpoints
            cross join lateral (
              select 1 from business_api.finished_deliveries delivery
              where delivery.organization_id = ${organizationId}::text
                and delivery.endpoint_id = endpoints.id
                and delivery.state in ('delivered', 'failed', 'skipped', 'cancelled')
                and delivery.state = 'failed'
                and delivery.id >= (select first_id from period)
              limit ${OVERVIEW_COUNT_MAX}::int
            ) as found
            limit ${OVERVIEW_COUNT_MAX}::int
          )
          select
            pg_catalog.json_build_object(
              'hasApiKey', exists (select 1 from in_force),
              'hasUsedApiKey', exists (select 1 from keys where last_used_at is not null),
              'hasEndpoint', exists (select 1 from endpoints),
              'troubledEndpoints', (
                select coalesce(pg_catalog.json_agg(item), '[]') from (
                  select ${endpointColumns(sql)} from endpoints
                  where state = 'disabled' or failures > 0
                  order by id desc
                  limit ${limit}::int
                ) as item
              ),
              'expiringApiKeys', (
                select coalesce(pg_catalog.json_agg(item), '[]') from (
                  select ${apiKeyColumns(sql)} from in_force
                  where successor_id is null and expires_at <= now() + ${keysWithinMs}::float8 * interval '1 ms'
                  order by in_force.expires_at
                  limit ${limit}::int
                ) as item
              ),
              'failedDeliveries', (select count(*) from failed)
            )::text,
            ${answerTag}`,
      )
      return JSON.parse(overview ?? 'null') as Overview
    },
  }
}
