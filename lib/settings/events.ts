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

/** Filtering and paging options for events. */
export interface EventQuery<Type extends string = EventType>
  extends EventFilter<Date | string, Type>,
    PageQuery {
  /** If `true`, includes the events' bodies. Defaults to `false`. */
  readonly withBody?: boolean | undefined
}

/** An event in a list. */
export interface ListedEvent extends LoggedEvent {
  /** The envelope, exactly as sent. Only included if `withBody` is set. */
  readonly body?: string
}

/** A page of the event log. */
export type EventPage = Page<ListedEvent>

/** Options for `events.redeliver`. */
export interface EventRedeliveryOptions extends Acting {
  readonly endpointId: string
}

/** An event with its body and deliveries. */
export interface EventDetails extends LoggedEventBody {
  /** Up to 200 deliveries, newest first. */
  readonly deliveryLog: readonly Delivery[]
}

/** Options for `events.follow`. */
export interface FollowOptions<Type extends string = EventType> {
  /** Only includes these event types. Must not be empty. Defaults to all types. */
  readonly types?: readonly Type[] | undefined
  /** Poll interval in milliseconds, from 100 to 60,000. Defaults to 1000. */
  readonly intervalMs?: number | undefined
  /** Called once the feed has started. Any event committed after this is included. */
  readonly onBegin?: (() => void | Promise<void>) | undefined
  /** Ends the feed. */
  readonly signal?: AbortSignal | undefined
  /** Called on each `store_unavailable` error. The feed then continues without losing events. By default, it ends. */
  readonly onError?: ((error: unknown) => void) | undefined
}

/** An organization's events, including those not sent to any endpoint. @typeParam Type the service's event types */
export interface EventSettings<Type extends string = EventType> {
  /**
   * Lists matching events by publishing time, newest first. Each page inspects up to 5000 events. If you filter by
   * `type`, a page may have fewer than `limit` even if `next` isn't `null`.
   */
  list(organizationId: string, query?: EventQuery<Type>): Promise<EventPage>

  /**
   * Returns an event with its body and deliveries.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no event with this id
   */
  get(organizationId: string, eventId: string): Promise<EventDetails>

  /**
   * Sends an event to one endpoint now, even if the endpoint was registered later or isn't subscribed to the type.
   * Starts a new round of attempts with the same event id.
   *
   * @returns the delivery
   * @throws `BusinessApiError` with code `not_found` if the organization has no event or endpoint with this id,
   * `invalid_state` if the event already has a pending or sending delivery to the endpoint
   */
  redeliver(
    organizationId: string,
    eventId: string,
    options: EventRedeliveryOptions,
  ): Promise<DeliveryDetails>

  /**
   * Yields every event committed after the first call to `next`, even if its transaction commits after newer events.
   * Backfill events are excluded because they are meant for a single endpoint. This is read-only, doesn't require an
   * endpoint, and doesn't depend on the clocks of publishing processes.
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
  // Hosts can choose any event id, so we can't check the cursor's format.
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
/** Maximum number of bodies per statement. Each one can have up to 256 KiB. */
const BODIES_AT_ONCE = 32

/** Creates the event calls. */
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

/** Adds bodies to a page of events. Events that have been purged in the meantime are omitted. */
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
