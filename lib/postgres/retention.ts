import type { PurgeReport, PurgeRequest } from '../deliveries.ts'
import type { Database } from './database.ts'

/** Forgets what is old, a bounded part of it; see `DeliveryStore.purge`. */
export async function purge(
  database: Database,
  { eventsAfterMs, limit }: PurgeRequest,
): Promise<PurgeReport> {
  const [events, idempotencyKeys] = await database.row(
    (sql, mark) => sql`
      with old_event as (
        select event.organization_id, event.id from business_api.events event
        where event.created_at < now() - ${eventsAfterMs}::float8 * interval '1 millisecond'
          and not exists (
            select from business_api.deliveries delivery
            where delivery.organization_id = event.organization_id and delivery.event_id = event.id
              and delivery.state in ('pending', 'in_flight')
          )
        limit ${limit}::int
        for update skip locked
      ), old_delivery as (
        delete from business_api.deliveries delivery using old_event
        where delivery.organization_id = old_event.organization_id and delivery.event_id = old_event.id
        returning delivery.organization_id, delivery.id
      ), old_attempt as (
        delete from business_api.delivery_attempts attempt using old_delivery
        where attempt.organization_id = old_delivery.organization_id and attempt.delivery_id = old_delivery.id
      ), purged_event as (
        delete from business_api.events event using old_event
        where event.organization_id = old_event.organization_id and event.id = old_event.id
        returning 1
      ), removed_endpoint as (
        -- The deliveries that go in this very statement still count: such an endpoint goes with the next purge.
        delete from business_api.webhook_endpoints endpoint
        where endpoint.state = 'removed' and not exists (
          select from business_api.deliveries delivery
          where delivery.organization_id = endpoint.organization_id and delivery.endpoint_id = endpoint.id
        )
      ), expired_key as (
        select organization_id, operation, key from business_api.idempotency_keys
        where expires_at <= now()
        order by expires_at
        limit ${limit}::int
        for update skip locked
      ), purged_key as (
        delete from business_api.idempotency_keys entry using expired_key
        where entry.organization_id = expired_key.organization_id
          and entry.operation = expired_key.operation and entry.key = expired_key.key
        returning 1
      )
      select (select count(*) from purged_event)::text, (select count(*) from purged_key)::text, ${mark}`,
  )
  return { events: Number(events), idempotencyKeys: Number(idempotencyKeys) }
}
