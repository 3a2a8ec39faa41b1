import type { Fragment, ISql as Sql } from 'postgres'
import type { EndpointStore, WebhookEndpoint } from '../endpoints.ts'
import type { Database } from './database.ts'
import { isoTimestamp, textArray } from './fragments.ts'

/** Webhook endpoints in PostgreSQL. */
export function createEndpointStore(database: Database): EndpointStore {
  return {
    async insert(organizationId, endpoint) {
      await database.row(
        (sql, mark) => sql`
          with inserted as (
            insert into business_api.webhook_endpoints
              (organization_id, id, url, description, types, headers, state, sealed_secret, created_at)
            select
              ${organizationId}::text, ${endpoint.id}::text, ${endpoint.url}::text, ${endpoint.description}::text,
              ${textArray(sql, endpoint.types)}, ${JSON.stringify(endpoint.headers)}::text::jsonb, 'enabled',
              ${endpoint.sealedSecret}::text, ${endpoint.createdAt}::text::timestamptz
            on conflict (organization_id, id) do nothing
            returning 1
          )
          select count(*)::text, ${mark} from inserted`,
      )
    },

    async list(organizationId) {
      const [endpoints] = await database.row(
        (sql, mark) => sql`
          select coalesce(pg_catalog.json_agg(item), '[]')::text, ${mark} from (
            select ${columns(sql)} from business_api.webhook_endpoints
            where organization_id = ${organizationId}::text and state <> 'removed'
            order by id desc
          ) as item`,
      )
      return JSON.parse(endpoints ?? '[]') as WebhookEndpoint[]
    },

    update(organizationId, endpointId, { url, description, types, headers }) {
      return change(
        database,
        (sql) => sql`
          update business_api.webhook_endpoints set
            url = ${url === undefined ? sql`url` : sql`${url}::text`},
            description = ${description === undefined ? sql`description` : sql`${description}::text`},
            types = ${types === undefined ? sql`types` : textArray(sql, types)},
            headers = ${headers === undefined ? sql`headers` : sql`${JSON.stringify(headers)}::text::jsonb`}
          where ${isEndpoint(sql, organizationId, endpointId)}
          returning *`,
      )
    },

    async setState(organizationId, endpointId, state, from) {
      const [endpoint] = await database.row(
        (sql, mark) => sql`
          with moved as (
            update business_api.webhook_endpoints set
              state = ${state}::text,
              disabled_reason = ${state === 'disabled' ? 'administrator' : null}::text,
              failures = ${state === 'enabled' ? sql`0` : sql`failures`},
              failing_since = ${state === 'enabled' ? sql`null` : sql`failing_since`}
            where ${isEndpoint(sql, organizationId, endpointId)}
              and state = any (${textArray(sql, from)}) and state <> ${state}::text
            returning *
          ), present as (
            select * from moved
            union all
            select * from business_api.webhook_endpoints
            where ${isEndpoint(sql, organizationId, endpointId)} and not exists (select from moved)
          )
          select (select pg_catalog.row_to_json(item)::text from (select ${columns(sql)} from present) as item), ${mark}`,
      )
      // What has been waiting for it may be due.
      if (state === 'enabled' && endpoint) database.due.announce()
      return JSON.parse(endpoint ?? 'null') as WebhookEndpoint | null
    },

    async remove(organizationId, endpointId) {
      const [removed] = await database.row(
        (sql, mark) => sql`
          with removed as (
            update business_api.webhook_endpoints set
              state = 'removed', sealed_secret = null, previous_sealed_secret = null, headers = '{}'
            where ${isEndpoint(sql, organizationId, endpointId)}
            returning 1
          )
          select count(*)::text, ${mark} from removed`,
      )
      return removed === '1'
    },

    rotateSecret(organizationId, endpointId, sealedSecret, overlapMs) {
      return change(database, (sql) => {
        const isNew = sql`sealed_secret <> ${sealedSecret}::text`
        const overlap = sql`${overlapMs}::float8 * interval '1 millisecond'`
        return sql`
          update business_api.webhook_endpoints set
            previous_sealed_secret = case
              when ${isNew} then ${overlapMs === 0 ? sql`null` : sql`sealed_secret`}
              else previous_sealed_secret
            end,
            previous_secret_expires_at = case
              when ${isNew} then ${overlapMs === 0 ? sql`null` : sql`now() + ${overlap}`}
              else previous_secret_expires_at
            end,
            sealed_secret = ${sealedSecret}::text
          where ${isEndpoint(sql, organizationId, endpointId)}
          returning *`
      })
    },
  }
}

/** The endpoint after a change; null if there is none. */
async function change(database: Database, update: (sql: Sql) => Fragment): Promise<WebhookEndpoint | null> {
  const [endpoint] = await database.row(
    (sql, mark) => sql`
      with changed as (${update(sql)})
      select (select pg_catalog.row_to_json(item)::text from (select ${columns(sql)} from changed) as item), ${mark}`,
  )
  return JSON.parse(endpoint ?? 'null') as WebhookEndpoint | null
}

function isEndpoint(sql: Sql, organizationId: string, endpointId: string): Fragment {
  return sql`organization_id = ${organizationId}::text and id = ${endpointId}::text and state <> 'removed'`
}

function columns(sql: Sql): Fragment {
  return sql`
    id, url, description, types, headers, state, disabled_reason as "disabledReason",
    ${isoTimestamp(sql, 'failing_since')} as "failingSince", failures,
    case when previous_secret_expires_at > now() then ${isoTimestamp(sql, 'previous_secret_expires_at')} end
      as "previousSecretExpiresAt",
    ${isoTimestamp(sql, 'created_at')} as "createdAt"`
}
