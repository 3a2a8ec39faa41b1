import { idPrefixAt } from '../base/ids.ts'
import type { DeliveryState } from '../webhooks/deliveries.ts'
import type { EventFilter, EventLogStore, LoggedEventBody, LoggedEvents } from '../webhooks/event-log.ts'
import type { Database } from './connection/database.ts'
import { deliveriesOfOne, findEvents } from './statements/delivery-selection.ts'
import { isoTimestamp } from './statements/fragments.ts'
import { callFor, jsonFor } from './statements/statement.ts'

/** Maximum number of events to read for a page filtered by type, since an index would slow down every insert. */
const INSPECTED_MAX = 5000

/**
 * Creates the PostgreSQL store for the event log. Lists are ranges of `events_log_idx`, and an ID lookup only reads one
 * day's partition. See sql/37-event-log.sql.
 */
export function createEventLogStore(database: Database): EventLogStore {
  return {
    list: (organizationId, filter, limit, before) =>
      listEvents(database, organizationId, filter, limit, before),

    async get(organizationId, eventId) {
      const found = await jsonFor<FoundEvent | null>(
        database,
        organizationId,
        (sql) => sql`(
          select pg_catalog.row_to_json(item)::text from (
            select
              event.id, event.type,
              ${isoTimestamp(sql, 'business_api.published_at(event.delivery_prefix)')} as "createdAt",
              event.subject_id as "subjectId", event.only_endpoint_id as "onlyEndpointId", event.body,
              (
                select coalesce(pg_catalog.json_agg(delivery.state), '[]')
                from ${deliveriesOfOne(sql, 'event')} as delivery
              ) as states
            from ${findEvents(sql, organizationId, [eventId])} as event
          ) as item
        )`,
      )
      if (found === null) return null
      const { states, ...shown } = found
      return { ...shown, deliveries: countStates(states) }
    },

    listSince: (owner, since, limit, after) =>
      callFor(
        database,
        owner,
        'list_events_since(text, text, int)',
        owner,
        after ?? firstPrefixAt(since),
        limit,
      ),

    read: (organizationId, eventIds) =>
      jsonFor(
        database,
        organizationId,
        (sql) => sql`(
          select coalesce(pg_catalog.json_agg(item), '[]')::text from (
            select event.id, event.type, event.body
            from ${findEvents(sql, organizationId, eventIds)} as event
          ) as item
        )`,
      ),

    // Needs its own transaction ID. A snapshot's highest ID only covers transactions that have ended, and a running one
    // may have a higher ID. An ID costs a few bytes of WAL, but no wait for the disk.
    mark: (organizationId) =>
      jsonFor(
        database,
        organizationId,
        (sql) => sql`pg_catalog.json_build_object(
          'at', extract(epoch from clock_timestamp()) * 1000,
          'begun', pg_catalog.pg_current_xact_id()::text,
          'ended', pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text
        )::text`,
      ),
  }
}

type FoundEvent = Omit<LoggedEventBody, 'deliveries'> & { readonly states: readonly DeliveryState[] }

function listEvents(
  database: Database,
  organizationId: string,
  filter: EventFilter,
  limit: number,
  before: string | null,
): Promise<LoggedEvents> {
  const { type = null, subjectId = null, since, until } = filter
  const inspectedMax = type === null ? limit + 1 : INSPECTED_MAX
  const from = since === undefined ? '' : firstPrefixAt(since)
  const to = until === undefined ? '~' : firstPrefixAt(until)
  const values = [organizationId, type, from, to, before, limit, inspectedMax, subjectId]
  return callFor(
    database,
    organizationId,
    'list_events(text, text, text, text, text, int, int, text)',
    ...values,
  )
}

/** Returns the lower bound for the `delivery_prefix` of events published at this time or later. */
function firstPrefixAt(moment: string): string {
  return idPrefixAt('dlv', Date.parse(moment))
}

function countStates(states: readonly DeliveryState[]): LoggedEventBody['deliveries'] {
  const counts: Partial<Record<DeliveryState, number>> = {}
  for (const state of states) counts[state] = (counts[state] ?? 0) + 1
  return counts
}
