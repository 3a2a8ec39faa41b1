import type { Capacity } from '../webhooks/claims.ts'
import { type ConcurrencyLimits, capacityOf, type EndpointQueue, isHanging, sizeOf } from './queue.ts'

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

// Divides a process's slots so that no endpoint or organization can use them all, and neither can slow or unproven
// endpoints as a group (bulkhead pattern).

/** Limits on how many attempts this process may have in flight. */
interface Budgets {
  readonly limits: ConcurrencyLimits
  /** Maximum per organization. */
  readonly organization: number
  /** Returns the remaining capacity for unproven endpoints. */
  unprovenCapacity(busy: Iterable<EndpointQueue>, slow: ReadonlySet<EndpointQueue>): number
  /** Returns each slow queue's remaining capacity. The shared budget is handed out in `slow` order. */
  slowCapacities(slow: ReadonlySet<EndpointQueue>): ReadonlyMap<EndpointQueue, number>
}

const LIMIT_START = 4
const LIMIT_MAX = 32
/** Share of all slots that a single organization can use, and that all slow endpoints can use together. */
const ORGANIZATION_SHARE = 1 / 4
const SLOW_SHARE = 1 / 2
/** Share of all slots for unproven endpoints, and for slow and unproven endpoints combined. */
const UNPROVEN_SHARE = 1 / 2
const DOUBTFUL_SHARE = 3 / 4
/** Share of an organization's budget that one endpoint can use, so a dead endpoint doesn't block the organization. */
const ENDPOINT_SHARE = 1 / 2

/**
 * Creates a process's budgets.
 *
 * @param concurrency the total number of slots
 */
export function createBudgets(concurrency: number): Budgets {
  const organization = Math.max(1, Math.ceil(concurrency * ORGANIZATION_SHARE))
  const max = Math.min(LIMIT_MAX, Math.max(1, Math.floor(organization * ENDPOINT_SHARE)))
  const start = Math.min(LIMIT_START, max)
  const slowBudget = Math.max(1, Math.floor(concurrency * SLOW_SHARE))
  const doubtfulBudget = Math.max(1, Math.floor(concurrency * DOUBTFUL_SHARE))
  const unprovenBudget = Math.max(start, Math.floor(concurrency * UNPROVEN_SHARE))

  return {
    limits: { start, max },
    organization,

    unprovenCapacity(busy, slow) {
      const unproven = countOf([...busy].filter((queue) => !queue.isProven && !slow.has(queue)))
      return Math.max(0, Math.min(unprovenBudget, doubtfulBudget - countOf(slow)) - unproven)
    },

    slowCapacities(slow) {
      const capacities = new Map<EndpointQueue, number>()
      let left = slowBudget - countOf(slow)
      for (const queue of slow) {
        const capacity = Math.max(0, Math.min(capacityOf(queue), left))
        capacities.set(queue, capacity)
        left -= capacity
      }
      return capacities
    },
  }
}

function countOf(queues: Iterable<EndpointQueue>): number {
  let count = 0
  for (const queue of queues) count += sizeOf(queue)
  return count
}
