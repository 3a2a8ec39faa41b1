import * as v from 'valibot'
import { INVALID_STATE, NOT_FOUND, refused } from '../base/errors.ts'
import { defineCall, found, IdSchema, MomentSchema, oneOf, someOf, whole } from '../base/host-input.ts'
import type { Page, PageQuery } from '../base/page.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import { type EventOwner, eventTypes } from '../resources/own-events.ts'
import type { Service } from '../service.ts'
import { showHeaders } from '../webhooks/attempt-headers.ts'
import type { Delivery, DeliveryDetails } from '../webhooks/deliveries.ts'
import type { EventFilter, EventLogStore, LoggedEvent, LoggedEventBody } from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { type Acting, audited, callback, defineAuditedCall, type MakeEntry, SignalSchema } from './calls.ts'
import { followEvents } from './event-feed.ts'

// --- Types ---

/** Selects the events to show. */
export interface EventQuery<Type extends string = EventType>
  extends EventFilter<Date | string, Type>,
    PageQuery {
  /** Gives each event with its body. Default false. */
  readonly withBody?: boolean | undefined
}

/** An event of a page. */
export interface ListedEvent extends LoggedEvent {
  /** The envelope as it is sent, byte for byte; only with `withBody`. */
  readonly body?: string
}

/** A page of the event log. */
export type EventPage = Page<ListedEvent>

/** The endpoint of `events.redeliver`. */
export interface EventRedeliveryOptions extends Acting {
  readonly endpointId: string
}

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
   * @throws `BusinessApiError` with code `not_found` when the organization has no event with this id
   */
  get(organizationId: string, eventId: string): Promise<EventDetails>

  /**
   * Sends an event to one endpoint now, also to an endpoint that was registered later, or does not want the type: same event id, a new
   * round of attempts.
   *
   * @returns the delivery
   * @throws `BusinessApiError` with code `not_found` when the organization has no event or no endpoint with this id, `invalid_state` while
   *   the event's delivery to that endpoint is pending or sending
   */
  redeliver(
    organizationId: string,
    eventId: string,
    options: EventRedeliveryOptions,
  ): Promise<DeliveryDetails>

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
  withBody: v.optional(v.boolean('must be true or false'), false),
  // A host may give an event any id, so the form of a cursor cannot be judged.
  before: v.nullish(IdSchema, null),
}
const readGet = defineCall('Cannot show an event', { eventId: IdSchema })
const readRedeliver = defineAuditedCall('Cannot redeliver an event', {
  eventId: IdSchema,
  endpointId: IdSchema,
})
const FOLLOW = {
  intervalMs: v.optional(whole(100, 60_000), 1000),
  onBegin: callback<() => void | Promise<void>>(),
  signal: SignalSchema,
  onError: callback<(error: unknown) => void>(),
}

// --- Calls ---

const DELIVERIES_MAX = 200
/** Bodies that a statement reads: 256 KiB each at most. */
const BODIES_AT_ONCE = 32

/** Creates the calls that show events to administrators. */
export function createEventSettings(
  { eventLog, deliveries }: Pick<BusinessApiStore, 'eventLog' | 'deliveries'>,
  service: EventOwner & Pick<Service, 'headerPrefix'>,
  makeEntry: MakeEntry,
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
      const { limit, before, withBody, ...filter } = input
      const { events, next } = await eventLog.list(owner, filter, limit, before)
      return { data: withBody ? await addBodies(eventLog, owner, events) : events, next }
    },

    async get(organizationId, eventId) {
      const { organizationId: owner, input, action } = readGet(organizationId, { eventId })
      const event = found(await eventLog.get(owner, input.eventId), action)
      const deliveryLog = await deliveries.list(owner, { eventId: event.id }, DELIVERIES_MAX, null)
      return { ...event, deliveryLog }
    },

    async redeliver(organizationId, eventId, options) {
      const call = readRedeliver(organizationId, options, { eventId })
      const { endpointId } = call.input
      const details = { eventId: call.input.eventId, endpointId }
      const request = audited(makeEntry, call, 'delivery.redelivered', details.eventId, details)
      const { outcome, deliveryId } = await deliveries.redeliverEvent({ ...request, ...details })
      if (outcome === 'sent' && deliveryId !== null) {
        const delivery = found(await deliveries.get(call.organizationId, deliveryId), call.action)
        return showHeaders(delivery, service.headerPrefix)
      }
      const reason =
        outcome === 'open'
          ? 'its delivery to the endpoint is pending or sending: wait until it has completed'
          : `the organization has ${outcome} with this id`
      throw refused(call.action, outcome === 'open' ? INVALID_STATE : NOT_FOUND, reason)
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

/** Reads the bodies of a page. An event that was purged since the page was read is left out. */
async function addBodies(
  eventLog: Pick<EventLogStore, 'read'>,
  organizationId: string,
  events: readonly LoggedEvent[],
): Promise<readonly ListedEvent[]> {
  const bodies = new Map<string, string>()
  for (let start = 0; start < events.length; start += BODIES_AT_ONCE) {
    const ids = events.slice(start, start + BODIES_AT_ONCE).map(({ id }) => id)
    for (const { id, body } of await eventLog.read(organizationId, ids)) bodies.set(id, body)
  }
  return events.flatMap((event) => {
    const body = bodies.get(event.id)
    return body === undefined ? [] : [{ ...event, body }]
  })
}
