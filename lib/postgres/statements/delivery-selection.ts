import type { Fragment, ISql as Sql } from 'postgres'
import { idPrefixAt } from '../../base/ids.ts'
import type { DeliveryFilter, DeliveryState } from '../../webhooks/deliveries.ts'
import { literalLimit, textArray } from './fragments.ts'

// Selects the deliveries that match a filter by the indexes of the delivery log. The cost of a selection depends on the
// number of deliveries selected, not on the size of the table.

/** Deliveries of one organization, in the order of the ids. */
export interface DeliverySelection {
  readonly organizationId: string
  readonly filter: DeliveryFilter
  /** Greatest number of deliveries to select. */
  readonly limit: number
  readonly order: 'newest' | 'oldest'
  /** Only deliveries with a smaller id; null: all. Default null. */
  readonly before?: string | null
  /** Only deliveries of endpoints that are not removed. Default false. */
  readonly isRecoverable?: boolean
}

/** The final states. A delivery in a final state can be sent again. */
export const FINAL_STATES: readonly DeliveryState[] = ['delivered', 'failed', 'skipped', 'cancelled']
const OPEN_STATES: readonly DeliveryState[] = ['pending', 'sending']

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
    from business_api.list_open_deliveries(
      ${organizationId}::text, null, null, true, true, null, null, ${id}, ${id} || '!', 1
    ) as delivery
    union all
    select ${sql.unsafe(FINISHED_COLUMNS)} from business_api.finished_deliveries delivery
    where delivery.organization_id = ${organizationId}::text and delivery.id = ${id}
  )`
}

/** Builds the table of the selected deliveries, in the columns of the delivery log. The table may have more rows than the limit. */
export function selectRows(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter } = selection
  if (filter.eventId !== undefined) {
    return sql`(
      select delivery.* from (${selectDeliveries(sql, selection)}) as selected
      cross join lateral ${deliveryOfId(sql, organizationId, sql`selected.id`)} as delivery
    )`
  }
  const finished = finishedStatesOf(selection)
  return sql`(
    select ${sql.unsafe(OPEN_COLUMNS)} from ${listOpen(sql, selection)} as delivery
    ${
      finished.length === 0
        ? sql``
        : sql`
          union all
          select ${sql.unsafe(FINISHED_COLUMNS)} from ${listFinished(sql, selection, finished)} as delivery`
    }
  )`
}

/** Builds a query of the ids of the selected deliveries, in order. The query may return more rows than the limit. */
export function selectDeliveries(sql: Sql, selection: DeliverySelection): Fragment {
  return sql`
    select found.id from (${selectRanges(sql, selection)}) as found
    order by found.id ${direction(sql, selection)}
    limit ${literalLimit(sql, selection.limit)}`
}

/**
 * Builds the query of {@link selectDeliveries} without the final order, for counts: up to the limit from each range of an index.
 * Without a filter the log is read along the primary keys. With a filter each state and endpoint is a range of an index, and the
 * limit applies to each range, so that no range is read further than the whole selection can need.
 */
export function selectRanges(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter, isRecoverable = false } = selection
  if (filter.eventId !== undefined) return selectOfEvent(sql, selection, filter.eventId)
  const finished = finishedStatesOf(selection)
  return sql`
    (
      select delivery.id from ${listOpen(sql, selection)} as delivery
      where true ${isRecoverable ? matchKeptEndpoint(sql, organizationId) : sql``}
    )
    ${finished.length === 0 ? sql`` : sql`union all (select delivery.id from ${listFinished(sql, selection, finished)} as delivery)`}`
}

function finishedStatesOf({ filter }: DeliverySelection): readonly DeliveryState[] {
  return FINAL_STATES.filter((state) => filter.states?.includes(state) ?? true)
}

/** Builds the table of the open deliveries: see sql/38-delivery-log.sql. */
function listOpen(sql: Sql, { organizationId, filter, limit, before = null }: DeliverySelection): Fragment {
  const { endpointId = null, type = null, states, since = null, until = null } = filter
  const [hasPending = '', hasInFlight = ''] = OPEN_STATES.map((state) =>
    String(states?.includes(state) ?? true),
  )
  const { firstId, endId } = idsOf(filter)
  const end = before === null || before > endId ? endId : before
  return sql`
    business_api.list_open_deliveries(
      ${organizationId}::text, ${endpointId}::text, ${type}::text, ${hasPending}::text::boolean,
      ${hasInFlight}::text::boolean, ${since}::text::timestamptz, ${until}::text::timestamptz, ${firstId}::text, ${end}::text,
      ${limit}::int
    )`
}

/** Builds the table of the finished deliveries: see sql/38-delivery-log.sql. */
function listFinished(
  sql: Sql,
  { organizationId, filter, limit, order, before = null, isRecoverable = false }: DeliverySelection,
  states: readonly DeliveryState[],
): Fragment {
  const { endpointId = null, type = null, since = null, until = null } = filter
  const { firstId, endId } = idsOf(filter)
  const end = before === null || before > endId ? endId : before
  return sql`
    business_api.${sql.unsafe(`list_${order}_finished`)}(
      ${organizationId}::text, ${endpointId}::text, ${textArray(sql, states)}, ${type}::text, ${since}::text::timestamptz,
      ${until}::text::timestamptz, ${firstId}::text, ${end}::text, ${limit}::int, ${String(isRecoverable)}::text::boolean
    )`
}

/** Selects deliveries of an event: at most one for each endpoint, so that the whole set is read. */
function selectOfEvent(sql: Sql, selection: DeliverySelection, eventId: string): Fragment {
  const { organizationId, filter } = selection
  const { endpointId, states } = filter
  const conditions = sql`
    ${endpointId === undefined ? sql`` : sql`and delivery.endpoint_id = ${endpointId}::text`}
    ${states === undefined ? sql`` : sql`and delivery.state = any (${textArray(sql, states)})`}`
  return sql`
    with of_event as materialized (
      select event.organization_id, found.id collate "C" as id, found.type, found.endpoint_id, found.state, found.created_at
      from ${findEvents(sql, organizationId, [eventId])} as event
      cross join lateral ${deliveriesOfOne(sql, 'event')} as found
    )
    ${selectRange(sql, selection, conditions)}`
}

/** Selects the deliveries of an event that match the rest of the filter, in order, up to the limit. */
function selectRange(sql: Sql, selection: DeliverySelection, range: Fragment): Fragment {
  const { organizationId, filter, limit, before = null, isRecoverable = false } = selection
  return sql`
    select delivery.id from of_event delivery
    where delivery.organization_id = ${organizationId}::text
      ${range}
      ${matchPeriod(sql, filter)}
      ${before === null ? sql`` : sql`and delivery.id < ${before}::text`}
      ${matchType(sql, filter)}
      ${isRecoverable ? matchKeptEndpoint(sql, organizationId) : sql``}
    order by delivery.id ${direction(sql, selection)}
    limit ${literalLimit(sql, limit)}`
}

function direction(sql: Sql, { order }: DeliverySelection): Fragment {
  return order === 'newest' ? sql`desc` : sql`asc`
}

/** Tolerance for rows that `insert_events` did not write; that function gives a delivery's id and `created_at` the same time. */
const LATE_ID_MS = 5 * 60 * 1000

/**
 * Builds the condition that deliveries were created in the filter's period: on `created_at`, and as bounds of the ids, because
 * an id begins with a time. The time of an id may be later than `created_at`, which is the beginning of the transaction, but
 * never earlier.
 */
function matchPeriod(sql: Sql, filter: DeliveryFilter): Fragment {
  const { since, until } = filter
  const { firstId, endId } = idsOf(filter)
  return sql`
    ${since === undefined ? sql`` : sql`and delivery.created_at >= ${since}::text::timestamptz and delivery.id >= ${firstId}::text`}
    ${until === undefined ? sql`` : sql`and delivery.created_at < ${until}::text::timestamptz and delivery.id < ${endId}::text`}`
}

/** Returns the bounds of the ids of a period: the first, and one beyond the last. */
function idsOf({ since, until }: DeliveryFilter): { readonly firstId: string; readonly endId: string } {
  return {
    firstId: since === undefined ? '' : idPrefixAt('dlv', Date.parse(since)),
    endId: until === undefined ? '~' : idPrefixAt('dlv', Date.parse(until) + LATE_ID_MS),
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

/** Builds the condition of the filter's type. */
function matchType(sql: Sql, { type }: DeliveryFilter): Fragment {
  return type === undefined ? sql`` : sql`and delivery.type = ${type}::text`
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
