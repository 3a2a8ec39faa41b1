import type { Capacity } from '../webhooks/claims.ts'
import type { Budgets } from './budgets.ts'
import { capacityOf, type EndpointQueue, isHanging } from './queue.ts'

/** The size of the next claim, both in total and per endpoint and organization. */
export interface ClaimPlan {
  readonly limit: number
  readonly capacity: Capacity
  /** How many deliveries each queue of this process can take. */
  readonly queueCapacities: ReadonlyMap<EndpointQueue, number>
  /** The same for slow queues, in the order in which the budget is shared out. */
  readonly slowCapacities: ReadonlyMap<EndpointQueue, number>
  /** Queues that should be marked as slow because none of their attempts make progress. */
  readonly hanging: readonly EndpointQueue[]
  /** `true` if unproven endpoints get less than the start limit. */
  readonly isShortOfUnproven: boolean
}

/** The state of a process's queues when planning a claim. */
export interface QueueState {
  readonly queues: ReadonlyMap<string, EndpointQueue>
  readonly busy: ReadonlySet<EndpointQueue>
  readonly slow: ReadonlySet<EndpointQueue>
  readonly backlogged: ReadonlySet<EndpointQueue>
  /** Number of deliveries per organization, both waiting and in flight. */
  readonly organizations: ReadonlyMap<string, { readonly count: number }>
  readonly freeSlots: number
}

/** Maximum number of deliveries per claim. Larger claims would delay deliveries published in the meantime. */
const CLAIM_MAX = 64

/** Plans the next claim without changing anything. */
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
