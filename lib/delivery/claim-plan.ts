import type { Capacity } from '../webhooks/claims.ts'
import type { Budgets } from './budgets.ts'
import { capacityOf, type EndpointQueue, isHanging } from './queue.ts'

/** The size of the next claim, in all and for each endpoint and organization. */
export interface ClaimPlan {
  /** Maximum number of deliveries. */
  readonly limit: number
  readonly capacity: Capacity
  /** The capacity of each queue in this process. */
  readonly queueCapacities: ReadonlyMap<EndpointQueue, number>
  /** The slow queues' capacities, in the order in which the budget is divided. */
  readonly slowCapacities: ReadonlyMap<EndpointQueue, number>
  /** Queues to be marked as slow, because every attempt hangs. */
  readonly hanging: readonly EndpointQueue[]
  /** True if an unproven endpoint gets less than the start limit. */
  readonly isShortOfUnproven: boolean
}

/** A process's queues when the plan is made. */
export interface QueueState {
  readonly queues: ReadonlyMap<string, EndpointQueue>
  readonly busy: ReadonlySet<EndpointQueue>
  readonly slow: ReadonlySet<EndpointQueue>
  readonly backlogged: ReadonlySet<EndpointQueue>
  /** Deliveries by organization, waiting or in flight. */
  readonly organizations: ReadonlyMap<string, { readonly count: number }>
  readonly freeSlots: number
}

/** Maximum number of deliveries in a claim: a larger claim would delay deliveries that are published in the meantime. */
const CLAIM_MAX = 64

/** Plans the next claim. Changes nothing. */
export function planClaim(
  { queues, busy, slow, backlogged, organizations, freeSlots }: QueueState,
  budgets: Budgets,
): ClaimPlan {
  const { start } = budgets.limits
  const hanging = [...busy].filter(isHanging)
  const slowNow = new Set([...slow, ...hanging])
  const slowCapacities = budgets.slowCapacities(slowNow)
  const unprovenCapacity = budgets.unprovenCapacity(busy, slowNow)
  const unknownEndpoint = Math.min(start, unprovenCapacity)

  const queueCapacities = new Map<EndpointQueue, number>()
  for (const queue of queues.values()) {
    const own = busy.has(queue) || backlogged.has(queue) ? capacityOf(queue) : start
    const within = queue.isProven ? own : Math.min(own, unprovenCapacity)
    queueCapacities.set(queue, slowCapacities.get(queue) ?? within)
  }
  const named = [...queueCapacities].filter(([, capacity]) => capacity !== unknownEndpoint)

  return {
    limit: Math.min(CLAIM_MAX, freeSlots),
    capacity: {
      endpoint: unknownEndpoint,
      organization: budgets.organization,
      endpoints: Object.fromEntries(named.map(([{ endpointId }, capacity]) => [endpointId, capacity])),
      organizations: Object.fromEntries(
        [...organizations].map(([id, { count }]) => [id, Math.max(0, budgets.organization - count)]),
      ),
    },
    queueCapacities,
    slowCapacities,
    hanging,
    isShortOfUnproven: unknownEndpoint < start,
  }
}
