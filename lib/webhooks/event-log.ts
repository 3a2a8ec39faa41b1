import type { EventRecord } from '../writes/event-envelope.ts'
import type { DeliveryState } from './deliveries.ts'

/** An event in the event log. Includes events that weren't sent to any endpoint. */
export interface LoggedEvent {
  readonly id: string
  readonly type: string
  /** When the event was published, by the store's clock. The `createdAt` in the body is by the publisher's clock. */
  readonly createdAt: string
  /** If the event was created by a backfill, the only endpoint it's sent to. Otherwise `null`. */
  readonly onlyEndpointId: string | null
  /** The number of deliveries in each state. Empty if no endpoint was subscribed to the event. */
  readonly deliveries: Readonly<Partial<Record<DeliveryState, number>>>
}

/** An event with its body. */
export interface LoggedEventBody extends LoggedEvent {
  /** The envelope exactly as it's sent. */
  readonly body: string
}

/**
 * Filters events. Absent properties match everything. Host calls accept times as a `Date` or as ISO 8601 with a time
 * zone, stores as ISO 8601.
 */
export interface EventFilter<Moment = string, Type extends string = string> {
  readonly type?: Type | undefined
  /** Only events about this record, for example an invoice. See `EventRecord.subjectId`. */
  readonly subjectId?: string | undefined
  /** Only events published at or after this time, by the store's clock. */
  readonly since?: Moment | undefined
  /** Only events published before this time, by the store's clock. */
  readonly until?: Moment | undefined
}

/** A page of the event log. */
export interface LoggedEvents {
  /**
   * The events, newest first. If filtered by type, there can be fewer than the limit even though more exist, since only
   * a few thousand events are inspected per page.
   */
  readonly events: readonly LoggedEvent[]
  /** The `before` of the next page, or `null` if there are no more events. */
  readonly next: string | null
}

/** An event without its content. */
export interface EventNote {
  readonly id: string
  /** When the event was published, by the store's clock. ISO 8601. */
  readonly at: string
  /** Position of the event in the event log. */
  readonly place: string
  readonly type: string
  readonly onlyEndpointId: string | null
}

/**
 * A point in time in a store, used to find out which writes have ended. If `begun` of one mark is not greater than
 * `ended` of a later mark, all writes that had begun at the first mark have ended at the second.
 */
export interface WriteMark {
  /** The store's time in milliseconds since 1970. */
  readonly at: number
  /** An integer in decimal digits. All writes that have begun have smaller numbers. */
  readonly begun: string
  /** An integer in decimal digits. All writes with smaller numbers have ended. */
  readonly ended: string
}

/** The part of a store for reading an organization's events. */
export interface EventLogStore {
  /**
   * Lists the newest events that match the filter by publishing time. Events of the same write are in reverse order.
   *
   * @param before the id of the last event on the previous page, or `null` to start with the newest. If the id is
   * unknown, the page is empty
   */
  list(
    organizationId: string,
    filter: EventFilter,
    limit: number,
    before: string | null,
  ): Promise<LoggedEvents>

  /** Returns an event, or `null` if it doesn't exist. */
  get(organizationId: string, eventId: string): Promise<LoggedEventBody | null>

  /**
   * Lists the events since a point in time, oldest first.
   *
   * @param since ISO 8601
   * @param after the `place` of the last event on the previous page, or `null` to start at `since`
   */
  listSince(
    organizationId: string,
    since: string,
    limit: number,
    after: string | null,
  ): Promise<readonly EventNote[]>

  /** Reads several events in no particular order. Unknown events are left out. */
  read(organizationId: string, eventIds: readonly string[]): Promise<readonly EventRecord[]>

  /** Returns a mark for the current point in time. */
  mark(organizationId: string): Promise<WriteMark>
}
