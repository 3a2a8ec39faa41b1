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

/**
 * The states with a common index. Each condition on `delivery` repeats the condition of the partial index word by word: with
 * a parameter in place of the states, PostgreSQL could not use the index.
 */
const INDEXED_STATES: readonly { readonly states: readonly DeliveryState[]; readonly condition: string }[] = [
  {
    states: ['dead_lettered', 'skipped'],
    condition: "delivery.state in ('dead_lettered', 'skipped')",
  },
  {
    states: ['pending', 'delivered', 'cancelled'],
    condition: "delivery.state in ('pending', 'delivered', 'cancelled')",
  },
]
const STATES: readonly DeliveryState[] = [...INDEXED_STATES.flatMap(({ states }) => states), 'in_flight']

/** The final states. A delivery in a final state can be sent again. */
export const FINAL_STATES: readonly DeliveryState[] = ['delivered', 'dead_lettered', 'skipped', 'cancelled']
/** The condition of the index of types, word by word. */
const IS_FINAL = "delivery.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')"

/** Builds a query of the ids of the selected deliveries, in order. The query may return more rows than the limit. */
export function selectDeliveries(sql: Sql, selection: DeliverySelection): Fragment {
  return sql`
    select found.id from (${selectRanges(sql, selection)}) as found
    order by found.id ${direction(sql, selection)}
    limit ${literalLimit(sql, selection.limit)}`
}

/**
 * Builds the query of {@link selectDeliveries} without the final order, for counts: up to the limit from each state and
 * endpoint. Without a filter the log is read along the primary key. With a filter each state and endpoint is a range of an
 * index, and the limit applies to each range, so that no range is read further than the whole selection can need.
 */
export function selectRanges(sql: Sql, selection: DeliverySelection): Fragment {
  const { filter } = selection
  if (filter.eventId !== undefined) return selectOfEvent(sql, selection, filter.eventId)
  if (filter.states === undefined && filter.endpointId === undefined && filter.type === undefined)
    return selectRange(sql, selection, sql``)
  const wanted = new Set(filter.states ?? STATES)
  const ofType = FINAL_STATES.filter((state) => filter.type !== undefined && wanted.delete(state))
  const parts = INDEXED_STATES.flatMap(({ states, condition }) => {
    const some = states.filter((state) => wanted.has(state))
    return some.length === 0 ? [] : [selectByState(sql, selection, some, sql.unsafe(condition))]
  })
  if (ofType.length > 0) parts.push(selectByType(sql, selection, ofType))
  if (wanted.has('in_flight')) parts.push(selectInFlight(sql, selection))
  return parts.reduce(
    (all, part) => sql`${all} union all ${part}`,
    sql`(select null::text as id where false)`,
  )
}

/** Walks from endpoint to endpoint of each state, with one descent of the index for each, unless the filter names an endpoint. */
function selectByState(
  sql: Sql,
  selection: DeliverySelection,
  states: readonly DeliveryState[],
  indexed: Fragment,
): Fragment {
  const { organizationId, filter } = selection
  const wanted = sql`pg_catalog.unnest(${textArray(sql, states)}) as wanted (state)`
  const range = selectRange(
    sql,
    selection,
    sql`and delivery.state = queue.state and ${indexed} and delivery.endpoint_id = queue.endpoint_id`,
  )
  if (filter.endpointId !== undefined) {
    const queue = sql`(select wanted.state, ${filter.endpointId}::text collate "C" as endpoint_id from ${wanted}) as queue`
    return sql`(select found.id from ${queue}, lateral (${range}) as found)`
  }
  const following = (state: Fragment, after: Fragment): Fragment => sql`(
    select delivery.endpoint_id from business_api.deliveries delivery
    where delivery.organization_id = ${organizationId}::text and delivery.state = ${state} and ${indexed} ${after}
    order by delivery.endpoint_id limit 1
  )`
  return sql`(
    with recursive queue as (
      select wanted.state, ${following(sql`wanted.state`, sql``)} as endpoint_id from ${wanted}
      union all
      select queue.state, ${following(sql`queue.state`, sql`and delivery.endpoint_id > queue.endpoint_id`)}
      from queue where queue.endpoint_id is not null
    )
    select found.id from queue, lateral (${range}) as found where queue.endpoint_id is not null
  )`
}

