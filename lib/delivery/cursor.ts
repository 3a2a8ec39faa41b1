import type { Claims, EndpointRef } from '../webhooks/deliveries.ts'

/** The position of a loop in the round robin of endpoints. */
export interface Cursor {
  /** The next claim begins after this endpoint; null: at the first. */
  readonly position: EndpointRef | null
  /**
   * Moves past the endpoints of a claim.
   *
   * @returns whether endpoints of the present round are left
   */
  advance(claims: Pick<Claims, 'deliveries' | 'unread' | 'next'>): boolean
}

/**
 * Creates a cursor before the first endpoint. A round visits every endpoint with pending deliveries once and takes several
 * claims where one claim cannot inspect all of these endpoints. The end of the round lets the loop rest: pending deliveries
 * need not be due, so an endless search would find the same endpoints again.
 */
export function createCursor(): Cursor {
  let position: EndpointRef | null = null
  let roundBegan: EndpointRef | null = null

  return {
    get position() {
      return position
    },
    advance({ deliveries, unread, next }) {
      const from = position
      // The endpoint served last comes last in the next round, because its organization's budget may be used up.
      position = next ?? endpointOf(deliveries.at(-1) ?? unread.at(-1)) ?? position
      const hasMore = next !== null && !isPassed(roundBegan, from, next)
      if (!hasMore) roundBegan = position
      return hasMore
    },
  }
}

function endpointOf(delivery: EndpointRef | undefined): EndpointRef | undefined {
  return delivery && { organizationId: delivery.organizationId, endpointId: delivery.endpointId }
}

/** True if the round robin passes `endpoint` between `from` and `to`. Null is the position before the first endpoint. */
function isPassed(endpoint: EndpointRef | null, from: EndpointRef | null, to: EndpointRef): boolean {
  const isBehindStart = isBefore(from, endpoint)
  const isBeforeEnd = !isBefore(to, endpoint)
  return isBefore(from, to) ? isBehindStart && isBeforeEnd : isBehindStart || isBeforeEnd
}

function isBefore(one: EndpointRef | null, other: EndpointRef | null): boolean {
  if (one === null || other === null) return one === null && other !== null
  if (one.organizationId !== other.organizationId) return one.organizationId < other.organizationId
  return one.endpointId < other.endpointId
}
