import type { Fragment, ISql as Sql } from 'postgres'
import { idPrefixAt } from '../../base/ids.ts'
import type { DeliveryFilter } from '../../webhooks/deliveries.ts'
import { textArray } from './fragments.ts'

// Selects the deliveries that match a filter by the indexes of the delivery log. The cost of a selection depends on the
// number of deliveries selected, not on the size of the table.

/** Deliveries of one organization, the newest id first. */
export interface DeliverySelection {
  readonly organizationId: string
  readonly filter: DeliveryFilter
  /** Maximum number of deliveries to select. */
  readonly limit: number
  /** Only deliveries with a smaller id; null: all. Default null. */
  readonly before?: string | null
  /** Only deliveries of endpoints that are not removed. Default false. */
  readonly isRecoverable?: boolean
}

/** Builds the table with a delivery id's row. */
export function deliveryOfId(sql: Sql, organizationId: string, id: Fragment): Fragment {
  return sql`(
    select delivery.* from business_api.list_open_deliveries(${organizationId}::text, '{}', ${id}, ${id} || '!', 1) as delivery
    union all
    select (business_api.log_finished(delivery)).* from business_api.finished_deliveries delivery
    where delivery.organization_id = ${organizationId}::text and delivery.id = ${id}
  )`
}

/**
 * Builds the table of the selected deliveries, which may have more rows than the limit. Without a filter the log is read along the primary
 * keys. With a filter, each state and endpoint is an index range, and the limit applies to each, so no range is read further than the
 * whole selection can need.
 */
export function selectRows(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter, isRecoverable = false } = selection
  const kept = isRecoverable ? keptEndpoint(sql, organizationId) : sql``
  if (isOfEvents(filter)) {
    return sql`(select delivery.* from ${selectOfEvents(sql, selection)} as delivery ${kept})`
  }
  return sql`(
    select delivery.* from ${listOpen(sql, selection)} as delivery ${kept}
    union all
    select delivery.* from ${listFinished(sql, selection)} as delivery
  )`
}

/** Builds the table of the open deliveries: see sql/38-delivery-log.sql. */
function listOpen(sql: Sql, selection: DeliverySelection): Fragment {
  return sql`business_api.list_open_deliveries(${selected(sql, selection)})`
}

/** Builds the table of the finished deliveries: see sql/38-delivery-log.sql. */
function listFinished(sql: Sql, selection: DeliverySelection): Fragment {
  const { isRecoverable = false } = selection
  return sql`
    business_api.list_finished_deliveries(${selected(sql, selection)}, ${String(isRecoverable)}::text::boolean)`
}

function selected(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter, limit } = selection
  const { firstId, endId } = idsOf(selection)
  return sql`
    ${organizationId}::text, ${JSON.stringify(filter)}::text::jsonb, ${firstId}::text, ${endId}::text, ${limit}::int`
}

/** Returns whether a filter selects by events, which lead to the deliveries. */
function isOfEvents({ eventId, subjectId }: DeliveryFilter): boolean {
  return eventId !== undefined || subjectId !== undefined
}

/** Selects deliveries of an event, or of a record's events: at most one for each endpoint and event, so the whole set is read. */
function selectOfEvents(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter } = selection
  if (filter.subjectId !== undefined) {
    return sql`business_api.list_deliveries_of_subject(${selected(sql, selection)})`
  }
  const { firstId, endId } = idsOf(selection)
  const found = findEvents(sql, organizationId, [filter.eventId ?? ''])
  return sql`(
    select found.*
    from ${found} as event cross join lateral ${deliveriesOfOne(sql, 'event')} as found, pg_catalog.jsonb_populate_record(
      null::business_api.delivery_filter, ${JSON.stringify(filter)}::text::jsonb
    ) as filter
    where business_api.is_selected(filter, found) and found.id >= ${firstId}::text and found.id < ${endId}::text
  )`
}

/** Tolerance for rows that `insert_events` did not write; that function gives a delivery's id and `created_at` the same time. */
const LATE_ID_MS = 5 * 60 * 1000

/**
 * Returns a selection's id bounds, the first and one beyond the last: an id begins with a time, which may be later than `created_at`
 * (the transaction's start), but never earlier.
 */
function idsOf({ filter: { since, until }, before = null }: DeliverySelection): {
  readonly firstId: string
  readonly endId: string
} {
  const endId = until === undefined ? '~' : idPrefixAt('dlv', Date.parse(until) + LATE_ID_MS)
  return {
    firstId: since === undefined ? '' : idPrefixAt('dlv', Date.parse(since)),
    endId: before === null || before > endId ? endId : before,
  }
}

/** Builds the table with some ids' events. */
export function findEvents(sql: Sql, organizationId: string, eventIds: readonly string[]): Fragment {
  return sql`business_api.find_events(${organizationId}::text, ${textArray(sql, eventIds)})`
}

/**
 * Builds the table of an event's deliveries, given the event's table name, for a statement with a single event: planned for its day, so
 * a new session does not plan for all days.
 */
export function deliveriesOfOne(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_events(${row}.organization_id, array[${row}.id], array[${row}.delivery_prefix])`
}

/** Builds the table of an event's deliveries, given the event's table name, for a statement with many events. */
export function deliveriesOf(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_event(${row}.organization_id, ${row}.id, ${row}.delivery_prefix)`
}

/** Builds the condition that a delivery's endpoint is not removed. */
function keptEndpoint(sql: Sql, organizationId: string): Fragment {
  return sql`
    where exists (
      select 1 from business_api.webhook_endpoints endpoint
      where endpoint.organization_id = ${organizationId}::text
        and endpoint.id = delivery.endpoint_id and endpoint.state <> 'removed'
    )`
}
