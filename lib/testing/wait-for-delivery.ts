import { printValue, readHaving, readWhole, rejectUnknown } from '../base/options.ts'
import { sleep } from '../base/time.ts'
import type { Delivery, DeliveryStore } from '../webhooks/deliveries.ts'

/** Options for `waitForDelivery`. */
export interface WaitForDeliveryOptions {
  /** The event's organization. */
  readonly organizationId: string
  /** The event's id, as returned by `publish` or found in a captured webhook. */
  readonly eventId: string
  /** The endpoint to wait for. Defaults to every endpoint that receives the event. */
  readonly endpointId?: string | undefined
  /** Timeout in milliseconds. Defaults to 5000. */
  readonly timeoutMs?: number | undefined
}

const POLL_MS = 10
const DELIVERIES_MAX = 1000

/**
 * Waits until an event has been delivered to one endpoint, or to every endpoint subscribed to its type. A delivery loop
 * must be running, in this process or another one.
 *
 * @param store any store, or an object with a `deliveries` slice
 * @returns the deliveries, newest first
 * @throws Error with the state of each delivery on timeout, or as soon as one can no longer be delivered (failed,
 *   skipped or cancelled)
 *
 * @example
 * ```ts
 * await platform.publish('org_42', 'support.ticket_created', { ticketId: 't_1', subject: 'Help', status: 'open' }, { id: 'evt_t_1' })
 * await waitForDelivery(store, { organizationId: 'org_42', eventId: 'evt_t_1' })
 * ```
 */
export async function waitForDelivery(
  store: { readonly deliveries: Pick<DeliveryStore, 'list'> },
  options: WaitForDeliveryOptions,
): Promise<readonly Delivery[]> {
  rejectUnknown(options, { organizationId: true, eventId: true, endpointId: true, timeoutMs: true })
  readHaving('The store', store, 'deliveries.list', 'createPostgresStore() and createMemoryStore()')
  const { organizationId, eventId, endpointId, timeoutMs } = options
  // The store would take `undefined` for any event.
  for (const [name, value] of Object.entries({
    organizationId,
    eventId,
    ...(endpointId !== undefined && { endpointId }),
  })) {
    if (typeof value !== 'string')
      throw new TypeError(`Option '${name}' must be a string: current value is ${printValue(value)}`)
  }
  const waitMs = readWhole('timeoutMs', timeoutMs, 5000)
  const deadline = performance.now() + waitMs
  const filter = endpointId === undefined ? { eventId } : { eventId, endpointId }
  for (;;) {
    const found = await store.deliveries.list(organizationId, filter, DELIVERIES_MAX, null)
    if (found.length > 0 && found.every(({ state }) => state === 'delivered')) return found
    const isLost = found.some(({ state }) => !MAY_BE_DELIVERED.has(state))
    if (isLost) throw new Error(`Event ${eventId} was not delivered: ${describe(found)}`)
    if (performance.now() >= deadline) {
      throw new Error(`Event ${eventId} was not delivered within ${waitMs} ms: ${describe(found)}`)
    }
    await sleep(POLL_MS)
  }
}

const MAY_BE_DELIVERED: ReadonlySet<string> = new Set(['pending', 'sending', 'delivered'])

function describe(deliveries: readonly Delivery[]): string {
  if (deliveries.length === 0) {
    return 'it has no deliveries. Was the event committed, and does an endpoint want its type?'
  }
  const waits = deliveries.every(({ state, attempts }) => state === 'pending' && attempts === 0)
  return `${deliveries.map(describeOne).join('; ')}${waits ? '. Does a delivery loop run?' : ''}`
}

function describeOne({
  id,
  endpointId,
  state,
  attempts,
  reason,
  lastStatus,
  lastError,
  dueAt,
}: Delivery): string {
  const last = lastStatus ?? lastError
  return [
    `${id} to ${endpointId} is ${state}`,
    ...(reason === null ? [] : [`because of ${reason}`]),
    `after ${attempts} attempts`,
    ...(last === null ? [] : [`(the last one: ${last})`]),
    ...(dueAt === null ? [] : [`due at ${dueAt}`]),
  ].join(' ')
}
