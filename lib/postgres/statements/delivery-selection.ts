import type { Fragment, ISql as Sql } from 'postgres'
import { idPrefixAt } from '../../base/ids.ts'
import type { DeliveryFilter } from '../../webhooks/deliveries.ts'
import { literalLimit, textArray } from './fragments.ts'

// Selects the deliveries that match a filter by the indexes of the delivery log. The cost of a selection depends on the
// number of deliveries selected, not on the size of the table.

/** Deliveries of one organization, the newest id first. */
export interface DeliverySelection {
  readonly organizationId: string
  readonly filter: DeliveryFilter
  /** Greatest number of deliveries to select. */
  readonly limit: number
  /** Only deliveries with a smaller id; null: all. Default null. */
  readonly before?: string | null
  /** Only deliveries of endpoints that are not removed. Default false. */
  readonly isRecoverable?: boolean
}

/** The columns of the delivery log, of each table. */
const OPEN_COLUMNS = `
  delivery.organization_id, delivery.id, delivery.event_id, delivery.type, delivery.endpoint_id,
  case when delivery.claim_token is null then 'pending' else 'sending' end as state, null as reason,
  delivery.attempts, case when delivery.claim_token is null then delivery.due_at end as due_at,
  delivery.created_at, null::timestamptz as finished_at`
const FINISHED_COLUMNS = `
  delivery.organization_id, delivery.id, delivery.event_id, delivery.type, delivery.endpoint_id,
  delivery.state, delivery.reason, delivery.attempts, null::timestamptz as due_at, delivery.created_at, delivery.finished_at`

/** Builds the table of the delivery of an id, in the columns of the delivery log. */
export function deliveryOfId(sql: Sql, organizationId: string, id: Fragment): Fragment {
  return sql`(
    select ${sql.unsafe(OPEN_COLUMNS)}
    from business_api.list_open_deliveries(${organizationId}::text, '{}', ${id}, ${id} || '!', 1) as delivery
    union all
    select ${sql.unsafe(FINISHED_COLUMNS)} from business_api.finished_deliveries delivery
    where delivery.organization_id = ${organizationId}::text and delivery.id = ${id}
  )`
}

/** Builds the table of the selected deliveries, in the columns of the delivery log. The table may have more rows than the limit. */
export function selectRows(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter } = selection
  if (isOfEvents(filter)) {
    return sql`(
      select delivery.* from (${selectOfEvents(sql, selection)}) as selected
      cross join lateral ${deliveryOfId(sql, organizationId, sql`selected.id`)} as delivery
    )`
  }
  return sql`(
    select ${sql.unsafe(OPEN_COLUMNS)} from ${listOpen(sql, selection)} as delivery
    union all
    select ${sql.unsafe(FINISHED_COLUMNS)} from ${listFinished(sql, selection)} as delivery
  )`
}

/**
 * Builds a query of the ids of the selected deliveries, for counts: up to the limit from each range of an index. Without a filter the log
 * is read along the primary keys. With a filter each state and endpoint is a range of an index, and the limit applies to each range, so
 * that no range is read further than the whole selection can need.
 */
export function selectRanges(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter, isRecoverable = false } = selection
  if (isOfEvents(filter)) return selectOfEvents(sql, selection)
  return sql`
    (
      select delivery.id from ${listOpen(sql, selection)} as delivery
      where true ${isRecoverable ? matchKeptEndpoint(sql, organizationId) : sql``}
    )
    union all
    (select delivery.id from ${listFinished(sql, selection)} as delivery)`
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

/** Selects deliveries of an event or of a record's events: at most one for each endpoint and event, so that the whole set is read. */
function selectOfEvents(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter, limit, before = null, isRecoverable = false } = selection
  const { states, eventId = '', subjectId } = filter
  const { firstId, endId } = idsOf(selection)
  const found =
    subjectId === undefined
      ? sql`${findEvents(sql, organizationId, [eventId])} as event cross join lateral ${deliveriesOfOne(sql, 'event')}`
      : sql`business_api.deliveries_of_subject(${organizationId}::text, ${subjectId}::text, ${firstId}::text, ${endId}::text)`
  return sql`
    with of_event as materialized (
      select found.event_id, found.id collate "C" as id, found.type, found.endpoint_id, found.state, found.created_at
      from ${found} as found
    )
    select delivery.id
    from of_event delivery, pg_catalog.jsonb_populate_record(
      null::business_api.delivery_filter, ${JSON.stringify(filter)}::text::jsonb
    ) as filter
    where business_api.is_selected(
        filter, delivery.endpoint_id, delivery.event_id, delivery.type, delivery.created_at
      )
      ${states === undefined ? sql`` : sql`and delivery.state = any (${textArray(sql, states)})`}
      ${before === null ? sql`` : sql`and delivery.id < ${before}::text`}
      ${isRecoverable ? matchKeptEndpoint(sql, organizationId) : sql``}
    order by delivery.id desc
    limit ${literalLimit(sql, limit)}`
}

/** Tolerance for rows that `insert_events` did not write; that function gives a delivery's id and `created_at` the same time. */
const LATE_ID_MS = 5 * 60 * 1000

/**
 * Returns the bounds of the ids of a selection, the first and one beyond the last: an id begins with a time, which may be later than
 * `created_at`, the beginning of the transaction, but never earlier.
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

/** Builds the table of the events of some ids. */
export function findEvents(sql: Sql, organizationId: string, eventIds: readonly string[]): Fragment {
  return sql`business_api.find_events(${organizationId}::text, ${textArray(sql, eventIds)})`
}

/**
 * Builds the table of the deliveries of an event, given the name of the event's table, for a statement with a single event: planned
 * for the day of the event, so that a new session does not plan for all days.
 */
export function deliveriesOfOne(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_events(${row}.organization_id, array[${row}.id], array[${row}.delivery_prefix])`
}

/** Builds the table of the deliveries of an event, given the name of the event's table, for a statement with many events. */
export function deliveriesOf(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_event(${row}.organization_id, ${row}.id, ${row}.delivery_prefix)`
}

/** Builds the condition that a delivery's endpoint is not removed. */
function matchKeptEndpoint(sql: Sql, organizationId: string): Fragment {
  return sql`
    and exists (
      select 1 from business_api.webhook_endpoints endpoint
      where endpoint.organization_id = ${organizationId}::text
        and endpoint.id = delivery.endpoint_id and endpoint.state <> 'removed'
    )`
}
