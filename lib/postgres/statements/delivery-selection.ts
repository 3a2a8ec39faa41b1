import type { Fragment, ISql as Sql } from 'postgres'
import { idPrefixAt } from '../../base/ids.ts'
import type { DeliveryFilter, DeliveryState } from '../../webhooks/deliveries.ts'
import { textArray } from './fragments.ts'

// Which deliveries a filter selects, found by the indexes of the delivery log: what a selection reads depends on how many
// deliveries it gives, not on how many there are. A condition on the type of event is the exception.

/** Deliveries of one organization, in the order of their ids. */
export interface DeliverySelection {
  readonly organizationId: string
  readonly filter: DeliveryFilter
  /** Deliveries that are needed at most. */
  readonly limit: number
  readonly order: 'newest' | 'oldest'
  /** Only deliveries with a smaller id; null: all. Default null. */
  readonly before?: string | null
  /** Only deliveries of endpoints that are not removed. Default false. */
  readonly isRecoverable?: boolean
}

/**
 * The states with a common index. Each is a condition on `delivery` in the index's own words: with a parameter in the place
 * of the states a plan could not use the index.
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

/** A query of the ids of the deliveries that are selected, in order; somewhat more than the limit. */
export function selectDeliveries(sql: Sql, selection: DeliverySelection): Fragment {
  return sql`
    select found.id from (${selectRanges(sql, selection)}) as found
    order by found.id ${direction(sql, selection)}
    limit ${literalLimit(sql, selection.limit)}`
}

/**
 * The query of {@link selectDeliveries} without its order, for counts: up to the limit of each state and endpoint. The whole
 * log is read along the primary key; anything else range by range, one for each state and endpoint, as the limit has to end
 * a range where it ends the whole.
 */
export function selectRanges(sql: Sql, selection: DeliverySelection): Fragment {
  const { filter } = selection
  if (filter.eventId !== undefined) return selectOfEvent(sql, selection, filter.eventId)
  if (filter.states === undefined && filter.endpointId === undefined)
    return selectRange(sql, selection, sql``)
  const wanted = new Set(filter.states ?? STATES)
  const parts = INDEXED_STATES.flatMap(({ states, condition }) => {
    const some = states.filter((state) => wanted.has(state))
    return some.length === 0 ? [] : [selectByState(sql, selection, some, sql.unsafe(condition))]
  })
  if (wanted.has('in_flight')) parts.push(selectInFlight(sql, selection))
  return parts.reduce(
    (all, part) => sql`${all} union all ${part}`,
    sql`(select null::text as id where false)`,
  )
}

/** Steps from endpoint to endpoint of each state, one descent of the index each, unless the filter names an endpoint. */
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

/** An event has at most one delivery for each endpoint. */
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

/** All that are in flight are at most as many as the processes have slots for. */
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

/** The deliveries of a range that the rest of the filter lets through, in order, up to the limit. */
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
      ${filter.type === undefined ? sql`` : matchType(sql, filter.type)}
      ${isRecoverable ? matchKeptEndpoint(sql) : sql``}
    order by delivery.id ${direction(sql, selection)}
    limit ${literalLimit(sql, limit)}`
}

/**
 * The limit as a number of the text: with a parameter, a plan for any values would count on a tenth of the table, and read all
 * of it. Rounded up, so that there are few texts.
 */
function literalLimit(sql: Sql, limit: number): Fragment {
  let rounded = 64
  while (rounded < limit) rounded *= 4
  return sql.unsafe(String(rounded))
}

function direction(sql: Sql, { order }: DeliverySelection): Fragment {
  return order === 'newest' ? sql`desc` : sql`asc`
}

/** Allowed for rows that did not come from `insert_events`, which gives a delivery's id and `created_at` one time. */
const LATE_ID_MS = 5 * 60 * 1000

/**
 * The condition that deliveries were created in the filter's period: as the filter says it, and as bounds of the ids, which
 * begin with their time. An id may be later than `created_at`, where that is the begin of a long transaction, but not earlier.
 */
export function matchPeriod(sql: Sql, { since, until }: DeliveryFilter): Fragment {
  return sql`
    ${since === undefined ? sql`` : sql`and delivery.created_at >= ${since}::text::timestamptz and delivery.id >= ${idPrefixAt('dlv', Date.parse(since))}::text`}
    ${until === undefined ? sql`` : sql`and delivery.created_at < ${until}::text::timestamptz and delivery.id < ${idPrefixAt('dlv', Date.parse(until) + LATE_ID_MS)}::text`}`
}

/**
 * The condition that a delivery is of a type of event: read for each delivery by the event's key, as a join could begin with
 * the events where statistics are missing.
 */
export function matchType(sql: Sql, type: string): Fragment {
  return sql`
    and (
      select event.type from business_api.events event
      where event.organization_id = delivery.organization_id and event.id = delivery.event_id
      limit 1
    ) = ${type}::text`
}

/** The condition that a delivery's endpoint is not removed. */
export function matchKeptEndpoint(sql: Sql): Fragment {
  return sql`
    and exists (
      select 1 from business_api.webhook_endpoints endpoint
      where endpoint.organization_id = delivery.organization_id
        and endpoint.id = delivery.endpoint_id and endpoint.state <> 'removed'
    )`
}
