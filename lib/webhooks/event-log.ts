import type { EventRecord } from '../writes/event-envelope.ts'
import type { DeliveryState } from './deliveries.ts'

/** An event in the event log. Events that weren't sent to any endpoint are logged as well. */
export interface LoggedEvent {
  readonly id: string
  readonly type: string
  /** When the event was published, by the store's clock. The body's `createdAt` is by the publisher's clock. */
  readonly createdAt: string
  /** ID of the record that the event is about, or `null` if there is none. See `EventRecord.subjectId`. */
  readonly subjectId: string | null
  /** For backfill events, the one endpoint the event is sent to. Otherwise `null`. */
  readonly onlyEndpointId: string | null
  /** Number of deliveries in each state. Empty if no endpoint was subscribed to the event. */
  readonly deliveries: Readonly<Partial<Record<DeliveryState, number>>>
}

/** An event including its body. */
export interface LoggedEventBody extends LoggedEvent {
  /** The envelope, exactly as sent. */
  readonly body: string
}

/**
 * Filters events. Missing properties match everything. When you call this from the host, times can be a `Date` or ISO
 * 8601 with a time zone. Stores only get ISO 8601.
 */
export interface EventFilter<Moment = string, Type extends string = string> {
  readonly type?: Type | undefined
  /** Only includes events about this record: its ID, or an invoice's or proposal's number. See `EventRecord.subjectId`. */
  readonly subjectId?: string | undefined
  /** Only includes events published at or after this time, by the store's clock. */
  readonly since?: Moment | undefined
  /** Only includes events published before this time, by the store's clock. */
  readonly until?: Moment | undefined
}

/** A page of the event log. */
export interface LoggedEvents {
  /**
   * The events, newest first. When filtering by type, a page may have fewer events than the limit even if there are
   * more, because each page only inspects a few thousand events.
   */
  readonly events: readonly LoggedEvent[]
  /** `before` for the next page, or `null` if there are no more events. */
  readonly next: string | null
}

/** An event without its body. */
export interface EventNote {
  readonly id: string
  /** When the event was published, by the store's clock. ISO 8601. */
  readonly at: string
  /** The event's position in the log. */
  readonly place: string
  readonly type: string
  readonly onlyEndpointId: string | null
}

/**
 * A snapshot of write progress, used to find out which writes have finished. If one mark's `begun` is at most a later
 * mark's `ended`, all writes in progress at the first mark have finished by the second.
 */
export interface WriteMark {
  /** The store's time in milliseconds since 1970. */
  readonly at: number
  /** A decimal integer greater than the number of any write that has begun. */
  readonly begun: string
  /** A decimal integer. All writes with a smaller number have ended. */
  readonly ended: string
}

/** The event log methods of a store. */
export interface EventLogStore {
  /**
   * Lists matching events by publishing time, newest first. Events from the same write are in reverse order.
   *
   * @param before id of the last event on the previous page, or `null` for the first page. The page is empty if the id
   * is unknown
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
   * Lists the events published since a given time, oldest first.
   *
   * @param since ISO 8601
   * @param after `place` of the last event on the previous page, or `null` to start at `since`
   */
  listSince(
    organizationId: string,
    since: string,
    limit: number,
    after: string | null,
  ): Promise<readonly EventNote[]>

  /** Reads multiple events in no particular order. Unknown ids are skipped. */
  read(organizationId: string, eventIds: readonly string[]): Promise<readonly EventRecord[]>

  /** Returns a mark for the current time. */
  mark(organizationId: string): Promise<WriteMark>
}
