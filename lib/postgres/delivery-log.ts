import type { Fragment, ISql as Sql } from 'postgres'
import type { DeliveryAttempt } from '../webhooks/claims.ts'
import type { DeliveryFilter, DeliveryStore, EventRedelivered } from '../webhooks/deliveries.ts'
import { SIGNATURE_HIDDEN_MS } from '../webhooks/signature.ts'
import { isRecorded, recordEntry } from './audit.ts'
import type { Database } from './connection/database.ts'
import type { Statement } from './connection/pool.ts'
import { type DeliverySelection, deliveryOfId, selectRows } from './statements/delivery-selection.ts'
import { isoTimestamp, plannedAnew, textArray } from './statements/fragments.ts'
import { askJson, callFor, jsonFor } from './statements/statement.ts'

/** The methods of a store for the delivery log. */
type DeliveryLog = Pick<
  DeliveryStore,
  'list' | 'count' | 'countRecoverable' | 'get' | 'listAttempts' | 'recover' | 'redeliverEvent' | 'cancel'
>

/** Creates the PostgreSQL delivery log. */
export function createDeliveryLog(database: Database): DeliveryLog {
  function count(selection: DeliverySelection): Promise<number> {
    const { organizationId, filter, limit } = selection
    return askJson(database, organizationId, (sql, answerTag) =>
      planned(
        filter,
        sql`
          select count(*)::text, ${answerTag} from (
            select 1 from ${selectRows(sql, selection)} as selected limit ${limit}::int
          ) as found`,
      ),
    )
  }

  return {
    list(organizationId, filter, limit, before) {
      return askJson(database, organizationId, (sql, answerTag) =>
        planned(
          filter,
          sql`
          with page as materialized (
            select delivery.* from ${selectRows(sql, { organizationId, filter, limit, before })} as delivery
            order by delivery.id desc
            limit ${limit}::int
          )
          select coalesce(pg_catalog.json_agg(item), '[]')::text, ${answerTag} from (
            select ${columns(sql)}
            from page delivery
            left join business_api.delivery_details(
              ${organizationId}::text, array(select id from page), array(select event_id from page)
            ) as details on details.delivery_id = delivery.id
            order by delivery.id desc
          ) as item`,
        ),
      )
    },

    count: (organizationId, filter, max) => count({ organizationId, filter, limit: max }),

    countRecoverable: (organizationId, filter, max) =>
      count({ organizationId, filter, limit: max, isRecoverable: true }),

    get(organizationId, deliveryId) {
      return jsonFor(
        database,
        organizationId,
        (sql) => sql`(
          select pg_catalog.row_to_json(item)::text from (
            select
              ${columns(sql)}, event.body,
              coalesce((
                select ${attemptLog(sql)} from business_api.delivery_attempts attempt
                where attempt.organization_id = ${organizationId}::text and attempt.delivery_id = ${deliveryId}::text
              ), '[]') as "attemptLog"
            from ${deliveryOfId(sql, organizationId, sql`${deliveryId}::text`)} as delivery
            -- In the day of the delivery, which the first characters of the id decide.
            cross join lateral (
              select event.body from business_api.events event
              where event.organization_id = ${organizationId}::text and event.id = delivery.event_id
                and event.delivery_prefix >= ${deliveryId.slice(0, DAY_CHARACTERS)}::text
                and event.delivery_prefix <= ${deliveryId}::text
              offset 0
            ) as event
            cross join lateral business_api.delivery_details(
              ${organizationId}::text, array[delivery.id], array[delivery.event_id]
            ) as details
          ) as item
        )`,
      )
    },

    async listAttempts(organizationId, deliveryIds) {
      const logs = await askJson<Record<string, DeliveryAttempt[]>>(
        database,
        organizationId,
        (sql, answerTag) => sql`
          select coalesce(pg_catalog.json_object_agg(delivery_id, log), '{}')::text, ${answerTag} from (
            select attempt.delivery_id, ${attemptLog(sql)} as log
            from pg_catalog.unnest(${textArray(sql, deliveryIds)}) as wanted (id)
            -- One by one: a search for all ids together would descend the index of each day for each id.
            cross join lateral (
              select * from business_api.delivery_attempts attempt
              where attempt.organization_id = ${organizationId}::text and attempt.delivery_id = wanted.id
              offset 0
            ) as attempt
            group by attempt.delivery_id
          ) as item`,
      )
      return new Map(Object.entries(logs))
    },

    async recover({ organizationId, ids, filter, limit, entry }) {
      const recovered: readonly string[] = await jsonFor(
        database,
        organizationId,
        (sql) => sql`business_api.reopen_deliveries(
          ${organizationId}::text, ${textArray(sql, ids)}, ${JSON.stringify(filter)}::text::jsonb, ${limit}::int,
          ${JSON.stringify(entry)}::text::jsonb
        )`,
      )
      if (recovered.length > 0) database.wakeUp.signal()
      return recovered
    },

    async redeliverEvent({ organizationId, eventId, endpointId, entry }) {
      const call = 'redeliver_event(text, text, text, jsonb)'
      const values = [organizationId, eventId, endpointId, JSON.stringify(entry)]
      const redelivered: EventRedelivered = await callFor(database, organizationId, call, ...values)
      if (redelivered.outcome === 'sent') database.wakeUp.signal()
      return redelivered
    },

    // A retry that overlaps with the first attempt waits for the lock. The delivery is no longer open then, but the retry
    // finds the first attempt's audit entry.
    cancel({ organizationId, deliveryId, entry }) {
      return askJson(
        database,
        organizationId,
        (sql, answerTag) => sql`
          with locked as (
            select id, claim_token is null as is_pending from business_api.open_deliveries
            where organization_id = ${organizationId}::text and id = ${deliveryId}::text
            for update
          ), present as (
            select id, is_pending, ${isRecorded(sql, organizationId, entry)} as is_repeat from locked
          ), closed as (
            delete from business_api.open_deliveries delivery
            using present
            where delivery.organization_id = ${organizationId}::text and delivery.id = present.id
              and present.is_pending and not present.is_repeat
            returning delivery.*
          ), cancelled as (
            insert into business_api.finished_deliveries (
              organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts, is_backfill
            )
            select organization_id, id, event_id, type, endpoint_id, 'cancelled', created_at, now(), attempts, is_backfill
            from closed
            returning 1
          ), audited as (
            ${recordEntry(sql, organizationId, entry, sql`cancelled`)}
          ), known as (
            select id from ${deliveryOfId(sql, organizationId, sql`${deliveryId}::text`)} as delivery
          )
          select
            case
              when exists (select 1 from cancelled) then true
              else exists (select 1 from known where ${isRecorded(sql, organizationId, entry)})
            end::text,
            ${answerTag}`,
      )
    },
  }
}

