import * as v from 'valibot'
import { INVALID_STATE, refused } from '../base/errors.ts'
import { defineCall, found, IdSchema, MomentSchema, oneOf, someOf, whole } from '../base/host-input.ts'
import { type Page, type PageQuery, pageEntries, readPage } from '../base/page.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import { type EventOwner, eventTypes } from '../resources/own-events.ts'
import type { Service } from '../service.ts'
import { showHeaders } from '../webhooks/attempt-headers.ts'
import {
  type Delivery,
  type DeliveryDetails,
  type DeliveryFilter,
  type DeliveryState,
  type DeliveryStore,
  RESPONSES,
  type RecoveryRequest,
  type ResponseClass,
} from '../webhooks/deliveries.ts'
import { DELIVERY_COUNT_MAX, RECOVERABLE } from '../webhooks/outlook.ts'
import { type Acting, audited, callback, defineAuditedCall, type MakeEntry } from './calls.ts'

// This file is over 250 lines because half of it is documentation for the calls and their types.

// --- Types ---

/** Filtering and paging options for deliveries. Missing properties match everything. */
export interface DeliveryQuery<Type extends string = EventType>
  extends DeliveryFilter<Date | string, Type>,
    PageQuery {
  /**
   * Only includes deliveries whose last attempt got this kind of response. Each page inspects up to 5000 deliveries, so
   * a page may have fewer than `limit` even if `next` isn't `null`.
   */
  readonly response?: ResponseClass | undefined
}

/** Selects the deliveries to recover. Missing properties match everything. */
export interface RecoveryFilter<Type extends string = EventType>
  extends Omit<DeliveryFilter<Date | string, Type>, 'states'> {}

/** The number of deliveries that would be sent again. */
export interface RecoverableCounts {
  readonly failed: number
  readonly skipped: number
}

/** Options for `recover`. */
export interface RecoveryOptions<Type extends string = EventType> extends RecoveryFilter<Type>, Acting {
  /**
   * Maximum number of deliveries to inspect, from 1 to 100,000,000. Set this if you need to return quickly (5000 take
   * several seconds). Defaults to all deliveries.
   */
  readonly limit?: number
  /** `next` from the previous call. Defaults to `null`, which starts with the newest delivery. */
  readonly before?: string | null
  /** Called with the number of recovered deliveries after each batch. */
  readonly onProgress?: ((recovered: number) => void) | undefined
}

/** The result of a recovery, or part of one. */
export interface Recovery {
  readonly recovered: number
  /** `before` for the next call, or `null` if there are no more deliveries. */
  readonly next: string | null
}

/** A page of the delivery log. */
export type DeliveryPage = Page<Delivery>

/** The organization's delivery log. Can also send deliveries again. @typeParam Type the service's event types */
export interface DeliverySettings<Type extends string = EventType> {
  /** Lists matching deliveries, newest first. */
  list(organizationId: string, query?: DeliveryQuery<Type>): Promise<DeliveryPage>

  /**
   * Returns a delivery with its request body and all attempts.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no delivery with this id
   */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails>

  /**
   * Makes a delivery that is finished or waits for its next attempt due now and starts a new round of attempts. The
   * event id stays the same. If the endpoint is paused, rate limited or backing off, the delivery is sent after that.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no delivery with this id, `invalid_state`
   * if the delivery is already due or sending, or if its endpoint was removed
   */
  redeliver(organizationId: string, deliveryId: string, options?: Acting): Promise<DeliveryDetails>

  /**
   * Sends all failed and skipped deliveries again, once each, newest first. Deliveries to removed endpoints are
   * ignored. Enable any disabled endpoints first. Otherwise, their deliveries will just be skipped again. If this fails
   * halfway through, call it again to recover the remaining deliveries. Each call writes a single audit entry.
   */
  recover(organizationId: string, options?: RecoveryOptions<Type>): Promise<Recovery>

  /**
   * Counts matching deliveries.
   *
   * @returns the count, where 10,000 means 10,000 or more
   */
  count(
    organizationId: string,
    query?: Omit<DeliveryQuery<Type>, keyof PageQuery | 'response'>,
  ): Promise<number>
  /**
   * Counts the deliveries that {@link DeliverySettings.recover} would send again, by state. 10,000 means 10,000
   * or more.
   *
   * @throws `BusinessApiError` with code `invalid_input` if the filter is invalid
   */
  countRecoverable(organizationId: string, filter?: RecoveryFilter<Type>): Promise<RecoverableCounts>

