import type { Backlog, Claims, DeliveryStore, RecordReport } from '../deliveries.ts'
import type { Database } from './database.ts'
import { cancelDelivery, getDelivery, listDeliveries, replayDeliveries } from './delivery-log.ts'
import { purge } from './retention.ts'

/** Deliveries in PostgreSQL. What is called all the time is a function of the schema: see sql/0009-webhook-delivery.sql. */
export function createDeliveryStore(database: Database): DeliveryStore {
  return {
    async claim({ token, isRepeat, limit, visits, after, leaseMs, maxAttempts, room }) {
      let sent = 0
      const [claims] = await database.row((sql, mark) => {
        // Sent again as its answer was lost, it may have been carried out.
        const isAgain = isRepeat || sent++ > 0
        return sql`
          select
            business_api.claim_deliveries(
              ${token}::text, ${String(isAgain)}::text::boolean, ${limit}::int, ${visits}::int,
              ${after?.organizationId ?? null}::text, ${after?.endpointId ?? null}::text,
              ${leaseMs}::float8, ${maxAttempts}::int, ${room.endpoint}::int, ${room.organization}::int,
              ${JSON.stringify(room.endpoints)}::text::jsonb, ${JSON.stringify(room.organizations)}::text::jsonb
            ),
            ${mark}`
      })
      return JSON.parse(claims ?? 'null') as Claims
    },

    async record(results, limit) {
      const [report] = await database.row(
        (sql, mark) => sql`
          select
            business_api.record_attempts(
              ${JSON.stringify(results)}::text::jsonb, ${limit.failures}::int, ${limit.failingMs}::float8
            ),
            ${mark}`,
      )
      return JSON.parse(report ?? 'null') as RecordReport
    },

    async release(claims) {
      const [released] = await database.row(
        (sql, mark) => sql`
          select business_api.release_deliveries(${JSON.stringify(claims)}::text::jsonb)::text, ${mark}`,
      )
      if (released !== '0') database.due.announce()
    },

    list: (organizationId, filter, limit, before) =>
      listDeliveries(database, organizationId, filter, limit, before),

    get: (organizationId, deliveryId) => getDelivery(database, organizationId, deliveryId),

    async replay(organizationId, ids, filter, limit, entry) {
      const replayed = await replayDeliveries(database, organizationId, ids, filter, limit, entry)
      if (replayed.length > 0) database.due.announce()
      return replayed
    },

    cancel: (organizationId, deliveryId, entry) =>
      cancelDelivery(database, organizationId, deliveryId, entry),

    async measure() {
      const [backlog] = await database.row(
        (sql, mark) => sql`
          with recursive lane as (
            (
              select organization_id, endpoint_id from business_api.deliveries
              where state = 'pending' and not is_waiting order by organization_id, endpoint_id limit 1
            )
            union all
            select following.organization_id, following.endpoint_id from lane, lateral (
              select d.organization_id, d.endpoint_id from business_api.deliveries d
              where d.state = 'pending' and not d.is_waiting
                and (d.organization_id, d.endpoint_id) > (lane.organization_id, lane.endpoint_id)
              order by d.organization_id, d.endpoint_id limit 1
            ) as following
          ), oldest as (
            select first.due_at from lane
            join business_api.webhook_endpoints e
              on e.organization_id = lane.organization_id and e.id = lane.endpoint_id and e.state = 'enabled',
            (values (false), (true)) as kind (is_retry), lateral (
              select d.due_at from business_api.deliveries d
              where d.state = 'pending' and not d.is_waiting and d.organization_id = lane.organization_id
                and d.endpoint_id = lane.endpoint_id and d.is_retry = kind.is_retry
              order by d.due_at limit 1
            ) as first
          ), due as (
            select from business_api.deliveries d
            join business_api.webhook_endpoints e
              on e.organization_id = d.organization_id and e.id = d.endpoint_id and e.state = 'enabled'
            where d.state = 'pending' and d.due_at <= now()
            limit ${DUE_COUNTED}::int
          )
          select
            pg_catalog.json_build_object(
              'due', (select count(*) from due),
              'oldestDueMs', greatest(0, coalesce(extract(epoch from now() - (select min(due_at) from oldest)) * 1000, 0)),
              'inFlight', (select count(*) from business_api.deliveries where state = 'in_flight')
            )::text,
            ${mark}`,
      )
      return JSON.parse(backlog ?? 'null') as Backlog
    },

    purge: (request) => purge(database, request),

    watch: (onDue) => database.due.watch(onDue),
  }
}

/** Above this a backlog is a backlog; to count on would cost more the worse things are. */
const DUE_COUNTED = 100_000
