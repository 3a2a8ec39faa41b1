import * as v from 'valibot'
import type { AuditRecord } from '../access/audit.ts'
import { BusinessApiError, INVALID_STATE } from '../base/errors.ts'
import {
  found,
  IdSchema,
  MomentSchema,
  OrganizationIdSchema,
  read,
  withoutUndefined,
} from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { EVENT_TYPES, type EventType } from '../resources/event-catalogue.ts'
import type {
  Delivery,
  DeliveryDetails,
  DeliveryFilter,
  DeliveryState,
  DeliveryStore,
} from '../webhooks/deliveries.ts'
import { type Acting, ActorSchema, type MakeEntry } from './audit.ts'
import { type Page, type PageQuery, pageEntries, readPage } from './page.ts'

// --- Types ---

/** Selects the deliveries to recover; an absent field selects all. */
export interface RecoveryFilter {
  readonly endpointId?: string | undefined
  readonly type?: EventType | undefined
  /** Created at this moment or later: a `Date`, or ISO 8601 with a time zone. */
  readonly since?: Date | string | undefined
  /** Created before this moment: a `Date`, or ISO 8601 with a time zone. */
  readonly until?: Date | string | undefined
}

/** Selects the deliveries to show; an absent field selects all. */
export interface DeliveryQuery extends RecoveryFilter, PageQuery {
  /** The states to show. */
  readonly states?: readonly DeliveryState[] | undefined
}

/** Selects the deliveries to recover, and names the actor. */
export interface RecoveryOptions extends RecoveryFilter, Acting {
  /** Receives the number of recovered deliveries so far, after each part of the work. */
  readonly onProgress?: ((recovered: number) => void) | undefined
}

/** A page of the delivery log. */
export type DeliveryPage = Page<Delivery>

/** The delivery log of organizations, with the calls that send deliveries again. */
export interface DeliverySettings {
  /** The newest deliveries that the query lets through. */
  list(organizationId: string, query?: DeliveryQuery): Promise<DeliveryPage>

  /**
   * Gives a delivery with the posted body and all attempts.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no delivery of that id
   */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails>

  /**
   * Sends a delivery in any final state again now: same event id, a new round of attempts.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no delivery of that id, `invalid_state`
   *   while the delivery is pending or in flight, and when its endpoint has been removed
   */
  redeliver(organizationId: string, deliveryId: string, options?: Acting): Promise<DeliveryDetails>

  /**
   * Sends all dead-lettered and skipped deliveries until now again, newest first, each once. Deliveries of removed
   * endpoints are passed over. Deliveries of disabled endpoints would be skipped again, so enable the endpoint first.
   * After a failure halfway the recovered deliveries stay recovered, and another call recovers the rest. A whole
   * recovery leaves one audit entry.
   *
   * @returns the number of recovered deliveries
   */
  recover(organizationId: string, options?: RecoveryOptions): Promise<{ recovered: number }>

  /**
   * Cancels a pending delivery, also a delivery that is backing off or waits for a paused endpoint.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no delivery of that id, `invalid_state`
   *   when the delivery is in flight, because an attempt under way cannot be taken back, and when the delivery is in a
   *   final state
   */
  cancel(organizationId: string, deliveryId: string, options?: Acting): Promise<DeliveryDetails>
}

// --- Inputs ---

/** The words of messages for every state. */
const STATE_WORDS: Readonly<Record<DeliveryState, string>> = {
  pending: 'pending',
  in_flight: 'in flight',
  delivered: 'delivered',
  dead_lettered: 'dead-lettered',
  skipped: 'skipped',
  cancelled: 'cancelled',
}
/** Every state of a delivery. */
export const STATES = Object.keys(STATE_WORDS) as readonly DeliveryState[]

const typeRequirement = `must be one of ${EVENT_TYPES.join(', ')}`
const statesRequirement = `must be one or more of ${STATES.join(', ')}`

const FilterSchema = v.object({
  organizationId: OrganizationIdSchema,
  endpointId: v.exactOptional(IdSchema),
  type: v.exactOptional(v.picklist(EVENT_TYPES, typeRequirement)),
  since: v.exactOptional(MomentSchema),
  until: v.exactOptional(MomentSchema),
})
const RecoverSchema = v.object({ ...FilterSchema.entries, actor: ActorSchema })
const ListSchema = v.object({
  ...FilterSchema.entries,
  states: v.exactOptional(
    v.pipe(
      v.array(v.picklist(STATES, statesRequirement), statesRequirement),
      v.minLength(1, statesRequirement),
    ),
  ),
  ...pageEntries('dlv'),
})
const RefSchema = v.object({ organizationId: OrganizationIdSchema, deliveryId: IdSchema })
const ChangeSchema = v.object({ ...RefSchema.entries, actor: ActorSchema })

