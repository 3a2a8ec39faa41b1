import { randomBytes } from 'node:crypto'
import type {
  Capacity,
  ClaimStore,
  Claims,
  EndpointRef,
  FailedDelivery,
  UnreadDelivery,
} from '../webhooks/claims.ts'
import type { Claimed } from './queue.ts'

/** Claims due deliveries for a loop. Makes one claim at a time and visits endpoints round robin. */
export interface Poller {
  /** `true` if a claim got no response. The next claim then returns its deliveries. */
  readonly hasUnanswered: boolean
  /**
   * Claims up to `limit` deliveries whose bodies total up to `maxBytes`. A failed claim is repeated with the same
   * token. It may have taken deliveries, which would otherwise have to wait until the lease ends.
   *
   * @throws errors of the store
   */
  claim(limit: number, maxBytes: number, capacity: Capacity): Promise<ClaimAnswer>
  /** Gives up on a claim that got no response. Its deliveries have to wait until the lease ends. */
  abandon(): void
}

/** The result of a claim. */
export interface ClaimAnswer {
  readonly deliveries: readonly Claimed[]
  readonly unread: readonly Unread[]
  readonly failed: readonly FailedDelivery[]
  /** The store's clock minus the monotonic clock, in milliseconds. */
  readonly storeOffset: number
  /** `true` if there are more endpoints to visit in this round. */
  readonly hasMore: boolean
  /** See `Claims.nextInMs`. */
  readonly nextInMs: number | null
}

/** A delivery claimed without content. */
export type Unread = UnreadDelivery & Pick<Claimed, 'token' | 'leaseEndsAt'>

/** Maximum number of endpoints to inspect per claim. This takes a few milliseconds. */
const SCAN_LIMIT = 200

/**
 * Creates the poller of a loop.
 *
 * @param options.leaseMs how long a claim is valid, in milliseconds
 * @param options.maxAttempts maximum number of attempts per round
 */
export function createPoller(
  store: Pick<ClaimStore, 'claim'>,
  { leaseMs, maxAttempts }: { readonly leaseMs: number; readonly maxAttempts: number },
): Poller {
  const name = randomBytes(8).toString('hex')
  const cursor = createCursor()
  let claimsMade = 0
  let unanswered: { readonly token: string; readonly sentAt: number } | undefined

  return {
    get hasUnanswered() {
      return unanswered !== undefined
    },
    async claim(limit, maxBytes, capacity) {
      const isRepeat = unanswered !== undefined
      unanswered ??= { token: `${name}-${++claimsMade}`, sentAt: performance.now() }
      // The lease starts with the first try, as the store may have executed that one.
      const { token, sentAt } = unanswered
      const leaseEndsAt = sentAt + leaseMs
      const claims = await store.claim({
        token,
        isRepeat,
        limit,
        maxBytes,
        capacity,
        scanLimit: SCAN_LIMIT,
        cursor: cursor.position,
        leaseMs,
        maxAttempts,
      })
      if (unanswered?.token === token) unanswered = undefined
      // In Node.js 20, a spread followed by more properties takes as long as signing a webhook (a few microseconds).
      const own = <Claimed extends object>(claimed: Claimed) =>
        Object.assign({}, claimed, { token, leaseEndsAt })
      return {
        deliveries: claims.deliveries.map(own),
        unread: claims.unread.map(own),
        failed: claims.failed,
        storeOffset: claims.storeTime - performance.now(),
        hasMore: cursor.advance(claims),
        nextInMs: claims.nextInMs,
      }
    },
    abandon() {
      unanswered = undefined
    },
  }
}

// --- The position ---

/** The position of a loop in the round robin of endpoints. */
interface Cursor {
  /** The endpoint after which the next claim starts, or `null` to start with the first. */
  readonly position: EndpointRef | null
  /**
   * Moves past the endpoints of a claim.
   *
   * @returns whether there are more endpoints to visit in this round
   */
  advance(claims: Pick<Claims, 'deliveries' | 'unread' | 'next'>): boolean
}

/**
 * Creates a cursor that starts at the first endpoint. A round visits each endpoint with pending deliveries once. It
 * takes several claims if there are too many endpoints to inspect in one. At the end of a round the loop can wait.
 * Without rounds it would keep finding the same endpoints, since pending deliveries aren't necessarily due.
 */
function createCursor(): Cursor {
  let position: EndpointRef | null = null
  let roundBegan: EndpointRef | null = null

  return {
    get position() {
      return position
    },
    advance({ deliveries, unread, next }) {
      const from = position
      // The last endpoint served is last in the next round, because its organization may have used up its budget.
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

/** Returns `true` if the round robin passes `endpoint` between `from` and `to`. `null` is before the first endpoint. */
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