/** Walks from endpoint to endpoint of the filter's type, unless the filter names an endpoint. */
function selectByType(sql: Sql, selection: DeliverySelection, states: readonly DeliveryState[]): Fragment {
  const { organizationId, filter } = selection
  const isFinal = sql.unsafe(IS_FINAL)
  const some =
    states.length === FINAL_STATES.length ? sql`` : sql`and delivery.state = any (${textArray(sql, states)})`
  const range = (endpointId: Fragment): Fragment =>
    selectRange(sql, selection, sql`and ${isFinal} ${some} and delivery.endpoint_id = ${endpointId}`)
  if (filter.endpointId !== undefined) return sql`(${range(sql`${filter.endpointId}::text`)})`
  const following = (after: Fragment): Fragment => sql`(
    select delivery.endpoint_id from business_api.deliveries delivery
    where delivery.organization_id = ${organizationId}::text and ${isFinal} ${matchType(sql, filter)} ${after}
    order by delivery.endpoint_id limit 1
  )`
  return sql`(
    with recursive queue as (
      select ${following(sql``)} as endpoint_id
      union all
      select ${following(sql`and delivery.endpoint_id > queue.endpoint_id`)}
      from queue where queue.endpoint_id is not null
    )
    select found.id from queue, lateral (${range(sql`queue.endpoint_id`)}) as found where queue.endpoint_id is not null
  )`
}

/** Selects deliveries of an event: at most one for each endpoint, so that the whole set is read. */
function selectOfEvent(sql: Sql, selection: DeliverySelection, eventId: string): Fragment {
  const { endpointId, states } = selection.filter
  const conditions = sql`
    ${endpointId === undefined ? sql`` : sql`and delivery.endpoint_id = ${endpointId}::text`}
    ${states === undefined ? sql`` : sql`and delivery.state = any (${textArray(sql, states)})`}`
  return sql`(
    with of_event as materialized (
      select * from business_api.deliveries delivery where delivery.event_id = ${eventId}::text
    )
    ${selectRange(sql, selection, conditions, sql`of_event`)}
  )`
}

/** Reads all deliveries in flight: never more than the slots of all processes together. */
function selectInFlight(sql: Sql, selection: DeliverySelection): Fragment {
  const { filter } = selection
  const endpoint =
    filter.endpointId === undefined ? sql`` : sql`and delivery.endpoint_id = ${filter.endpointId}::text`
  return sql`(
    with in_flight as materialized (
      select * from business_api.deliveries delivery where delivery.state = 'in_flight'
    )
    ${selectRange(sql, selection, endpoint, sql`in_flight`)}
  )`
}

/** Selects the deliveries of a range that match the rest of the filter, in order, up to the limit. */
function selectRange(
  sql: Sql,
  selection: DeliverySelection,
  range: Fragment,
  source: Fragment = sql`business_api.deliveries`,
): Fragment {
  const { organizationId, filter, limit, before = null, isRecoverable = false } = selection
  return sql`
    select delivery.id from ${source} delivery
    where delivery.organization_id = ${organizationId}::text
      ${range}
      ${matchPeriod(sql, filter)}
      ${before === null ? sql`` : sql`and delivery.id < ${before}::text`}
      ${matchType(sql, filter)}
      ${isRecoverable ? matchKeptEndpoint(sql) : sql``}
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
export function matchPeriod(sql: Sql, { since, until }: DeliveryFilter): Fragment {
  return sql`
    ${since === undefined ? sql`` : sql`and delivery.created_at >= ${since}::text::timestamptz and delivery.id >= ${idPrefixAt('dlv', Date.parse(since))}::text`}
    ${until === undefined ? sql`` : sql`and delivery.created_at < ${until}::text::timestamptz and delivery.id < ${idPrefixAt('dlv', Date.parse(until) + LATE_ID_MS)}::text`}`
}

/** Builds the condition of the filter's type. */
export function matchType(sql: Sql, { type }: DeliveryFilter): Fragment {
  return type === undefined ? sql`` : sql`and delivery.type = ${type}::text`
}

/** Builds the condition that a delivery's endpoint is not removed. */
export function matchKeptEndpoint(sql: Sql): Fragment {
  return sql`
    and exists (
      select 1 from business_api.webhook_endpoints endpoint
      where endpoint.organization_id = delivery.organization_id
        and endpoint.id = delivery.endpoint_id and endpoint.state <> 'removed'
    )`
}
