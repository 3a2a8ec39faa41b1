import type { PurgeEntry, PurgeReport, PurgeRequest } from '../webhooks/deliveries.ts'
import { recordPurged } from './audit.ts'
import type { Database } from './connection/database.ts'

/**
 * Forgets what is old, a bounded part of it; see `DeliveryStore.purge`. Three statements, so that one which takes too long
 * does not keep the others from being done.
 */
export async function purge(
  database: Database,
  { eventsAfterMs, limit, entry }: PurgeRequest,
): Promise<PurgeReport> {
  const idempotencyKeys = await purgeIdempotencyKeys(database, limit)
  const events = await purgeEvents(database, eventsAfterMs, limit, entry)
  if (events < limit) await purgeRemovedEndpoints(database)
  return { events, idempotencyKeys }
}

async function purgeIdempotencyKeys(database: Database, limit: number): Promise<number> {
  const [purged] = await database.row(
    (sql, answerTag) => sql`
      with expired as (
        select organization_id, operation, key from business_api.idempotency_keys
        where expires_at <= now()
        order by expires_at
        limit ${limit}::int
        for update skip locked
      ), purged as (
        delete from business_api.idempotency_keys entry using expired
        where entry.organization_id = expired.organization_id
          and entry.operation = expired.operation and entry.key = expired.key
        returning 1
      )
      select count(*)::text, ${answerTag} from purged`,
  )
  return Number(purged)
}

/** A delivery that is being sent again in this moment keeps its event: all of an event's are locked before it goes. */
async function purgeEvents(
  database: Database,
  eventsAfterMs: number,
  limit: number,
  entry: PurgeEntry | undefined,
): Promise<number> {
  const [purged] = await database.row(
    (sql, answerTag) => sql`
      with old_event as (
        select event.organization_id, event.id from business_api.events event
        where event.created_at < now() - ${eventsAfterMs}::float8 * interval '1 millisecond'
          and not exists (
            select 1 from business_api.deliveries delivery
            where delivery.organization_id = event.organization_id and delivery.event_id = event.id
              and delivery.state in ('pending', 'in_flight')
          )
        limit ${limit}::int
        for update skip locked
      ), final_delivery as (
        select delivery.organization_id, delivery.id, delivery.event_id from business_api.deliveries delivery
        join old_event
          on old_event.organization_id = delivery.organization_id and old_event.id = delivery.event_id
        where delivery.state not in ('pending', 'in_flight')
        for update of delivery skip locked
      ), purgeable as (
        select old_event.organization_id, old_event.id from old_event
        where (
          select count(*) from business_api.deliveries delivery
          where delivery.organization_id = old_event.organization_id and delivery.event_id = old_event.id
        ) = (
          select count(*) from final_delivery
          where final_delivery.organization_id = old_event.organization_id
            and final_delivery.event_id = old_event.id
        )
      ), purged_delivery as (
        delete from business_api.deliveries delivery using purgeable
        where delivery.organization_id = purgeable.organization_id and delivery.event_id = purgeable.id
        returning delivery.organization_id, delivery.id
      ), purged_attempt as (
        delete from business_api.delivery_attempts attempt using purged_delivery
        where attempt.organization_id = purged_delivery.organization_id
          and attempt.delivery_id = purged_delivery.id
      ), purged_event as (
        delete from business_api.events event using purgeable
        where event.organization_id = purgeable.organization_id and event.id = purgeable.id
        returning event.organization_id
      )
      ${entry === undefined ? sql`` : sql`, audited as (${recordPurged(sql, entry, sql`purged_event`)})`}
      select count(*)::text, ${answerTag} from purged_event`,
  )
  return Number(purged)
}

async function purgeRemovedEndpoints(database: Database): Promise<void> {
  await database.row(
    (sql, answerTag) => sql`
      with purged as (
        delete from business_api.webhook_endpoints endpoint
        where endpoint.state = 'removed' and not exists (
          select 1 from business_api.deliveries delivery
          where delivery.organization_id = endpoint.organization_id and delivery.endpoint_id = endpoint.id
        )
        returning 1
      )
      select count(*)::text, ${answerTag} from purged`,
  )
}