// --- Calls ---

/** The states that can be recovered: not received by the subscriber, and not cancelled by an administrator. */
export const RECOVERABLE: readonly DeliveryState[] = ['dead_lettered', 'skipped']
/** The most rows that one statement locks. */
const RECOVERY_BATCH = 1000

/** Creates the calls on the delivery log for administrators. */
export function createDeliverySettings(
  store: Pick<BusinessApiStore, 'deliveries'>,
  makeEntry: MakeEntry,
): DeliverySettings {
  return {
    async list(organizationId, query = {}) {
      const given = { ...withoutUndefined(query), organizationId }
      const {
        organizationId: owner,
        limit,
        before,
        ...filter
      } = read(ListSchema, given, 'Cannot list deliveries')
      return readPage(limit, (count) => store.deliveries.list(owner, filter, count, before))
    },

    async get(organizationId, deliveryId) {
      const input = read(RefSchema, { organizationId, deliveryId }, 'Cannot show a delivery')
      return found(
        await store.deliveries.get(input.organizationId, input.deliveryId),
        'Cannot show a delivery',
      )
    },

    async redeliver(organizationId, deliveryId, { actor } = {}) {
      const action = 'Cannot redeliver a delivery'
      const input = read(ChangeSchema, { organizationId, deliveryId, actor }, action)
      const { organizationId: owner, deliveryId: id } = input
      const entry = makeEntry('delivery.redelivered', id, input.actor)
      const recovered = await store.deliveries.recover({
        organizationId: owner,
        ids: [id],
        filter: {},
        limit: 1,
        entry,
      })
      const delivery = found(await store.deliveries.get(owner, id), action)
      if (recovered.includes(id)) return delivery
      throw new BusinessApiError(INVALID_STATE, `${action} as ${obstacleOf(delivery)}`)
    },

    async recover(organizationId, { onProgress = () => {}, ...options } = {}) {
      const given = { ...withoutUndefined(options), organizationId }
      const {
        organizationId: owner,
        actor,
        ...filter
      } = read(RecoverSchema, given, 'Cannot recover deliveries')
      const entry = makeEntry('deliveries.recovered', filter.endpointId ?? owner, actor, { filter })
      const recoverable = { ...filter, states: RECOVERABLE }
      return { recovered: await recover(store.deliveries, owner, recoverable, entry, onProgress) }
    },

    async cancel(organizationId, deliveryId, { actor } = {}) {
      const action = 'Cannot cancel a delivery'
      const input = read(ChangeSchema, { organizationId, deliveryId, actor }, action)
      const { organizationId: owner, deliveryId: id } = input
      const entry = makeEntry('delivery.cancelled', id, input.actor)
      const isCancelled = await store.deliveries.cancel(owner, id, entry)
      const delivery = found(await store.deliveries.get(owner, id), action)
      if (isCancelled) return delivery
      throw new BusinessApiError(INVALID_STATE, `${action} as it is ${STATE_WORDS[delivery.state]}`)
    },
  }
}

function obstacleOf({ state }: Delivery): string {
  const isOpen = state === 'pending' || state === 'in_flight'
  return isOpen ? `it is ${STATE_WORDS[state]}` : 'its endpoint has been removed'
}

/**
 * Goes down the log page by page and meets each delivery once. Repeated queries for recoverable deliveries would have
 * no end while a disabled endpoint has deliveries skipped at once, or while new deliveries arrive.
 */
async function recover(
  deliveries: Pick<DeliveryStore, 'list' | 'recover'>,
  organizationId: string,
  filter: DeliveryFilter,
  entry: AuditRecord,
  onProgress: (recovered: number) => void,
): Promise<number> {
  let recovered = 0
  let before: string | null = null
  do {
    const page: readonly Delivery[] = await deliveries.list(organizationId, filter, RECOVERY_BATCH, before)
    const ids = page.map(({ id }) => id)
    if (ids.length > 0) {
      // The filter again, because another call may have recovered a delivery meanwhile, which may be delivered by now.
      const request = { organizationId, ids, filter, limit: RECOVERY_BATCH, entry }
      recovered += (await deliveries.recover(request)).length
      onProgress(recovered)
    }
    before = page.length === RECOVERY_BATCH ? (ids.at(-1) ?? null) : null
  } while (before !== null)
  return recovered
}
