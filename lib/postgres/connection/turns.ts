import { storeUnavailable } from '../../base/errors.ts'
import { createFairQueue } from '../../base/fair-queue.ts'
import type { ConnectionUse } from '../../business-store.ts'

/** Who holds a share of the connections: an organization's id, or a symbol for work that belongs to none. */
export type Share = string | symbol

/** The turns of statements on a store's connections. */
export interface Turns {
  /** Begins a statement's turn for `share`, if it need not wait; {@link Turns.end} ends it. */
  takeNow(share: Share): boolean
  /**
   * Waits for a statement's turn for `share`; {@link Turns.end} ends it.
   *
   * @returns false when no connection became free within `timeoutMs`
   * @throws `BusinessApiError` with code `store_unavailable` when too many statements wait; the error of
   *   {@link Turns.rejectWaiting}
   */
  take(share: Share, timeoutMs: number): Promise<boolean>
  end(share: Share): void
  rejectWaiting(error: unknown): void
  /** Tells the use of the connections at this moment. */
  use(): ConnectionUse
}

/** The fewest connections that are shared out: half of three would be a single connection. */
const SHARED_FROM = 4

interface Waiter {
  readonly share: Share
  begin(): void
  reject(error: unknown): void
}

/**
 * Shares the connections out, so statements of one organization that wait for a lock do not hold up other
 * organizations. One organization has at most half of the connections, and the last quarter goes to organizations without a
 * connection. Waiting statements get their turns in round robin of the organizations. With fewer than four connections only
 * the round robin holds.
 *
 * @param maxPending maximum number of statements that have a connection or wait. A further statement is rejected, or displaces
 *   the oldest waiting statement of the organization with the most waiting statements
 */
export function createTurns(connections: number, maxPending: number): Turns {
  const isShared = connections >= SHARED_FROM
  const mostOfOne = isShared ? Math.floor(connections / 2) : connections
  const firstComers = isShared ? Math.ceil(connections / 4) : 0
  const waiting = createFairQueue<Share, Waiter>()
  /** The numbers of statements with a connection, by share. */
  const underWay = new Map<Share, number>()
  let busy = 0
  let refused = 0
  let timedOut = 0

  function refuse(): Error {
    refused++
    return full(maxPending)
  }

  function mayBegin(share: Share): boolean {
    if (busy >= connections) return false
    const own = underWay.get(share) ?? 0
    return own === 0 || (own < mostOfOne && busy < connections - firstComers)
  }

  function begin(share: Share): void {
    underWay.set(share, (underWay.get(share) ?? 0) + 1)
    busy++
  }

  function makeRoom(share: Share): void {
    if (busy + waiting.size < maxPending) return
    const gives = waiting.displace(share)
    if (!gives) throw refuse()
    gives.reject(refuse())
  }

  function wait(share: Share, timeoutMs: number): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        share,
        begin() {
          clearTimeout(timer)
          resolve(true)
        },
        reject(error) {
          clearTimeout(timer)
          reject(error)
        },
      }
      const timer = setTimeout(() => {
        waiting.remove(share, waiter)
        timedOut++
        resolve(false)
      }, timeoutMs)
      waiting.add(share, waiter)
    })
  }

  function takeNow(share: Share): boolean {
    // No waiting statement is overtaken that may begin: `end` has begun all such statements.
    if (busy + waiting.size >= maxPending || !mayBegin(share)) return false
    begin(share)
    return true
  }

  return {
    takeNow,
    async take(share, timeoutMs) {
      makeRoom(share)
      return takeNow(share) || wait(share, timeoutMs)
    },
    end(share) {
      busy--
      const left = (underWay.get(share) ?? 0) - 1
      if (left > 0) underWay.set(share, left)
      else underWay.delete(share)
      while (busy < connections) {
        const next = waiting.shift(mayBegin)
        if (!next) return
        begin(next.share)
        next.begin()
      }
    },
    rejectWaiting(error) {
      for (let next = waiting.shift(); next; next = waiting.shift()) next.reject(error)
    },
    use: () => ({ max: connections, inUse: busy, waiting: waiting.size, refused, timedOut }),
  }
}

function full(maxPending: number): Error {
  return storeUnavailable(`Cannot use PostgreSQL because ${maxPending} statements are waiting already`)
}
