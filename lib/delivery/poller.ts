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

/** Claims due deliveries for a loop, one claim at a time, visiting endpoints round robin. */
export interface Poller {
  /** `true` if a claim got no response. The next claim then returns its deliveries. */
  readonly hasUnanswered: boolean
  /**
   * Claims up to `limit` deliveries whose bodies add up to at most `maxBytes`. A failed claim is retried with the same
   * token. Otherwise any deliveries it did claim would be stuck until the lease expires.
   *
   * @throws any store errors
   */
  claim(limit: number, maxBytes: number, capacity: Capacity): Promise<ClaimAnswer>
  /** Gives up on an unanswered claim. Its deliveries have to wait for the lease to expire. */
  abandon(): void
}

/** The result of a claim. */
export interface ClaimAnswer {
  readonly deliveries: readonly Claimed[]
  readonly unread: readonly Unread[]
  readonly failed: readonly FailedDelivery[]
  /** The store's clock minus the monotonic clock, in milliseconds. */
  readonly storeOffset: number
  /** `true` if this round has more endpoints to visit. */
  readonly hasMore: boolean
  /** See `Claims.nextInMs`. */
  readonly nextInMs: number | null
}

/** A delivery that was claimed without its content. */
export type Unread = UnreadDelivery & Pick<Claimed, 'token' | 'leaseEndsAt'>

/** Maximum number of endpoints to inspect per claim. That many take a few milliseconds. */
const SCAN_LIMIT = 200

/**
 * Creates a loop's poller.
 *
 * @param options.leaseMs lease duration in milliseconds
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
      // The lease starts with the first try because the store may have executed that one.
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
      // In Node.js 20, a spread followed by more properties takes as long as signing a webhook (several microseconds).
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

// --- Cursor ---

/**
 * Creates a cursor at the first endpoint. A round visits every endpoint with pending deliveries once, using as many
 * claims as it takes. The loop can wait at the end of a round. Without rounds, it would find the same endpoints over
 * and over, since pending deliveries may not be due yet.
 */
function createCursor() {
  let position: EndpointRef | null = null
  let roundBegan: EndpointRef | null = null

  return {
    /** The next claim starts after this endpoint. `null` to start with the first one. */
    get position() {
      return position
    },
    /** Moves past a claim's endpoints. @returns whether this round has more endpoints to visit */
    advance({ deliveries, unread, next }: Pick<Claims, 'deliveries' | 'unread' | 'next'>): boolean {
      const from = position
      // Start the next round after the endpoint served last, because its organization may have used up its budget.
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

/** Returns `true` if `endpoint` is between `from` and `to` in the round robin. `null` is before the first endpoint. */
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
