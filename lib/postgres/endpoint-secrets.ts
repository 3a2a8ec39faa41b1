import type { Fragment, ISql as Sql } from 'postgres'
import type { EndpointStore, SealedForms, WebhookEndpoint } from '../webhooks/endpoints.ts'
import { isChangeMade, isRecorded, recordEntry } from './audit.ts'
import type { Database } from './connection/database.ts'
import { before, isEndpoint, one, orAsItIs } from './statements/endpoints.ts'
import { isNotElsewhere } from './statements/here.ts'
import { askJson, jsonFor, listOf } from './statements/statement.ts'

/** Creates the methods of a PostgreSQL store for the sealed secrets and headers of endpoints. */
export function createEndpointSecrets(
  database: Database,
): Pick<EndpointStore, 'rotateSecret' | 'listSealed' | 'exchangeSealed'> {
  return {
    async rotateSecret({ organizationId, endpointId, changeId, sealedSecret, overlapMs, entry }) {
      const [endpoint, current] = await database.rowFor(organizationId, (sql, answerTag) => {
        const overlap = sql`now() + ${overlapMs}::float8 * interval '1 millisecond'`
        const isRepeat = sql`
              ${isRecorded(sql, organizationId, entry)}
              or ${isChangeMade(sql, organizationId, entry.subjectId, changeId)}`
        const present = orAsItIs(sql, 'changed')
        return sql`
              with ${before(sql, organizationId, endpointId, isRepeat)}, changed as (
                update business_api.webhook_endpoints endpoint set
                  previous_sealed_secret = ${overlapMs === 0 ? sql`null` : sql`before.sealed_secret`},
                  previous_secret_expires_at = ${overlapMs === 0 ? sql`null` : overlap},
                  sealed_secret = ${sealedSecret}::text
                from before
                where endpoint.organization_id = ${organizationId}::text and endpoint.id = before.id
                  and before.sealed_secret <> ${sealedSecret}::text and not before.is_repeat
                returning endpoint.*
              ), audited as (
                ${recordEntry(
                  sql,
                  organizationId,
                  entry,
                  sql`changed`,
                  sql`pg_catalog.jsonb_build_object('changeId', ${changeId}::text)`,
                )}
              )
              select ${one(sql, present)}, (select sealed_secret from ${present}), ${answerTag}`
      })
      if (!endpoint) return null
      const outcome = current === sealedSecret ? 'rotated' : 'already_exists'
      return { outcome, endpoint: JSON.parse(endpoint) as WebhookEndpoint }
    },

    listSealed(limit, after) {
      return jsonFor(database, null, (sql) => {
        const endpoints = sql`
          select
            organization_id as "organizationId", id as "endpointId", header_names as "headerNames",
            sealed_secret as "sealedSecret", previous_sealed_secret as "previousSealedSecret",
            previous_sealed_secret is not null and previous_secret_expires_at <= now() as "isPreviousExpired",
            sealed_headers as "sealedHeaders"
          from business_api.webhook_endpoints
          where (organization_id, id) > (${after?.organizationId ?? ''}::text, ${after?.endpointId ?? ''}::text)
            and state <> 'removed' and ${isNotElsewhere(sql, 'webhook_endpoints')}
          order by organization_id, id
          limit ${limit}::int`
        return listOf(sql, endpoints)
      })
    },

    exchangeSealed({ organizationId, endpointId, from, to }) {
      return askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with exchanged as (
            update business_api.webhook_endpoints set
              sealed_secret = ${to.sealedSecret}::text,
              previous_sealed_secret = ${to.previousSealedSecret}::text,
              previous_secret_expires_at = ${to.previousSealedSecret === null ? sql`null` : sql`previous_secret_expires_at`},
              sealed_headers = ${to.sealedHeaders}::text
            where ${isEndpoint(sql, organizationId, endpointId)} and ${hasForms(sql, from)}
            returning 1
          ), present as (
            select 1 from business_api.webhook_endpoints
            where ${isEndpoint(sql, organizationId, endpointId)} and ${hasForms(sql, to)}
          )
          select (exists (select 1 from exchanged) or exists (select 1 from present))::text, ${answerTag}`,
      )
    },
  }
}

function hasForms(sql: Sql, forms: SealedForms): Fragment {
  return sql`
    sealed_secret = ${forms.sealedSecret}::text
    and previous_sealed_secret is not distinct from ${forms.previousSealedSecret}::text
    and sealed_headers is not distinct from ${forms.sealedHeaders}::text`
}
