import type { Fragment, ISql as Sql } from 'postgres'
import { idPrefixAt } from '../../base/ids.ts'
import type { DeliveryFilter } from '../../webhooks/deliveries.ts'
import { textArray } from './fragments.ts'

// Selects deliveries by filter, using the delivery log's indexes. The cost depends on the number of selected
// deliveries, not on the size of the table.

/** Selects an organization's deliveries, latest ID first. */
export interface DeliverySelection {
  readonly organizationId: string
  readonly filter: DeliveryFilter
  /** Maximum number of deliveries. */
  readonly limit: number
  /** If set, only deliveries with lower IDs are selected. */
  readonly before?: string | null
  /** If `true`, deliveries to removed endpoints are excluded. Defaults to `false`. */
  readonly isRecoverable?: boolean
}

/** Builds a table with the delivery with this ID. */
export function deliveryOfId(sql: Sql, organizationId: string, id: Fragment): Fragment {
  return sql`(
    select delivery.* from business_api.list_open_deliveries(${organizationId}::text, '{}', ${id}, ${id} || '!', 1) as delivery
    union all
    select (business_api.log_finished(delivery)).* from business_api.finished_deliveries delivery
    where delivery.organization_id = ${organizationId}::text and delivery.id = ${id}
  )`
}

/**
 * Builds a table of the selected deliveries, possibly with more rows than the limit. Without a filter, the log is
 * scanned by primary key. With a filter, each state and endpoint is a separate index range with its own limit, so we
 * never read more than the whole selection might need.
 */
export function selectRows(sql: Sql, selection: DeliverySelection): Fragment {
  const { organizationId, filter, isRecoverable = false } = selection
  const kept = isRecoverable ? keptEndpoint(sql, organizationId) : sql``
  if (isOfEvents(filter)) {
    return sql`(select delivery.* from ${selectOfEvents(sql, selection)} as delivery ${kept})`
  }
  return sql`(
    select delivery.* from business_api.list_open_deliveries(${selected(sql, selection)}) as delivery ${kept}
    union all
    select delivery.* from ${listFinished(sql, selection)} as delivery
  )`
}

/** Builds a table of finished deliveries. See sql/38-delivery-log.sql. */
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

function isOfEvents({ eventId, subjectId }: DeliveryFilter): boolean {
  return eventId !== undefined || subjectId !== undefined
}

/** Selects all deliveries of an event, or of a record's events, since there's only one per endpoint and event. */
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

/** Tolerance for rows not written by `insert_events`, which uses the same time for a delivery's ID and `created_at`. */
const LATE_ID_MS = 5 * 60 * 1000

/**
 * Returns a selection's first ID, and the one after the last. The time in an ID may be later than `created_at`, which
 * is the start of the transaction, but is never earlier.
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

/** Builds a table of the events with these IDs. */
export function findEvents(sql: Sql, organizationId: string, eventIds: readonly string[]): Fragment {
  return sql`business_api.find_events(${organizationId}::text, ${textArray(sql, eventIds)})`
}

/**
 * Builds a table of an event's deliveries, for statements with a single event. PostgreSQL only plans for that event's
 * day, so a new session doesn't have to plan for all days.
 */
export function deliveriesOfOne(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_events(${row}.organization_id, array[${row}.id], array[${row}.delivery_prefix])`
}

/** Builds a table of an event's deliveries, for statements with many events. */
export function deliveriesOf(sql: Sql, event: string): Fragment {
  const row = sql.unsafe(event)
  return sql`business_api.deliveries_of_event(${row}.organization_id, ${row}.id, ${row}.delivery_prefix)`
}

/** Builds the condition that a delivery's endpoint hasn't been removed. */
function keptEndpoint(sql: Sql, organizationId: string): Fragment {
  return sql`
    where exists (
      select 1 from business_api.webhook_endpoints endpoint
      where endpoint.organization_id = ${organizationId}::text
        and endpoint.id = delivery.endpoint_id and endpoint.state <> 'removed'
    )`
}
