import { randomBytes } from 'node:crypto'
import type { ClaimedDelivery, Claims, DeadLetter, DeliveryStore, EndpointRef, Room } from '../deliveries.ts'
import type { Claimed } from './lane.ts'

/** Claims deliveries for one loop: one claim at a time, around the circle of endpoints. */
export interface Claimer {
  /** Whether a claim was sent whose answer was lost: what it claimed is had by the next one. */
  readonly hasLost: boolean
  /**
   * Claims up to `limit` deliveries. One that failed is repeated under its own token, so that what it may have claimed is
   * not lost until its lease ends.
   *
   * @throws what the store throws
   */
  claim(limit: number, room: Room): Promise<ClaimAnswer>
}

/** What a claim has brought. */
export interface ClaimAnswer {
  readonly deliveries: readonly Claimed[]
  readonly deadLetters: readonly DeadLetter[]
  /** What to add to the monotonic clock to have the store's, in milliseconds. */
  readonly storeOffset: number
  /** Whether the way around the circle has not come to its end. */
  readonly hasMore: boolean
}

/** How many endpoints one claim looks at: some milliseconds' worth. */
const VISITS = 200

/** @param options.maxAttempts attempts of a round in all */
export function createClaimer(
  store: Pick<DeliveryStore, 'claim'>,
  { leaseMs, maxAttempts }: { readonly leaseMs: number; readonly maxAttempts: number },
): Claimer {
  const name = randomBytes(8).toString('hex')
  const circle = createCircle()
  let claimsMade = 0
  let unanswered: { readonly token: string; readonly sentAt: number } | undefined

  return {
    get hasLost() {
      return unanswered !== undefined
    },
    async claim(limit, room) {
      const isRepeat = unanswered !== undefined
      unanswered ??= { token: `${name}-${++claimsMade}`, sentAt: performance.now() }
      // A lease runs from when the claim was sent first: that may be the one that was carried out.
      const { token, sentAt } = unanswered
      const after = circle.place
      const request = { token, isRepeat, limit, room, visits: VISITS, after, leaseMs, maxAttempts }
      const claims = await store.claim(request)
      unanswered = undefined
      return {
        deliveries: claims.deliveries.map((one) => ({ ...one, token, leaseEndsAt: sentAt + leaseMs })),
        deadLetters: claims.deadLetters,
        storeOffset: claims.storeTime - performance.now(),
        hasMore: circle.advance(claims),
      }
    },
  }
}

// --- The circle of endpoints ---

interface Circle {
  /** Where the next claim goes on. */
  readonly place: EndpointRef | null
  /** @returns whether there is more of this way around */
  advance(claims: Claims): boolean
}

/**
 * A way around the circle takes several claims where more endpoints have something pending than one claim looks at, and
 * ends where it began: what is pending need not be due, so without an end the loop would never rest.
 */
function createCircle(): Circle {
  let place: EndpointRef | null = null
  let beginning: EndpointRef | null = null

  return {
    get place() {
      return place
    },
    advance({ deliveries, next }) {
      const from = place
      // The one that was served last is last the next time: it may have more than its organization's share leaves.
      place = next ?? refOf(deliveries.at(-1)) ?? place
      const hasMore = next !== null && !isPassed(beginning, from, next)
      if (!hasMore) beginning = place
      return hasMore
    },
  }
}

function refOf(delivery: ClaimedDelivery | undefined): EndpointRef | undefined {
  return delivery && { organizationId: delivery.organizationId, endpointId: delivery.endpointId }
}

/** Whether the way from one place to another comes past a third. Null is the place before the first endpoint. */
function isPassed(place: EndpointRef | null, from: EndpointRef | null, to: EndpointRef): boolean {
  const isBehindStart = isBefore(from, place)
  const isBeforeEnd = !isBefore(to, place)
  return isBefore(from, to) ? isBehindStart && isBeforeEnd : isBehindStart || isBeforeEnd
}

function isBefore(one: EndpointRef | null, other: EndpointRef | null): boolean {
  if (one === null || other === null) return one === null && other !== null
  if (one.organizationId !== other.organizationId) return one.organizationId < other.organizationId
  return one.endpointId < other.endpointId
}
