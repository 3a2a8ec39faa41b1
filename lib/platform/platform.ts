import * as v from 'valibot'
import type { EventData, EventType } from '../events.ts'
import { type Clock, createIds, type Ids } from '../ids.ts'
import { OrganizationIdSchema, read } from '../input.ts'
import { checkEvent } from '../publishing.ts'
import type { BusinessStore } from '../store.ts'

/** Options of `createPlatform`. Each is read once. */
export interface PlatformOptions {
  /** Milliseconds since 1970 in UTC, for timestamps. Default `Date.now`. */
  clock?: Clock | undefined
  /** Makes the ids of events. Default monotonic ULIDs. */
  ids?: Ids | undefined
}

/** Options of `publish`. */
export interface PublishOptions {
  /** The event's id, 1 to 64 visible ASCII characters: published twice with the same id, the first stands. Default a new one. */
  id?: string | undefined
}

/** What the host's own code does. */
export interface Platform {
  /**
   * Publishes an event to every endpoint of the organization that wants its type (specification, section 6).
   *
   * @param data what the type's schema says; fields that it does not have are left out
   * @returns the event's id
   * @throws `BusinessApiError` with code `invalid_event` when `data` is not what the schema says, `invalid_input` for an
   *   organization id that is none, and what the store throws
   */
  publish<Type extends EventType>(
    organizationId: string,
    type: Type,
    data: EventData<Type>,
    options?: PublishOptions,
  ): Promise<string>
}

const PublishSchema = v.object({ organizationId: OrganizationIdSchema })

/** Opens nothing and writes nothing until a call is made. */
export function createPlatform(
  store: Pick<BusinessStore, 'events'>,
  { clock = Date.now, ids = createIds(clock) }: PlatformOptions = {},
): Platform {
  return {
    async publish(organizationId, type, data, { id } = {}) {
      const input = read(PublishSchema, { organizationId }, 'Cannot publish the event')
      const event = checkEvent(type, data, id, { ids, now: clock() })
      await store.events.publish(input.organizationId, event)
      return event.id
    },
  }
}
