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
export const FINAL_STATES: readonly DeliveryState[] = ['delivered', 'dead_lettered', 'skipped', 'cancelled']
const OPEN_STATES: readonly DeliveryState[] = ['pending', 'in_flight']
/**
 * The condition of the indexes of finished deliveries, word by word: with a parameter in place of the states, PostgreSQL could not
 * use an index.
 */
const IS_FINISHED = "delivery.state in ('delivered', 'dead_lettered', 'skipped', 'cancelled')"

/** The columns of the delivery log, of each table. */
const OPEN_COLUMNS = `
  delivery.organization_id, delivery.id, delivery.event_id, delivery.type, delivery.endpoint_id,
  case when delivery.claim_token is null then 'pending' else 'in_flight' end as state, null as reason,
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
          select ${sql.unsafe(FINISHED_COLUMNS)}
          from (
            select found.id from (${selectFinished(sql, selection, finished)}) as found
            order by found.id ${direction(sql, selection)}
            limit ${literalLimit(sql, selection.limit)}
          ) as selected
          join business_api.finished_deliveries delivery
            on delivery.organization_id = ${organizationId}::text and delivery.id = selected.id`
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
  const { filter, isRecoverable = false } = selection
  if (filter.eventId !== undefined) return selectOfEvent(sql, selection, filter.eventId)
  const finished = finishedStatesOf(selection)
  return sql`
    (
      select delivery.id from ${listOpen(sql, selection)} as delivery
      where true ${isRecoverable ? matchKeptEndpoint(sql) : sql``}
    )
    ${finished.length === 0 ? sql`` : sql`union all (${selectFinished(sql, selection, finished)})`}`
}

function finishedStatesOf({ filter }: DeliverySelection): readonly DeliveryState[] {
  return FINAL_STATES.filter((state) => filter.states?.includes(state) ?? true)
}

/** Builds the table of the open deliveries: see sql/0015-deliveries.sql. */
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

function selectFinished(sql: Sql, selection: DeliverySelection, states: readonly DeliveryState[]): Fragment {
  const { type, endpointId } = selection.filter
  if (type !== undefined) return selectByType(sql, selection, states)
  const isWhole = endpointId === undefined && states.length === FINAL_STATES.length
  return isWhole ? selectRange(sql, selection, sql``) : selectByState(sql, selection, states)
}

/** Walks from endpoint to endpoint of each state, with one descent of the index for each, unless the filter names an endpoint. */
function selectByState(sql: Sql, selection: DeliverySelection, states: readonly DeliveryState[]): Fragment {
  const { organizationId, filter } = selection
  const isFinished = sql.unsafe(IS_FINISHED)
  const wanted = sql`pg_catalog.unnest(${textArray(sql, states)}) as wanted (state)`
  const range = selectRange(
    sql,
    selection,
    sql`and delivery.state = walk.state and ${isFinished} and delivery.endpoint_id = walk.endpoint_id`,
  )
  if (filter.endpointId !== undefined) {
    const walk = sql`(select wanted.state, ${filter.endpointId}::text collate "C" as endpoint_id from ${wanted}) as walk`
    return sql`select found.id from ${walk}, lateral (${range}) as found`
  }
  const following = (state: Fragment, after: Fragment): Fragment => sql`(
    select delivery.endpoint_id from business_api.finished_deliveries delivery
    where delivery.organization_id = ${organizationId}::text and delivery.state = ${state} and ${isFinished} ${after}
    order by delivery.endpoint_id limit 1
  )`
  return sql`
    with recursive walk as (
      select wanted.state, ${following(sql`wanted.state`, sql``)} as endpoint_id from ${wanted}
      union all
      select walk.state, ${following(sql`walk.state`, sql`and delivery.endpoint_id > walk.endpoint_id`)}
      from walk where walk.endpoint_id is not null
    )
    select found.id from walk, lateral (${range}) as found where walk.endpoint_id is not null`
}

/** Walks from endpoint to endpoint of the filter's type, unless the filter names an endpoint. */
function selectByType(sql: Sql, selection: DeliverySelection, states: readonly DeliveryState[]): Fragment {
  const { organizationId, filter } = selection
  const isFinished = sql.unsafe(IS_FINISHED)
  const some =
    states.length === FINAL_STATES.length ? sql`` : sql`and delivery.state = any (${textArray(sql, states)})`
  const range = (endpointId: Fragment): Fragment =>
    selectRange(sql, selection, sql`and ${isFinished} ${some} and delivery.endpoint_id = ${endpointId}`)
  if (filter.endpointId !== undefined) return range(sql`${filter.endpointId}::text`)
  const following = (after: Fragment): Fragment => sql`(
    select delivery.endpoint_id from business_api.finished_deliveries delivery
    where delivery.organization_id = ${organizationId}::text and ${isFinished} ${matchType(sql, filter)} ${after}
    order by delivery.endpoint_id limit 1
  )`
  return sql`
    with recursive walk as (
      select ${following(sql``)} as endpoint_id
      union all
      select ${following(sql`and delivery.endpoint_id > walk.endpoint_id`)}
      from walk where walk.endpoint_id is not null
    )
    select found.id from walk, lateral (${range(sql`walk.endpoint_id`)}) as found where walk.endpoint_id is not null`
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
      from business_api.events event
      cross join lateral ${deliveriesOf(sql, 'event')} as found
      where event.organization_id = ${organizationId}::text and event.id = ${eventId}::text
    )
    ${selectRange(sql, selection, conditions, 'of_event')}`
}

/** Selects the deliveries of a range that match the rest of the filter, in order, up to the limit. */
function selectRange(
  sql: Sql,
  selection: DeliverySelection,
  range: Fragment,
  source = 'business_api.finished_deliveries',
): Fragment {
  const { organizationId, filter, limit, before = null, isRecoverable = false } = selection
  return sql`
    select delivery.id from ${sql.unsafe(source)} delivery
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
export function matchPeriod(sql: Sql, filter: DeliveryFilter): Fragment {
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

/** Builds the table of the deliveries of an event, given the name of the event's table. */
export function deliveriesOf(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_event(${row}.organization_id, ${row}.id, ${row}.delivery_prefix)`
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
