import { type ConcurrencyLimits, capacityOf, type EndpointQueue, sizeOf } from './queue.ts'

// Divides the slots of a process so that no single endpoint or organization can use up all of them, and neither can
// slow or unproven endpoints as a group (the bulkhead pattern).

/** How many attempts may be in flight at once in this process. */
export interface Budgets {
  readonly limits: ConcurrencyLimits
  /** Maximum per organization. */
  readonly organization: number
  /** Returns how much is left for unproven endpoints. */
  unprovenCapacity(busy: Iterable<EndpointQueue>, slow: ReadonlySet<EndpointQueue>): number
  /** Returns how much is left for each slow queue, in the order of `slow` until the shared budget is used up. */
  slowCapacities(slow: ReadonlySet<EndpointQueue>): ReadonlyMap<EndpointQueue, number>
}

const LIMIT_START = 4
const LIMIT_MAX = 32
/** Shares of all slots for each organization and for all slow endpoints together. */
const ORGANIZATION_SHARE = 1 / 4
const SLOW_SHARE = 1 / 2
/** Shares of all slots for unproven endpoints, and for slow and unproven endpoints together. The rest is for others. */
const UNPROVEN_SHARE = 1 / 2
const DOUBTFUL_SHARE = 3 / 4
/** Each endpoint's share of its organization's budget. A dead endpoint shouldn't block the whole organization. */
const ENDPOINT_SHARE = 1 / 2

/**
 * Creates the budgets of a process.
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
