import * as v from 'valibot'
import { defineCall, found, IdSchema, MomentSchema, oneOf, someOf, whole } from '../base/host-input.ts'
import type { Page, PageQuery } from '../base/page.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import { type EventOwner, eventTypes } from '../resources/own-events.ts'
import type { Delivery } from '../webhooks/deliveries.ts'
import type { EventFilter, LoggedEvent, LoggedEventBody } from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { callback, SignalSchema } from './calls.ts'
import { followEvents } from './event-feed.ts'

// --- Types ---

/** Selects the events to show. */
export interface EventQuery<Type extends string = EventType>
  extends EventFilter<Date | string, Type>,
    PageQuery {}

/** A page of the event log. */
export type EventPage = Page<LoggedEvent>

/** An event with its body and its deliveries. */
export interface EventDetails extends LoggedEventBody {
  /** At most 200, newest first. */
  readonly deliveryLog: readonly Delivery[]
}

/** Options of `events.follow`. */
export interface FollowOptions<Type extends string = EventType> {
  /** Only events of these types, one or more. Default: every type. */
  readonly types?: readonly Type[] | undefined
  /** Milliseconds between two polls of the event log, 100 to 60,000. Default 1000. */
  readonly intervalMs?: number | undefined
  /** Called once the feed has begun: every event that is committed from now on is given. */
  readonly onBegin?: (() => void | Promise<void>) | undefined
  /** Ends the feed. */
  readonly signal?: AbortSignal | undefined
  /**
   * Receives each `store_unavailable`; the feed goes on, and loses no event. Default: the feed ends with the error.
   */
  readonly onError?: ((error: unknown) => void) | undefined
}

/** The events of organizations, also events that no endpoint wanted. @typeParam Type the service's event types */
export interface EventSettings<Type extends string = EventType> {
  /**
   * The newest events that the query selects, by the moment of publishing. With a `type`, a page may have fewer events than `limit` although
   * `next` is not null, because a page inspects 5000 events at most.
   */
  list(organizationId: string, query?: EventQuery<Type>): Promise<EventPage>

  /**
   * Gives an event with the body and the deliveries.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no event of that id
   */
  get(organizationId: string, eventId: string): Promise<EventDetails>

  /**
   * Gives the events that are committed from the first call of `next` on, each once, also an event whose transaction commits
   * after newer events were given. Events of backfills, which are for one endpoint only, are left out. The feed needs no endpoint
   * and changes nothing. The clocks of publishing processes do not matter.
   */
  follow(organizationId: string, options?: FollowOptions<Type>): AsyncIterable<EventRecord>
}

// --- Inputs ---

const LIST = {
  subjectId: v.exactOptional(IdSchema),
  since: v.exactOptional(MomentSchema),
  until: v.exactOptional(MomentSchema),
  limit: v.optional(whole(1, 200), 50),
  // A host may give an event any id, so the form of a cursor cannot be judged.
  before: v.nullish(IdSchema, null),
}
const readGet = defineCall('Cannot show an event', { eventId: IdSchema })
const FOLLOW = {
  intervalMs: v.optional(whole(100, 60_000), 1000),
  onBegin: callback<() => void | Promise<void>>(),
  signal: SignalSchema,
  onError: callback<(error: unknown) => void>(),
}

// --- Calls ---

const DELIVERIES_MAX = 200

/** Creates the calls that show events to administrators. */
export function createEventSettings(
  { eventLog, deliveries }: Pick<BusinessApiStore, 'eventLog' | 'deliveries'>,
  service: EventOwner,
): EventSettings<string> {
  const types = eventTypes(service)
  const readList = defineCall('Cannot list events', { type: v.exactOptional(oneOf(types)), ...LIST })
  const readFollow = defineCall('Cannot follow the events', {
    types: v.exactOptional(someOf(types)),
    ...FOLLOW,
  })

  return {
    async list(organizationId, query) {
      const { organizationId: owner, input } = readList(organizationId, query)
      const { limit, before, ...filter } = input
      const { events, next } = await eventLog.list(owner, filter, limit, before)
      return { data: events, next }
    },

    async get(organizationId, eventId) {
      const { organizationId: owner, input, action } = readGet(organizationId, { eventId })
      const event = found(await eventLog.get(owner, input.eventId), action)
      const deliveryLog = await deliveries.list(owner, { eventId: event.id }, DELIVERIES_MAX, null)
      return { ...event, deliveryLog }
    },

    follow(organizationId, options) {
      const { organizationId: owner, input } = readFollow(organizationId, options)
      const { types, intervalMs, onBegin, onError, signal } = input
      return followEvents(eventLog, owner, {
        intervalMs,
        signal,
        onBegin,
        onError,
        isWanted: ({ type, onlyEndpointId }) =>
          onlyEndpointId === null && (types === undefined || types.some((wanted) => wanted === type)),
      })
    },
  }
}