  /**
   * Cancels a pending delivery, even one that is backing off or whose endpoint is paused.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no delivery with this id, `invalid_state`
   * if the delivery is finished or sending. In-flight attempts can't be stopped
   */
  cancel(organizationId: string, deliveryId: string, options?: Acting): Promise<DeliveryDetails>
}

// --- Inputs ---

const LIMIT_MAX = 100_000_000

/** All states of a delivery. */
export const STATES: readonly DeliveryState[] = [
  'pending',
  'sending',
  'delivered',
  'failed',
  'skipped',
  'cancelled',
]

/** Defines the calls that take a filter. @param types the service's event types */
function defineFilterCalls(types: readonly string[]) {
  const filter = {
    endpointId: v.exactOptional(IdSchema),
    eventId: v.exactOptional(IdSchema),
    subjectId: v.exactOptional(IdSchema),
    type: v.exactOptional(oneOf(types)),
    since: v.exactOptional(MomentSchema),
    until: v.exactOptional(MomentSchema),
  }
  const count = { ...filter, states: v.exactOptional(someOf(STATES)) }
  const many = { judgesUndefined: true }
  return {
    readList: defineCall('Cannot list deliveries', {
      ...count,
      response: v.exactOptional(oneOf(RESPONSES)),
      ...pageEntries('dlv'),
    }),
    readCount: defineCall('Cannot count deliveries', count),
    readCountRecoverable: defineCall('Cannot count deliveries', filter, many),
    readRecover: defineAuditedCall(
      'Cannot recover deliveries',
      {
        ...filter,
        ...pageEntries('dlv'),
        limit: v.exactOptional(whole(1, LIMIT_MAX), LIMIT_MAX),
        onProgress: callback<(recovered: number) => void>(),
      },
      many,
    ),
  }
}

const REF = { deliveryId: IdSchema }
const readGet = defineCall('Cannot show a delivery', REF)
const readRedeliver = defineAuditedCall('Cannot redeliver a delivery', REF)
const readCancel = defineAuditedCall('Cannot cancel a delivery', REF)

// --- Calls ---

/** Maximum number of rows to lock per statement. */
const RECOVERY_BATCH = 1000

/** Creates the delivery log calls. */
export function createDeliverySettings(
  store: Pick<BusinessApiStore, 'deliveries' | 'endpoints'>,
  service: EventOwner & Pick<Service, 'headerPrefix'>,
  makeEntry: MakeEntry,
): DeliverySettings<string> {
  const { readList, readCount, readCountRecoverable, readRecover } = defineFilterCalls(eventTypes(service))

  async function show(organizationId: string, deliveryId: string, action: string): Promise<DeliveryDetails> {
    const delivery = found(await store.deliveries.get(organizationId, deliveryId), action)
    return showHeaders(delivery, service.headerPrefix)
  }

  return {
    async list(organizationId, query) {
      const { organizationId: owner, input } = readList(organizationId, query)
      const { limit, before, response, ...filter } = input
      if (response) return listByResponse(store.deliveries, owner, filter, { response, limit, before })
      return readPage(limit, (count) => store.deliveries.list(owner, filter, count, before))
    },

    async get(organizationId, deliveryId) {
      const { organizationId: owner, input, action } = readGet(organizationId, { deliveryId })
      return show(owner, input.deliveryId, action)
    },

    async redeliver(organizationId, deliveryId, options) {
      const call = readRedeliver(organizationId, options, { deliveryId })
      const { deliveryId: id } = call.input
      const request = audited(makeEntry, call, 'delivery.redelivered', id)
      // Pending deliveries are only retried if the filter names them.
      const filter = { states: STATES }
      const recovered = await store.deliveries.recover({ ...request, ids: [id], filter, limit: 1 })
      const delivery = await show(call.organizationId, id, call.action)
      if (recovered.includes(id)) return delivery
      const endpoint = await store.endpoints.get(call.organizationId, delivery.endpointId)
      const isOpen = delivery.state === 'pending' || delivery.state === 'sending'
      const advice = isOpen ? 'wait until it has completed' : 'it has just changed, try again'
      const reason = endpoint
        ? `the state of the delivery is ${delivery.state}: ${advice}`
        : 'the endpoint of the delivery has been removed'
      throw refused(call.action, INVALID_STATE, reason)
    },

    async recover(organizationId, options) {
      const call = readRecover(organizationId, options)
      const { organizationId: owner } = call
      const { limit, before, onProgress = () => {}, ...filter } = call.input
      const subject = filter.endpointId ?? owner
      const { entry } = audited(makeEntry, call, 'deliveries.recovered', subject, { filter })
      const wanted = { ...filter, states: RECOVERABLE }
      return recover(
        store.deliveries,
        { organizationId: owner, filter: wanted, entry, limit, before },
        onProgress,
      )
    },

    async count(organizationId, query) {
      const { organizationId: owner, input: filter } = readCount(organizationId, query)
      return store.deliveries.count(owner, filter, DELIVERY_COUNT_MAX)
    },

    async countRecoverable(organizationId, given) {
      const { organizationId: owner, input: filter } = readCountRecoverable(organizationId, given)
      const count = (state: DeliveryState): Promise<number> =>
        store.deliveries.countRecoverable(owner, { ...filter, states: [state] }, DELIVERY_COUNT_MAX)
      const [failed, skipped] = await Promise.all([count('failed'), count('skipped')])
      return { failed, skipped }
    },

    async cancel(organizationId, id, options) {
      const call = readCancel(organizationId, options, { deliveryId: id })
      const { deliveryId } = call.input
      const request = audited(makeEntry, call, 'delivery.cancelled', deliveryId)
      const isCancelled = await store.deliveries.cancel({ ...request, deliveryId })
      const delivery = await show(call.organizationId, deliveryId, call.action)
      if (isCancelled) return delivery
      throw refused(call.action, INVALID_STATE, `the state of the delivery is ${delivery.state}`)
    },
  }
}

