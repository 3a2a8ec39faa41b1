import { storeUnavailable } from '../../base/errors.ts'
import { createFairQueue } from '../../base/fair-queue.ts'
import type { ConnectionUse } from '../../business-store.ts'

/** The owner of connections: an organization ID, or a symbol for work that doesn't belong to an organization. */
export type Share = string | symbol

/** Decides which statement may use a connection next. */
export interface Turns {
  /** Starts a turn if `share` doesn't have to wait. Must be followed by {@link Turns.end}. */
  takeNow(share: Share): boolean
  /**
   * Waits for a turn. Must be followed by {@link Turns.end}.
   *
   * @returns `false` if no connection became free within `timeoutMs`
   * @throws `BusinessApiError` with code `store_unavailable` if too many statements are waiting; the error passed to
   * {@link Turns.rejectWaiting}
   */
  take(share: Share, timeoutMs: number): Promise<boolean>
  end(share: Share): void
  rejectWaiting(error: unknown): void
  /** Returns current connection stats. */
  use(): ConnectionUse
}

/** Minimum number of connections for sharing, since half of three would be just one. */
const SHARED_FROM = 4

interface Waiter {
  readonly share: Share
  begin(): void
  reject(error: unknown): void
}

/**
 * Shares the connections between organizations, so an organization whose statements wait for a lock can't block the
 * others. An organization can use up to half of the connections, and a quarter is reserved for organizations that have
 * none. Waiting statements are served round-robin by organization, which is the only rule if there are fewer than four
 * connections.
 *
 * @param maxPending maximum number of running and waiting statements. Beyond this, a new statement is either rejected
 * or replaces the oldest waiting statement of the organization that has the most
 */
export function createTurns(connections: number, maxPending: number): Turns {
  const isShared = connections >= SHARED_FROM
  const mostOfOne = isShared ? Math.floor(connections / 2) : connections
  const firstComers = isShared ? Math.ceil(connections / 4) : 0
  const waiting = createFairQueue<Share, Waiter>()
  /** Number of connections in use, by share. */
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
    // This can't overtake a waiting statement, because `end` has already started all that may run.
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
