import type { Fragment, ISql as Sql } from 'postgres'
import type { DeliveryState } from '../webhooks/deliveries.ts'
import type {
  EventFilter,
  EventLogStore,
  EventNote,
  LoggedEvent,
  LoggedEventBody,
  LoggedEvents,
  WriteMark,
} from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import type { Database } from './connection/database.ts'
import { deliveriesOf } from './statements/delivery-selection.ts'
import { isoTimestamp, textArray } from './statements/fragments.ts'

/** Events that a page with a type inspects at most: there is no index by type, which every event would pay for. */
const INSPECTED_MAX = 5000

/** Creates the slice of the event log in PostgreSQL: every read is a range of events_log_idx, or of the primary key. */
export function createEventLogStore(database: Database): EventLogStore {
  return {
    list: (organizationId, filter, limit, before) =>
      listEvents(database, organizationId, filter, limit, before),

    async get(organizationId, eventId) {
      const [event, states] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select
            (
              select pg_catalog.row_to_json(item)::text from (
                select ${columns(sql)}, event.body from business_api.events event
                where event.organization_id = ${organizationId}::text and event.id = ${eventId}::text
              ) as item
            ),
            (
              select coalesce(pg_catalog.json_agg(delivery.state), '[]')::text
              from business_api.events event
              cross join lateral ${deliveriesOf(sql, 'event')} as delivery
              where event.organization_id = ${organizationId}::text and event.id = ${eventId}::text
            ),
            ${answerTag}`,
      )
      const found = JSON.parse(event ?? 'null') as Omit<LoggedEventBody, 'deliveries'> | null
      const deliveries = countStates(JSON.parse(states ?? '[]') as DeliveryState[])
      return found && { ...found, deliveries }
    },

    async listSince(organizationId, since, limit, after) {
      const [notes] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select coalesce(pg_catalog.json_agg(item), '[]')::text, ${answerTag} from (
            select ${preciseTime(sql)} as at, event.id, event.type, event.only_endpoint_id as "onlyEndpointId"
            from business_api.events event
            where event.organization_id = ${organizationId}::text
              and event.created_at >= ${since}::text::timestamptz
              ${after === null ? sql`` : sql`and (event.created_at, event.id) > (${after.at}::text::timestamptz, ${after.id}::text)`}
            order by event.created_at, event.id
            limit ${limit}::int
          ) as item`,
      )
      return JSON.parse(notes ?? '[]') as EventNote[]
    },

    async read(organizationId, eventIds) {
      const [events] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select coalesce(pg_catalog.json_agg(item), '[]')::text, ${answerTag} from (
            select event.id, event.type, ${isoTimestamp(sql, 'event.created_at')} as "createdAt", event.body
            from business_api.events event
            where event.organization_id = ${organizationId}::text and event.id = any (${textArray(sql, eventIds)})
          ) as item`,
      )
      return JSON.parse(events ?? '[]') as EventRecord[]
    },

    async mark(organizationId) {
      // A transaction id of its own, because the greatest id of a snapshot follows from the ended transactions: one that is open
      // may have a greater id. An id costs a few bytes of the write-ahead log, and no wait for the disk.
      const [mark] = await database.rowFor(
        organizationId,
        (sql, answerTag) => sql`
          select
            pg_catalog.json_build_object(
              'at', extract(epoch from clock_timestamp()) * 1000,
              'begun', pg_catalog.pg_current_xact_id()::text,
              'ended', pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text
            )::text,
            ${answerTag}`,
      )
      return JSON.parse(mark ?? 'null') as WriteMark
    },
  }
}

async function listEvents(
  database: Database,
  organizationId: string,
  filter: EventFilter,
  limit: number,
  before: string | null,
): Promise<LoggedEvents> {
  const inspectedMax = filter.type === undefined ? limit + 1 : INSPECTED_MAX
  const [found, inspected, last, states] = await database.rowFor(
    organizationId,
    (sql, answerTag) => sql`
      with inspected as materialized (
        select *, row_number() over (order by created_at desc, id desc) as place
        from (${selectNewest(sql, organizationId, filter, inspectedMax, before)}) as newest
      ), matched as materialized (
        select * from inspected
        where true ${filter.type === undefined ? sql`` : sql`and type = ${filter.type}::text`}
        order by place
        limit ${limit + 1}::int
      ), of_events as materialized (
        select event.id as event_id, delivery.state
        from matched event
        cross join lateral ${deliveriesOf(sql, 'event')} as delivery
      )
      select
        (
          select coalesce(pg_catalog.json_agg(item), '[]')::text from (
            select ${columns(sql)} from matched event order by event.place
          ) as item
        ),
        (select count(*)::text from inspected),
        (select id from inspected order by place desc limit 1),
        (
          select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(event_id, state)), '[]')::text from of_events
        ),
        ${answerTag}`,
  )
  const rows = JSON.parse(found ?? '[]') as Omit<LoggedEvent, 'deliveries'>[]
  const pairs = JSON.parse(states ?? '[]') as [eventId: string, state: DeliveryState][]
  const events = rows.slice(0, limit).map((row): LoggedEvent => {
    const own = pairs.filter(([eventId]) => eventId === row.id)
    return { ...row, deliveries: countStates(own.map(([, state]) => state)) }
  })
  const isCut = Number(inspected) === inspectedMax
  const next = rows.length > limit ? events.at(-1)?.id : isCut ? last : null
  return { events, next: next ?? null }
}

/** Builds the query of the newest events of a period, after the place of the last event of the previous page. */
function selectNewest(
  sql: Sql,
  organizationId: string,
  { since, until }: EventFilter,
  limit: number,
  before: string | null,
): Fragment {
  const newest = (place: Fragment): Fragment => sql`
    select
      event.organization_id, event.id, event.delivery_prefix, event.type, event.created_at, event.only_endpoint_id
    from business_api.events event
    where event.organization_id = ${organizationId}::text
      ${since === undefined ? sql`` : sql`and event.created_at >= ${since}::text::timestamptz`}
      ${until === undefined ? sql`` : sql`and event.created_at < ${until}::text::timestamptz`}
      ${place}
    order by event.created_at desc, event.id desc
    limit ${limit}::int`
  if (before === null) return newest(sql``)
  return sql`
    select older.*
    from (
      select id, created_at from business_api.events
      where organization_id = ${organizationId}::text and id = ${before}::text
    ) as place
    cross join lateral (${newest(sql`and (event.created_at, event.id) < (place.created_at, place.id)`)}) as older`
}

function columns(sql: Sql): Fragment {
  return sql`
    event.id, event.type, ${isoTimestamp(sql, 'event.created_at')} as "createdAt",
    event.only_endpoint_id as "onlyEndpointId"`
}

/** Microseconds: a place that was cut to milliseconds would come before events that were read already. */
function preciseTime(sql: Sql): Fragment {
  return sql`pg_catalog.to_char(event.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

function countStates(states: readonly DeliveryState[]): LoggedEvent['deliveries'] {
  const counts: Partial<Record<DeliveryState, number>> = {}
  for (const state of states) counts[state] = (counts[state] ?? 0) + 1
  return counts
}
