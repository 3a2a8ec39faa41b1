import type { Fragment, ISql } from 'postgres'

// Deliveries behind the store's back: a delivery is a row of open_deliveries, later of finished_deliveries.

/** All deliveries as one table, to be named `delivery`. */
export function everyDelivery(sql: ISql): Fragment {
  return sql`(
    select
      organization_id, id, event_id, type, endpoint_id, attempts, created_at, due_at, null as reason,
      case when claim_token is null then 'pending' else 'sending' end as state
    from business_api.open_deliveries
    union all
    select organization_id, id, event_id, type, endpoint_id, attempts, created_at, null, reason, state
    from business_api.finished_deliveries
  )`
}

/** Gives deliveries a final state, whatever the present state is. @param where a condition on `delivery`. Default: all */
export async function finishDeliveries(sql: ISql, state: string, where: Fragment = sql`true`): Promise<void> {
  await sql`update business_api.finished_deliveries delivery set state = ${state} where ${where}`
  await sql`
    with closed as (
      delete from business_api.open_deliveries delivery where ${where} returning *
    )
    insert into business_api.finished_deliveries (
      organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at, attempts, is_backfill
    )
    select organization_id, id, event_id, type, endpoint_id, ${state}, created_at, now(), attempts, is_backfill from closed`
}

/** Makes finished deliveries pending. @param where a condition on `delivery`. Default: all */
export async function reopenDeliveries(sql: ISql, where: Fragment = sql`true`): Promise<void> {
  await sql`
    with reopened as (
      delete from business_api.finished_deliveries delivery where ${where} returning *
    )
    insert into business_api.open_deliveries (
      organization_id, id, event_id, type, endpoint_id, due_at, created_at, attempts, attempts_before, is_backfill
    )
    select organization_id, id, event_id, type, endpoint_id, now(), created_at, attempts, attempts, is_backfill from reopened`
}
