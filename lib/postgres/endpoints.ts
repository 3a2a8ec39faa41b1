import type { EndpointStore, WebhookEndpoint } from '../webhooks/endpoints.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { Database } from './connection/database.ts'
import { createEndpointSecrets } from './endpoint-secrets.ts'
import {
  assign,
  before as beforeChange,
  changedFields,
  columns,
  forgetRate,
  isEndpoint,
  one,
  orAsItIs,
  rowOf,
} from './statements/endpoints.ts'
import { isoTimestamp, textArray } from './statements/fragments.ts'
import { askJson, jsonFor, listOf } from './statements/statement.ts'

/** Has a row if a change invalidates the learned rate. A new URL may be a different server. */
const ELSEWHERE = "(select * from compared where fields && array['url', 'maxPerSecond'])"

/** Creates the PostgreSQL store for webhook endpoints. */
export function createEndpointStore(database: Database): EndpointStore {
  return {
    async insert({ organizationId, endpoint, limit, entry }) {
      const [item, sealedSecret, state] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with inserted as (
            select * from business_api.insert_endpoint(
              ${organizationId}::text, ${rowOf(endpoint)}::text::jsonb, ${limit}::int
            )
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`inserted where is_new`)}
          ), present as (
            select (endpoint).* from inserted
          )
          select ${one(sql, sql`present`)}, (select sealed_secret from present), (select state from present), ${answerTag}`,
      )
      if (!item) return { outcome: 'limit_reached' }
      if (state === 'removed') return { outcome: 'already_exists', item: null }
      const isOurs = sealedSecret === endpoint.sealedSecret
      return { outcome: isOurs ? 'inserted' : 'already_exists', item: JSON.parse(item) as WebhookEndpoint }
    },

    get: (organizationId, endpointId) =>
      jsonFor(database, organizationId, (sql) =>
        one(sql, sql`business_api.webhook_endpoints where ${isEndpoint(sql, organizationId, endpointId)}`),
      ),

    list: (organizationId) =>
      jsonFor(database, organizationId, (sql) => {
        const endpoints = sql`
          select ${columns(sql)} from business_api.webhook_endpoints
          where organization_id = ${organizationId}::text and state <> 'removed'
          order by id desc`
        return listOf(sql, endpoints)
      }),

    listRemoved: (organizationId, limit, before) =>
      jsonFor(database, organizationId, (sql) => {
        const endpoints = sql`
          select id, url, description, types, ${isoTimestamp(sql, 'created_at')} as "createdAt"
          from business_api.webhook_endpoints
          where organization_id = ${organizationId}::text and state = 'removed'
            ${before === null ? sql`` : sql`and id < ${before}::text`}
          order by id desc
          limit ${limit}::int`
        return listOf(sql, endpoints)
      }),

    getTarget: (organizationId, endpointId) =>
      jsonFor(
        database,
        organizationId,
        (sql) => sql`(
          select (
            business_api.endpoint_target(endpoint, now())::jsonb
            || pg_catalog.jsonb_build_object('types', types, 'storeTime', extract(epoch from now()) * 1000)
          )::text
          from business_api.webhook_endpoints endpoint where ${isEndpoint(sql, organizationId, endpointId)}
        )`,
      ),

    async update({ organizationId, endpointId, changes, replaces, entry }) {
      const { headers, ...choices } = changes
      const { replaces: replacedHeaders, ...sealed } = headers ?? { replaces: null }
      const [endpoint, hasConflict] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          with ${beforeChange(sql, organizationId, endpointId, isRecorded(sql, organizationId, entry))}, changed as (
            update business_api.webhook_endpoints endpoint set ${assign(sql, rowOf({ ...choices, ...sealed }))}
            from before
            where endpoint.organization_id = ${organizationId}::text and endpoint.id = before.id and not before.is_repeat
              ${headers ? sql`and before.sealed_headers is not distinct from ${replacedHeaders}::text` : sql``}
              ${replaces === undefined ? sql`` : sql`and before.version = ${replaces}::int`}
            returning endpoint.*
          ), compared as (
            select changed.organization_id, changed.id, ${changedFields(sql)} as fields
            from before, changed
          ), ${forgetRate(sql, ELSEWHERE)}, audited as (
            ${recordEntry(
              sql,
              organizationId,
              entry,
              sql`compared where cardinality(fields) > 0`,
              sql`pg_catalog.jsonb_build_object('fields', fields)`,
            )}
          )
          select
            ${one(sql, orAsItIs(sql, 'changed'))},
            (select (not is_repeat and not exists (select 1 from changed))::text from before),
            ${answerTag}`,
      )
      if (!endpoint) return null
      const outcome = hasConflict === 'true' ? 'conflict' : 'changed'
      return { outcome, endpoint: JSON.parse(endpoint) as WebhookEndpoint }
    },

    async setState({ organizationId, endpointId, state, from, entry }) {
      const endpoint = await askJson<WebhookEndpoint | null>(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with ${beforeChange(sql, organizationId, endpointId, isRecorded(sql, organizationId, entry))}, moved as (
            update business_api.webhook_endpoints endpoint set
              state = ${state}::text,
              disabled_reason = ${state === 'disabled' ? 'administrator' : null}::text,
              failures = ${state === 'enabled' ? sql`0` : sql`endpoint.failures`},
              failing_since = ${state === 'enabled' ? sql`null` : sql`endpoint.failing_since`}
            from before
            where endpoint.organization_id = ${organizationId}::text and endpoint.id = before.id
              and before.state = any (${textArray(sql, from)}) and before.state <> ${state}::text
              and not before.is_repeat
            returning endpoint.*
          ), ${state === 'enabled' ? sql`${forgetRate(sql, 'moved')},` : sql``} audited as (
            ${recordEntry(sql, organizationId, entry, sql`moved`)}
          )
          select ${one(sql, orAsItIs(sql, 'moved'))}, ${answerTag}`,
      )
      // Deliveries waiting for the endpoint may be due.
      if (state === 'enabled' && endpoint) database.wakeUp.signal()
      return endpoint
    },

    remove: ({ organizationId, endpointId, entry }) =>
      askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with removed as (
            update business_api.webhook_endpoints set
              state = 'removed', sealed_secret = null, previous_sealed_secret = null, header_names = '{}',
              sealed_headers = null
            where ${isEndpoint(sql, organizationId, endpointId)}
            returning 1
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`removed`)}
          )
          select
            (case when exists (select 1 from removed) then true else ${isRecorded(sql, organizationId, entry)} end)::text,
            ${answerTag}`,
      ),

    ...createEndpointSecrets(database),
  }
}
