import type { Fragment, ISql as Sql } from 'postgres'
import type { AuditRecord } from '../audit.ts'
import type { EndpointStore, EndpointTarget, WebhookEndpoint } from '../endpoints.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { Database } from './database.ts'
import { isoTimestamp, textArray } from './fragments.ts'

/** Webhook endpoints in PostgreSQL. */
export function createEndpointStore(database: Database): EndpointStore {
  return {
    async insert(organizationId, endpoint, entry) {
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
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`inserted`)}
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

    async getTarget(organizationId, endpointId) {
      const [target] = await database.row(
        (sql, mark) => sql`
          select
            (
              select pg_catalog.row_to_json(item)::text from (
                select
                  url, types, headers,
                  case
                    when previous_secret_expires_at > now()
                    then pg_catalog.json_build_array(sealed_secret, previous_sealed_secret)
                    else pg_catalog.json_build_array(sealed_secret)
                  end as "sealedSecrets",
                  extract(epoch from now()) * 1000 as "storeTime"
                from business_api.webhook_endpoints where ${isEndpoint(sql, organizationId, endpointId)}
              ) as item
            ),
            ${mark}`,
      )
      return JSON.parse(target ?? 'null') as EndpointTarget | null
    },

    async update(organizationId, endpointId, { url, description, types, headers }, entry) {
      const [endpoint] = await database.row(
        (sql, mark) => sql`
          with ${before(sql, organizationId, endpointId, entry)}, changed as (
            update business_api.webhook_endpoints endpoint set
              url = ${url === undefined ? sql`endpoint.url` : sql`${url}::text`},
              description = ${description === undefined ? sql`endpoint.description` : sql`${description}::text`},
              types = ${types === undefined ? sql`endpoint.types` : textArray(sql, types)},
              headers = ${headers === undefined ? sql`endpoint.headers` : sql`${JSON.stringify(headers)}::text::jsonb`}
            from before
            where endpoint.organization_id = before.organization_id and endpoint.id = before.id and not before.is_repeat
            returning endpoint.*
          ), compared as (
            select array_remove(
              array[
                case when before.url <> changed.url then 'url' end,
                case when before.types is distinct from changed.types then 'types' end,
                case when before.description <> changed.description then 'description' end,
                case when before.headers <> changed.headers then 'headers' end
              ],
              null
            ) as fields
            from before, changed
          ), audited as (
            ${recordEntry(
              sql,
              organizationId,
              entry,
              sql`compared where cardinality(fields) > 0`,
              sql`pg_catalog.jsonb_build_object('fields', fields)`,
            )}
          )
          select ${one(sql, orAsItIs(sql, 'changed'))}, ${mark}`,
      )
      return JSON.parse(endpoint ?? 'null') as WebhookEndpoint | null
    },

    async setState(organizationId, endpointId, state, from, entry) {
      const [endpoint] = await database.row(
        (sql, mark) => sql`
          with ${before(sql, organizationId, endpointId, entry)}, moved as (
            update business_api.webhook_endpoints endpoint set
              state = ${state}::text,
              disabled_reason = ${state === 'disabled' ? 'administrator' : null}::text,
              failures = ${state === 'enabled' ? sql`0` : sql`endpoint.failures`},
              failing_since = ${state === 'enabled' ? sql`null` : sql`endpoint.failing_since`}
            from before
            where endpoint.organization_id = before.organization_id and endpoint.id = before.id
              and before.state = any (${textArray(sql, from)}) and before.state <> ${state}::text
              and not before.is_repeat
            returning endpoint.*
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`moved`)}
          )
          select ${one(sql, orAsItIs(sql, 'moved'))}, ${mark}`,
      )
      // What has been waiting for it may be due.
      if (state === 'enabled' && endpoint) database.due.announce()
      return JSON.parse(endpoint ?? 'null') as WebhookEndpoint | null
    },

    async remove(organizationId, endpointId, entry) {
      const [wasThere] = await database.row(
        (sql, mark) => sql`
          with removed as (
            update business_api.webhook_endpoints set
              state = 'removed', sealed_secret = null, previous_sealed_secret = null, headers = '{}'
            where ${isEndpoint(sql, organizationId, endpointId)}
            returning 1
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`removed`)}
          )
          select
            (case when exists (select from removed) then true else ${isRecorded(sql, organizationId, entry)} end)::text,
            ${mark}`,
      )
      return wasThere === 'true'
    },

    async rotateSecret(organizationId, endpointId, sealedSecret, overlapMs, entry) {
      const [endpoint] = await database.row((sql, mark) => {
        const overlap = sql`now() + ${overlapMs}::float8 * interval '1 millisecond'`
        return sql`
          with ${before(sql, organizationId, endpointId, entry)}, changed as (
            update business_api.webhook_endpoints endpoint set
              previous_sealed_secret = ${overlapMs === 0 ? sql`null` : sql`before.sealed_secret`},
              previous_secret_expires_at = ${overlapMs === 0 ? sql`null` : overlap},
              sealed_secret = ${sealedSecret}::text
            from before
            where endpoint.organization_id = before.organization_id and endpoint.id = before.id
              and before.sealed_secret <> ${sealedSecret}::text and not before.is_repeat
            returning endpoint.*
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`changed`)}
          )
          select ${one(sql, orAsItIs(sql, 'changed'))}, ${mark}`
      })
      return JSON.parse(endpoint ?? 'null') as WebhookEndpoint | null
    },
  }
}

/** The one row of a step, as it is shown; null if there is none. */
function one(sql: Sql, step: Fragment): Fragment {
  return sql`(select pg_catalog.row_to_json(item)::text from (select ${columns(sql)} from ${step}) as item)`
}

/**
 * The first steps of a change: `locked`, the endpoint, without which one that has waited for another would still see what
 * was before that; and `before`, with whether this very change has been made already.
 */
function before(sql: Sql, organizationId: string, endpointId: string, entry: AuditRecord): Fragment {
  return sql`
    locked as (
      select * from business_api.webhook_endpoints
      where ${isEndpoint(sql, organizationId, endpointId)}
      for no key update
    ),
    before as (select locked.*, ${isRecorded(sql, organizationId, entry)} as is_repeat from locked)`
}

/** What a step has changed, or the endpoint as it is if it has changed nothing. */
function orAsItIs(sql: Sql, step: 'changed' | 'moved'): Fragment {
  const changed = sql.unsafe(step)
  return sql`
    (select * from ${changed} union all select * from locked where not exists (select from ${changed})) as present`
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
