import type { EventRecord } from '../writes/event-envelope.ts'
import type { DeliveryState } from './deliveries.ts'

/** An event as the event log shows it, also one that no endpoint wanted. */
export interface LoggedEvent {
  readonly id: string
  readonly type: string
  /** The moment of publishing by the store's clock. The envelope's own `createdAt`, by the publisher's clock, is in the body. */
  readonly createdAt: string
  /** The only endpoint that gets the event, because a backfill made it; null for every other event. */
  readonly onlyEndpointId: string | null
  /** The number of deliveries in each state; empty when no endpoint wanted the event. */
  readonly deliveries: Readonly<Partial<Record<DeliveryState, number>>>
}

/** An event with its body. */
export interface LoggedEventBody extends LoggedEvent {
  /** The envelope as it is sent, byte for byte. */
  readonly body: string
}

/**
 * Selects events; an absent property selects all. A host's calls take moments as a `Date`, or as ISO 8601 with a time zone, and a store
 * as ISO 8601.
 */
export interface EventFilter<Moment = string, Type extends string = string> {
  readonly type?: Type | undefined
  /** Only events about this record, such as an invoice: see `EventRecord.subjectId`. */
  readonly subjectId?: string | undefined
  /** Published at this moment or later, by the store's clock. */
  readonly since?: Moment | undefined
  /** Published before this moment: as `since`. */
  readonly until?: Moment | undefined
}

/** A page of the event log. */
export interface LoggedEvents {
  /** Newest first. With a type, fewer than the limit although more are left, because a page inspects some thousand events at most. */
  readonly events: readonly LoggedEvent[]
  /** The `before` of the following page; null: no event is left. */
  readonly next: string | null
}

/** An event without its content, in the order of the event log. */
export interface EventNote {
  readonly id: string
  /** The moment of publishing by the store's clock, ISO 8601. */
  readonly at: string
  /** The place of the event in the event log. */
  readonly place: string
  readonly type: string
  readonly onlyEndpointId: string | null
}

/**
 * A moment of a store, to tell which writes have ended. If `begun` of one mark is not greater than `ended` of a later
 * mark, then every write that had begun at the first mark has ended at the second.
 */
export interface WriteMark {
  /** The store's clock, in milliseconds since 1970. */
  readonly at: number
  /** A whole number in decimal digits: the writes that have begun have smaller numbers. */
  readonly begun: string
  /** A whole number in decimal digits: all writes with smaller numbers have ended. */
  readonly ended: string
}

/** The slice of a store for reading the events of an organization. */
export interface EventLogStore {
  /**
   * Lists the newest events that the filter selects, by publishing time; events of one write in reverse order.
   *
   * @param before the id of the previous page's last event; null: from the newest. After an unknown id the page is empty
   */
  list(
    organizationId: string,
    filter: EventFilter,
    limit: number,
    before: string | null,
  ): Promise<LoggedEvents>

  /** Reads an event; `null` if there is no such event. */
  get(organizationId: string, eventId: string): Promise<LoggedEventBody | null>

  /**
   * Notes the events from a moment on, oldest first.
   *
   * @param since ISO 8601
   * @param after the place of the previous page's last event; null: from `since` on
   */
  listSince(
    organizationId: string,
    since: string,
    limit: number,
    after: string | null,
  ): Promise<readonly EventNote[]>

  /** Reads events, in no certain order. Unknown events are left out. */
  read(organizationId: string, eventIds: readonly string[]): Promise<readonly EventRecord[]>

  /** Marks the present moment. */
  mark(organizationId: string): Promise<WriteMark>
}