/** Length of a delivery ID up to its milliseconds (`dlv_` plus ten digits), same as for day bounds. */
const DAY_CHARACTERS = 14

/** Builds the JSON of a delivery's attempts from rows named `attempt`. */
function attemptLog(sql: Sql): Fragment {
  return sql`pg_catalog.json_agg(pg_catalog.json_build_object(
    'number', attempt.number, 'startedAt', ${isoTimestamp(sql, 'attempt.started_at')}, 'durationMs', attempt.duration_ms,
    'dnsMs', attempt.dns_ms, 'connectMs', attempt.connect_ms, 'tlsMs', attempt.tls_ms,
    'firstByteMs', attempt.first_byte_ms, 'status', attempt.status, 'error', attempt.error,
    'bodyExcerpt', attempt.body_excerpt, 'location', attempt.location,
    'headers', case
      when attempt.started_at > now() - ${SIGNATURE_HIDDEN_MS}::int * interval '1 millisecond' then attempt.headers - 'signed'
      else attempt.headers
    end
  ) order by attempt.number)`
}

/** Replans a statement that filters by type. A plan from when the table was empty might read all deliveries. */
function planned<Query extends Statement>({ type }: DeliveryFilter, statement: Query): Query {
  return type === undefined ? statement : plannedAnew(statement)
}

function columns(sql: Sql): Fragment {
  return sql`
    delivery.id, delivery.event_id as "eventId", delivery.type, details.subject_id as "subjectId",
    delivery.endpoint_id as "endpointId", delivery.state, delivery.attempts,
    ${isoTimestamp(sql, 'delivery.due_at')} as "dueAt",
    delivery.reason,
    ${isoTimestamp(sql, 'delivery.created_at')} as "createdAt",
    ${isoTimestamp(sql, 'delivery.finished_at')} as "finishedAt",
    details.status as "lastStatus", details.error as "lastError"`
}
