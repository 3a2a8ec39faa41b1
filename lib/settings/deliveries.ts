import * as v from 'valibot'
import type {
  Delivery,
  DeliveryDetails,
  DeliveryFilter,
  DeliveryState,
  DeliveryStore,
} from '../deliveries.ts'
import { BusinessApiError, INVALID_STATE } from '../errors.ts'
import { EVENT_TYPES, type EventType } from '../events.ts'
import { found, IdSchema, moment, OrganizationIdSchema, read, withoutUndefined } from '../input.ts'
import type { BusinessStore } from '../store.ts'

// --- Types ---

/** Which deliveries are to be recovered; what is absent does not count. */
export interface RecoveryFilter {
  readonly endpointId?: string | undefined
  readonly type?: EventType | undefined
  /** Created at this moment or later: a `Date`, or ISO 8601 with a time zone. */
  readonly since?: Date | string | undefined
  /** Created before this moment: a `Date`, or ISO 8601 with a time zone. */
  readonly until?: Date | string | undefined
}

/** Which deliveries are to be shown; what is absent does not count. */
export interface DeliveryQuery extends RecoveryFilter {
  /** One of these states. */
  readonly states?: readonly DeliveryState[] | undefined
  /** 1 to 200. Default 50. */
  readonly limit?: number | undefined
  /** The `next` of the page before. Default null: from the newest. */
  readonly before?: string | null | undefined
}

/** A page of the delivery log. */
export interface DeliveryPage {
  /** Newest first. */
  readonly data: readonly Delivery[]
  /** What to pass as `before` for the page that follows; null: there is none. */
  readonly next: string | null
}

/** The delivery log of organizations, and sending again what is in it. */
export interface DeliverySettings {
  /** The newest deliveries that the query lets through. */
  list(organizationId: string, query?: DeliveryQuery): Promise<DeliveryPage>

  /**
   * One delivery with what was sent and all its attempts.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no delivery of that id
   */
  get(organizationId: string, deliveryId: string): Promise<DeliveryDetails>

  /**
   * Has a delivery sent again now, whatever became of it: same event id, a new round of attempts.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no delivery of that id, `invalid_state`
   *   while it is pending or in flight and when its endpoint has been removed
   */
  redeliver(organizationId: string, deliveryId: string): Promise<DeliveryDetails>

  /**
   * Has all that was dead-lettered or skipped until now sent again, newest first, each once. What belongs to a removed
   * endpoint is passed over; what belongs to a disabled one will be skipped again, so enable it first. When it fails
   * halfway, what has been recovered stays so, and another call does the rest.
   *
   * @returns how many
   */
  recover(organizationId: string, filter?: RecoveryFilter): Promise<{ recovered: number }>
}

// --- Inputs ---

const STATES: readonly DeliveryState[] = [
  'pending',
  'in_flight',
  'delivered',
  'dead_lettered',
  'skipped',
  'cancelled',
]

const typeRequirement = `must be one of ${EVENT_TYPES.join(', ')}`
const statesRequirement = `must be one or more of ${STATES.join(', ')}`
const limitRequirement = 'must be a whole number from 1 to 200'
const momentRequirement = 'must be a Date, or ISO 8601 with a time zone, from 1970 to 9999'

const MomentSchema = v.pipe(
  moment(momentRequirement),
  // Elsewhere a year has another number of digits, or is none that every database knows.
  v.check((time) => time.getTime() >= 0 && time.getTime() < Date.UTC(10_000), momentRequirement),
  v.transform((time) => time.toISOString()),
)

const RecoverSchema = v.object({
  organizationId: OrganizationIdSchema,
  endpointId: v.exactOptional(IdSchema),
  type: v.exactOptional(v.picklist(EVENT_TYPES, typeRequirement)),
  since: v.exactOptional(MomentSchema),
  until: v.exactOptional(MomentSchema),
})
const ListSchema = v.object({
  ...RecoverSchema.entries,
  states: v.exactOptional(
    v.pipe(
      v.array(v.picklist(STATES, statesRequirement), statesRequirement),
      v.minLength(1, statesRequirement),
    ),
  ),
  limit: v.optional(
    v.pipe(
      v.number(limitRequirement),
      v.check((limit) => Number.isInteger(limit) && limit >= 1 && limit <= 200, limitRequirement),
    ),
    50,
  ),
  before: v.nullish(IdSchema, null),
})
const RefSchema = v.object({ organizationId: OrganizationIdSchema, deliveryId: IdSchema })

// --- Calls ---

/** What can be recovered: the subscriber has not had it, and nobody has decided that it should not. */
const RECOVERABLE: readonly DeliveryState[] = ['dead_lettered', 'skipped']
/** Rows that one statement locks, at most. */
const RECOVERY_BATCH = 1000

/** The delivery log as administrators see it. */
export function createDeliverySettings(store: Pick<BusinessStore, 'deliveries'>): DeliverySettings {
  return {
    async list(organizationId, query = {}) {
      const given = { ...withoutUndefined(query), organizationId }
      const {
        organizationId: owner,
        limit,
        before,
        ...filter
      } = read(ListSchema, given, 'Cannot list deliveries')
      // One more than is shown tells whether a page follows.
      const some = await store.deliveries.list(owner, filter, limit + 1, before)
      const data = some.slice(0, limit)
      return { data, next: some.length > limit ? (data.at(-1)?.id ?? null) : null }
    },

    async get(organizationId, deliveryId) {
      const input = read(RefSchema, { organizationId, deliveryId }, 'Cannot show a delivery')
      return found(
        await store.deliveries.get(input.organizationId, input.deliveryId),
        'Cannot show a delivery',
      )
    },

    async redeliver(organizationId, deliveryId) {
      const action = 'Cannot redeliver a delivery'
      const { organizationId: owner, deliveryId: id } = read(
        RefSchema,
        { organizationId, deliveryId },
        action,
      )
      const replayed = await store.deliveries.replay(owner, [id], {}, 1)
      const delivery = found(await store.deliveries.get(owner, id), action)
      if (replayed.includes(id)) return delivery
      throw new BusinessApiError(INVALID_STATE, `${action} as ${obstacleOf(delivery)}`)
    },

    async recover(organizationId, filter = {}) {
      const given = { ...withoutUndefined(filter), organizationId }
      const { organizationId: owner, ...input } = read(RecoverSchema, given, 'Cannot recover deliveries')
      return { recovered: await recover(store.deliveries, owner, { ...input, states: RECOVERABLE }) }
    },
  }
}

function obstacleOf({ state }: Delivery): string {
  if (state === 'pending') return 'it is pending'
  return state === 'in_flight' ? 'it is in flight' : 'its endpoint has been removed'
}

/**
 * Goes down the log page by page and meets each delivery once. Asking again and again for what can be recovered would
 * have no end while a disabled endpoint has it skipped at once, nor while new ones come in.
 */
async function recover(
  deliveries: Pick<DeliveryStore, 'list' | 'replay'>,
  organizationId: string,
  filter: DeliveryFilter,
): Promise<number> {
  let recovered = 0
  let before: string | null = null
  do {
    const page: readonly Delivery[] = await deliveries.list(organizationId, filter, RECOVERY_BATCH, before)
    const ids = page.map(({ id }) => id)
    if (ids.length > 0) {
      // The filter again: what another call has recovered meanwhile may have been delivered by now.
      recovered += (await deliveries.replay(organizationId, ids, filter, RECOVERY_BATCH)).length
    }
    before = page.length === RECOVERY_BATCH ? (ids.at(-1) ?? null) : null
  } while (before !== null)
  return recovered
}
