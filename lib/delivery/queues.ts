import type { EndpointRef } from '../webhooks/claims.ts'
import { type ClaimPlan, createBudgets, planClaim } from './claim-plan.ts'
import {
  adapt,
  type Claimed,
  createEndpointQueue,
  type EndpointQueue,
  isSlow,
  sizeOf,
  startAnew,
} from './queue.ts'
import type { DeliverySlots } from './slots.ts'
import type { Verdict } from './verdict.ts'

// This file is over 250 lines because keeping all queue state changes in one place makes it easier to see that counts
// and order stay consistent.

// Fair dispatching. Each endpoint has a queue, and attempts are taken from the queues round robin. We don't claim more
// than the queues can take, since those deliveries would just sit in this process.

/** All queues in a process. */
export interface EndpointQueues {
  readonly inFlight: number
  /** Includes unread deliveries. */
  readonly waiting: number
  /** Reserves this loop's share of the slots. @returns a function that releases it */
  join(): () => void
  /** Plans the next claim without changing anything. See `adoptPlan`. */
  planClaim(): ClaimPlan
  /** Applies a plan. Deliveries added from now on count toward it. */
  adoptPlan(plan: ClaimPlan): void
  /**
   * Adds a delivery.
   *
   * @param claimSentAt when the claim was sent, in monotonic milliseconds
   * @returns `false` if the delivery must be released because its endpoint has since rejected another one
   */
  add(delivery: Claimed, claimSentAt: number): boolean
  /** Adds a delivery without content. It takes up capacity until `removeUnread` is called. */
  addUnread(delivery: EndpointRef): void
  /**
   * Removes a delivery added by `addUnread`.
   *
   * @param delivery the delivery with its content, if it should take the place of the unread one
   */
  removeUnread(endpoint: EndpointRef, delivery?: Claimed): void
  /** Stops attempts and claims for an endpoint until `endHold`. @returns the waiting deliveries, which are removed */
  hold(endpoint: EndpointRef): readonly Claimed[]
  endHold(endpoint: EndpointRef): void
  /** Takes the next delivery and counts it as in flight. Returns `undefined` if no attempt can start right now. */
  next(): Claimed | undefined
  /**
   * Ends an attempt.
   *
   * @param durationMs used to detect quick endpoints, for which we claim in advance
   * @returns `true` if it's worth claiming more now
   */
  end(delivery: Claimed, load: Verdict['load'], durationMs: number): boolean
  /**
   * Temporarily stops claims for an endpoint.
   *
   * @returns `true` if the endpoint wasn't already blocked
   */
  block(endpoint: EndpointRef, ms: number): boolean
  /**
   * Temporarily stops claims for endpoints with a backlog, meaning the last claim returned as many of their deliveries
   * as requested. This is a no-op unless an endpoint without a backlog had a delivery within the last second.
   *
   * @returns whether any endpoints were throttled
   */
  throttle(ms: number): boolean
  /** Removes all waiting deliveries except unread ones. */
  drain(): readonly Claimed[]
  /** Removes queues that have been idle for a long time. */
  sweep(): void
}

interface OrganizationUse {
  /** Number of deliveries, waiting or in flight. */
  count: number
  /** Same as in a queue. */
  capacity: number
  claimed: number
}

/**
 * Only throttle backlogs within this time of another endpoint's delivery, in milliseconds. Throttling for the sake
 * of endpoints with less traffic gains little, and cut a busy endpoint's throughput from 1,000 to 484 deliveries
 * per second.
 */
const THROTTLE_WITHIN_MS = 1000
/** Maximum time to wait for a rejection to be written, in milliseconds. We can't claim without the store anyway. */
const HOLD_MAX_MS = 5000
/** Queues are removed after being idle for this long, in milliseconds. */
const FORGET_AFTER_MS = 10 * 60_000

/**
 * Creates a loop's queues.
 *
 * @param slots limits the total number of in-flight attempts
 */