/** Maximum number of deliveries to inspect when filtering by response, per page and per statement. */
const INSPECTED_MAX = 5000
const INSPECTED_PART = 500

/** Scans deliveries page by page, because an index by response would make every delivery more expensive. */
async function listByResponse(
  deliveries: Pick<DeliveryStore, 'list'>,
  organizationId: string,
  filter: DeliveryFilter,
  { response, limit, before }: { response: ResponseClass; limit: number; before: string | null },
): Promise<DeliveryPage> {
  // Only a 2xx marks a delivery as delivered, so we can exclude a state, which usually skips most deliveries.
  const states = (filter.states ?? STATES).filter(
    (state) => state !== (response === '2xx' ? 'failed' : 'delivered'),
  )
  const data: Delivery[] = []
  let next = before
  for (let inspected = 0; inspected < INSPECTED_MAX; inspected += INSPECTED_PART) {
    const part = await deliveries.list(organizationId, { ...filter, states }, INSPECTED_PART, next)
    for (const delivery of part.filter((one) => responseOf(one) === response)) {
      if (data.length === limit) return { data, next: data.at(-1)?.id ?? null }
      data.push(delivery)
    }
    if (part.length < INSPECTED_PART) return { data, next: null }
    next = part.at(-1)?.id ?? null
  }
  return { data, next }
}

function responseOf({ lastStatus, lastError }: Delivery): string | null {
  if (lastStatus === null) return lastError === null ? null : 'none'
  // Nonstandard statuses count as 5xx (RFC 9110, section 15).
  return `${Math.min(5, Math.floor(lastStatus / 100))}xx`
}

/**
 * Walks through the log page by page, so each delivery is visited once. Querying for recoverable deliveries over and
 * over might never finish, since a disabled endpoint's deliveries are skipped again right away and new ones may arrive.
 */
async function recover(
  deliveries: Pick<DeliveryStore, 'list' | 'recover'>,
  {
    organizationId,
    filter,
    entry,
    limit,
    before,
  }: Omit<RecoveryRequest, 'ids'> & { readonly before: string | null },
  onProgress: (recovered: number) => unknown,
): Promise<Recovery> {
  let recovered = 0
  let inspected = 0
  let next: string | null = before
  do {
    const size = Math.min(RECOVERY_BATCH, limit - inspected)
    const page: readonly Delivery[] = await deliveries.list(organizationId, filter, size, next)
    const ids = page.map(({ id }) => id)
    if (ids.length > 0) {
      // Pass the filter again because another call may have recovered deliveries that were then delivered.
      const request = { organizationId, ids, filter, limit: RECOVERY_BATCH, entry }
      recovered += (await deliveries.recover(request)).length
      await onProgress(recovered)
    }
    inspected += ids.length
    next = page.length === size ? (ids.at(-1) ?? null) : null
  } while (next !== null && inspected < limit)
  return { recovered, next }
}
