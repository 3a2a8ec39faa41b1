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

/** Claims due deliveries for a loop: a claim at a time, by round robin over the endpoints. */
export interface Poller {
  /** True after a claim without a result. The next claim brings the deliveries of the unanswered claim. */
  readonly hasUnanswered: boolean
  /**
   * Claims up to `limit` deliveries with up to `maxBytes` of bodies. A failed claim is repeated under the same token:
   * deliveries that the failed claim may have taken then need not wait for the end of the lease.
   *
   * @throws the error of the store
   */
  claim(limit: number, maxBytes: number, capacity: Capacity): Promise<ClaimAnswer>
  /** Forgets an unanswered claim: the deliveries of that claim wait for the end of the lease. */
  abandon(): void
}

/** The result of a claim. */
export interface ClaimAnswer {
  readonly deliveries: readonly Claimed[]
  readonly unread: readonly Unread[]
  readonly failed: readonly FailedDelivery[]
  /** The store's clock less the monotonic clock, in milliseconds. */
  readonly storeOffset: number
  /** True if endpoints of the present round are left. */
  readonly hasMore: boolean
  /** As in the store's result. */
  readonly nextInMs: number | null
}

/** A delivery claimed without the content. */
export type Unread = UnreadDelivery & Pick<Claimed, 'token' | 'leaseEndsAt'>

/** Endpoints that a claim inspects at most: a few milliseconds of work. */
const SCAN_LIMIT = 200

/**
 * Creates the poller of a loop.
 *
 * @param options.leaseMs duration of a claim in milliseconds
 * @param options.maxAttempts attempts of a round in all
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
      // A lease counts from the first sending, because that claim may have been run.
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
      // A spread that more properties follow takes Node.js 20 some microseconds, as long as to sign the webhook.
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
 * claims where one claim cannot inspect all of these endpoints. The end of the round lets the loop wait: pending deliveries
 * need not be due, so an endless search would find the same endpoints again.
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
