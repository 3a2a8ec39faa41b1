import type { EndpointRef } from '../webhooks/claims.ts'
import { createBudgets } from './budgets.ts'
import { type ClaimPlan, planClaim } from './claim-plan.ts'
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

// Longer than 250 lines: every change of the queues' state stands here, so a reader can see that counts and order agree.

// Fair dispatch: a queue for each endpoint, attempts from the queues by round robin. The next claim asks for no more than
// the capacity of the queues, so a process never claims a delivery that must wait long for an attempt.

/** The queues of a process. */
export interface EndpointQueues {
  readonly inFlight: number
  /** Unread deliveries included. */
  readonly waiting: number
  /** Takes a share of the slots that several loops have together. @returns gives it back */
  join(): () => void
  /** Plans the next claim. Changes nothing: see `adoptPlan`. */
  planClaim(): ClaimPlan
  /** Puts a plan active: the next deliveries count against this plan. */
  adoptPlan(plan: ClaimPlan): void
  /**
   * Adds a delivery.
   *
   * @param claimSentAt when the claim was sent, on the monotonic clock
   * @returns false if the delivery must be released: the endpoint has rejected another delivery since
   */
  add(delivery: Claimed, claimSentAt: number): boolean
  /** Adds a delivery without the content. The delivery takes capacity until `removeUnread`. */
  addUnread(delivery: EndpointRef): void
  /** Removes a delivery of `addUnread`. @param delivery the same delivery with the content, to be added instead */
  removeUnread(endpoint: EndpointRef, delivery?: Claimed): void
  /** Begins no attempt and claims nothing for an endpoint until `endHold`. @returns the waiting deliveries, which are removed */
  hold(endpoint: EndpointRef): readonly Claimed[]
  endHold(endpoint: EndpointRef): void
  /** Takes the next delivery to attempt and counts the attempt as in flight. Undefined when no attempt may begin now. */
  next(): Claimed | undefined
  /**
   * Ends an attempt.
   *
   * @param durationMs distinguishes quick endpoints: the loop claims deliveries ahead for a quick endpoint
   * @returns true if more should be claimed now
   */
  end(delivery: Claimed, load: Verdict['load'], durationMs: number): boolean
  /**
   * Claims nothing for an endpoint for a while.
   *
   * @returns whether the endpoint was not blocked before
   */
  block(endpoint: EndpointRef, ms: number): boolean
  /**
   * Claims nothing for a while for endpoints with a backlog: the last claim brought as many of their deliveries as it asked for.
   * Does nothing if no endpoint without a backlog has had a delivery within a second.
   *
   * @returns whether there are such endpoints
   */
  throttle(ms: number): boolean
  /** Removes every waiting delivery with content. */
  drain(): readonly Claimed[]
  /** Removes queues that have long been idle. */
  sweep(): void
}

/** An organization with deliveries in this process. */
interface OrganizationUse {
  /** Waiting or in flight. */
  count: number
  /** As of a queue. */
  capacity: number
  claimed: number
}

/**
 * Time for which endpoints with a backlog are throttled after the last delivery of another endpoint, in ms. Deliveries that come less
 * often gain little: throttled for their sake, one busy endpoint got 484 deliveries a second in place of 1,000.
 */
const THROTTLE_WITHIN_MS = 1000
/** Maximum time until a rejection is written, in ms: without the store nothing is claimed anyway. */
const HOLD_MAX_MS = 5000
/** Idle time after which an endpoint's queue is removed, in ms. */
const FORGET_AFTER_MS = 10 * 60_000

/**
 * Creates the queues of a loop.
 *
 * @param slots attempts in flight at once, of all endpoints
 */
export function createEndpointQueues(slots: DeliverySlots): EndpointQueues {
  const { concurrency } = slots
  const queues = new Map<string, EndpointQueue>()
  /** Queues with deliveries. */
  const busy = new Set<EndpointQueue>()
  /** In the order in which slow endpoints share their budget. */
  const slow = new Set<EndpointQueue>()
  /** Queues whose endpoint may have more due deliveries in the store. */
  const backlogged = new Set<EndpointQueue>()
  /** Queues that may begin an attempt, in turn. */
  const ready: EndpointQueue[] = []
  const organizations = new Map<string, OrganizationUse>()
  const budgets = createBudgets(concurrency)
  let inFlight = 0
  let waiting = 0
  /** Limit of the current plan. */
  let limit = 0
  let isShortOfUnproven = false
  /** Endpoints without a backlog, by the time of their last claim with a delivery. */
  const calm = new Map<EndpointQueue, number>()

  const used = (): number => inFlight + waiting

  function queueOf({ organizationId, endpointId }: EndpointRef): EndpointQueue {
    const known = queues.get(endpointId)
    if (known) return known
    const queue = createEndpointQueue({ organizationId, endpointId }, budgets.limits)
    queues.set(endpointId, queue)
    return queue
  }

  /** Puts a queue in line if an attempt may begin. */
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

  /** Removes the waiting deliveries. A queue in line without a delivery is passed over. */
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
      // Slow queues with a capacity in this plan come last in the next plan.
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
      // Without a calm queue, a pause helps no endpoint.
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
        // The concurrency limit may have been halved since the queue was put in line.
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
