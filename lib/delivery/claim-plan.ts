import type { Capacity } from '../webhooks/claims.ts'
import type { Budgets } from './budgets.ts'
import { capacityOf, type EndpointQueue, isHanging } from './queue.ts'

/** How much the next claim may return, in total and per endpoint and organization. */
export interface ClaimPlan {
  readonly limit: number
  readonly capacity: Capacity
  /** How many more deliveries each queue can take. */
  readonly queueCapacities: ReadonlyMap<EndpointQueue, number>
  /** Same for slow queues, in the order the shared budget is handed out. */
  readonly slowCapacities: ReadonlyMap<EndpointQueue, number>
  /** Queues to mark as slow because none of their attempts are making progress. */
  readonly hanging: readonly EndpointQueue[]
  /** `true` if the budget for unproven endpoints is below the start limit. */
  readonly isShortOfUnproven: boolean
}

/** The queue state that a claim is planned from. */
export interface QueueState {
  readonly queues: ReadonlyMap<string, EndpointQueue>
  readonly busy: ReadonlySet<EndpointQueue>
  readonly slow: ReadonlySet<EndpointQueue>
  readonly backlogged: ReadonlySet<EndpointQueue>
  /** Number of deliveries per organization, waiting or in flight. */
  readonly organizations: ReadonlyMap<string, { readonly count: number }>
  readonly freeSlots: number
}

/** Maximum number of deliveries per claim. Larger claims would delay deliveries published in the meantime. */
const CLAIM_MAX = 64

/** Plans the next claim. Doesn't change any state. */
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