export function createEndpointQueues(slots: DeliverySlots): EndpointQueues {
  const { concurrency } = slots
  const queues = new Map<string, EndpointQueue>()
  /** Queues with at least one delivery. */
  const busy = new Set<EndpointQueue>()
  /** Slow queues, in the order the shared budget is handed out. */
  const slow = new Set<EndpointQueue>()
  /** Queues whose endpoint may have more due deliveries in the store. */
  const backlogged = new Set<EndpointQueue>()
  /** Queues that can start an attempt, in order. */
  const ready: EndpointQueue[] = []
  const organizations = new Map<string, OrganizationUse>()
  const budgets = createBudgets(concurrency)
  let inFlight = 0
  let waiting = 0
  let limit = 0
  let isShortOfUnproven = false
  /** Endpoints without a backlog, and when they last got a delivery. */
  const calm = new Map<EndpointQueue, number>()

  const used = (): number => inFlight + waiting

  function queueOf({ organizationId, endpointId }: EndpointRef): EndpointQueue {
    const known = queues.get(endpointId)
    if (known) return known
    const queue = createEndpointQueue({ organizationId, endpointId }, budgets.limits)
    queues.set(endpointId, queue)
    return queue
  }

  /** Puts a queue in line if it can start an attempt. */
  function lineUp(queue: EndpointQueue): void {
    if (queue.isReady || queue.waiting.length === 0 || queue.inFlight >= queue.concurrencyLimit) return
    queue.isReady = true
    ready.push(queue)
  }

  function useOf(organizationId: string): OrganizationUse {
    const use = organizations.get(organizationId) ?? { count: 0, capacity: budgets.organization, claimed: 0 }
    organizations.set(organizationId, use)
    return use
  }

  function leave(organizationId: string): void {
    const use = useOf(organizationId)
    use.count--
    if (use.count === 0) organizations.delete(organizationId)
  }

  function enter({ organizationId, endpointId }: EndpointRef): EndpointQueue {
    const queue = queueOf({ organizationId, endpointId })
    const use = useOf(organizationId)
    if (sizeOf(queue) === 0) startAnew(queue, budgets.limits)
    queue.usedAt = performance.now()
    queue.claimed++
    use.claimed++
    use.count++
    waiting++
    busy.add(queue)
    return queue
  }

  /** Removes all waiting deliveries. If the queue is in line, `next` will skip it. */
  function empty(queue: EndpointQueue): Claimed[] {
    const removed = queue.waiting.splice(0)
    for (const _ of removed) leave(queue.organizationId)
    waiting -= removed.length
    leaveIfEmpty(queue)
    return removed
  }

  function leaveIfEmpty(queue: EndpointQueue): void {
    if (sizeOf(queue) === 0) busy.delete(queue)
  }

  return {
    join: () => slots.join(used),

    get inFlight() {
      return inFlight
    },
    get waiting() {
      return waiting
    },

    planClaim() {
      return planClaim(
        { queues, busy, slow, backlogged, organizations, freeSlots: slots.free(used) },
        budgets,
      )
    },

    adoptPlan(plan) {
      const now = performance.now()
      limit = plan.limit
      isShortOfUnproven = plan.isShortOfUnproven
      for (const queue of plan.hanging) {
        queue.isSlow = true
        slow.add(queue)
      }
      // Slow queues that get capacity now move to the end of the line for the next plan.
      for (const [queue, capacity] of plan.slowCapacities) {
        if (capacity > 0 && slow.delete(queue)) slow.add(queue)
      }
      for (const [queue, capacity] of plan.queueCapacities) {
        queue.capacity = capacity
        queue.claimed = 0
      }
      for (const queue of backlogged) if (queue.throttledUntil <= now) backlogged.delete(queue)
      for (const use of organizations.values()) {
        use.capacity = Math.max(0, budgets.organization - use.count)
        use.claimed = 0
      }
    },

    throttle(ms) {
      const now = performance.now()
      const throttled: EndpointQueue[] = []
      let claimed = 0
      for (const queue of busy) claimed += queue.claimed
      for (const queue of busy) {
        const use = useOf(queue.organizationId)
        const isCut = claimed >= limit || use.claimed >= use.capacity
        if (queue.capacity > 0 && (queue.claimed >= queue.capacity || isCut)) throttled.push(queue)
        else if (queue.claimed > 0) calm.set(queue, now)
      }
      for (const queue of throttled) calm.delete(queue)
      for (const [queue, at] of calm) if (now - at > THROTTLE_WITHIN_MS) calm.delete(queue)
      // There's no one to throttle for.
      if (calm.size === 0) return false
      for (const queue of throttled) queue.throttledUntil = now + ms
      return throttled.length > 0
    },

    add(delivery, claimSentAt) {
      const known = queueOf(delivery)
      if (known.heldUntil > performance.now() || known.claimsFrom > claimSentAt) return false
      const queue = enter(delivery)
      queue.waiting.push(delivery)
      lineUp(queue)
      return true
    },

    addUnread(delivery) {
      enter(delivery).unread++
    },

    removeUnread(endpoint, delivery) {
      const queue = queueOf(endpoint)
      queue.unread--
      if (delivery) {
        queue.waiting.push(delivery)
        lineUp(queue)
      } else {
        waiting--
        leave(queue.organizationId)
        leaveIfEmpty(queue)
      }
    },

    next() {
      if (inFlight >= concurrency) return undefined
      for (let queue = ready.shift(); queue; queue = ready.shift()) {
        queue.isReady = false
        // The limit may have been halved since the queue got in line.
        const delivery = queue.inFlight < queue.concurrencyLimit ? queue.waiting.shift() : undefined
        if (!delivery) continue
        if (queue.inFlight === 0) queue.progressAt = performance.now()
        queue.inFlight++
        inFlight++
        waiting--
        lineUp(queue)
        return delivery
      }
      return undefined
    },

    end(delivery, load, durationMs) {
      const queue = queueOf(delivery)
      queue.inFlight--
      inFlight--
      const use = useOf(queue.organizationId)
      leave(queue.organizationId)
      queue.usedAt = performance.now()
      queue.progressAt = queue.usedAt
      adapt(queue, load, durationMs, budgets.limits)
      if (isSlow(queue)) slow.add(queue)
      else slow.delete(queue)
      lineUp(queue)
      leaveIfEmpty(queue)
      const isBacklogged = queue.claimed >= queue.capacity || use.claimed >= use.capacity
      if (isBacklogged) backlogged.add(queue)
      return (isBacklogged && queue.waiting.length <= queue.concurrencyLimit / 2) || isShortOfUnproven
    },

    block(endpoint, ms) {
      const queue = queueOf(endpoint)
      const isNew = queue.blockedUntil <= performance.now()
      queue.blockedUntil = performance.now() + ms
      queue.usedAt = queue.blockedUntil
      slow.add(queue)
      return isNew
    },

    hold(endpoint) {
      const queue = queueOf(endpoint)
      queue.heldUntil = performance.now() + HOLD_MAX_MS
      return empty(queue)
    },

    endHold(endpoint) {
      const queue = queueOf(endpoint)
      queue.heldUntil = 0
      queue.claimsFrom = performance.now()
    },

    drain() {
      ready.length = 0
      return [...busy].flatMap((queue) => {
        queue.isReady = false
        return empty(queue)
      })
    },

    sweep() {
      const idleSince = performance.now() - FORGET_AFTER_MS
      for (const [id, queue] of queues) {
        if (busy.has(queue) || queue.usedAt > idleSince) continue
        queues.delete(id)
        slow.delete(queue)
      }
    },
  }
}
