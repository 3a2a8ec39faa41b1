import { randomBytes } from 'node:crypto'
import type { Capacity, DeliveryStore, FailedDelivery, UnreadDelivery } from '../webhooks/deliveries.ts'
import { createCursor } from './cursor.ts'
import type { Claimed } from './queue.ts'

/** Claims due deliveries for a loop: a claim at a time, by round robin over the endpoints. */
export interface Poller {
  /** True after a claim without an answer. The next claim brings the deliveries of the unanswered claim. */
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

/** The answer to a claim. */
export interface ClaimAnswer {
  readonly deliveries: readonly Claimed[]
  readonly unread: readonly Unread[]
  readonly failed: readonly FailedDelivery[]
  /** The store's clock less the monotonic clock, in milliseconds. */
  readonly storeOffset: number
  /** True if endpoints of the present round are left. */
  readonly hasMore: boolean
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
  store: Pick<DeliveryStore, 'claim'>,
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
      // A lease counts from the first sending, because that claim may have been carried out.
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
      return {
        deliveries: claims.deliveries.map((delivery) => ({ ...delivery, token, leaseEndsAt })),
        unread: claims.unread.map((delivery) => ({ ...delivery, token, leaseEndsAt })),
        failed: claims.failed,
        storeOffset: claims.storeTime - performance.now(),
        hasMore: cursor.advance(claims),
      }
    },
    abandon() {
      unanswered = undefined
    },
  }
}
