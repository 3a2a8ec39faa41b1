import { storeUnavailable } from '../../base/errors.ts'
import { createFairQueue } from '../../base/fair-queue.ts'

/** The organization that a statement is for: its id, or a symbol for a kind of work of the library's own. */
export type Share = string | symbol

/** The turns of statements at the connections of a store. */
export interface Turns {
  /**
   * Waits until a statement of `share` may use a connection, which it does until {@link Turns.end}.
   *
   * @returns false when no connection came free within `timeoutMs`
   * @throws `BusinessApiError` with code `store_unavailable` when too many statements wait; what
   *   {@link Turns.rejectWaiting} is given
   */
  take(share: Share, timeoutMs: number): Promise<boolean>
  end(share: Share): void
  rejectWaiting(error: unknown): void
}

/** Below so many connections shares would leave one organization with a single connection, or none. */
const SHARED_FROM = 4

interface Waiter {
  readonly share: Share
  begin(): void
  reject(error: unknown): void
}

/**
 * Shares the connections out, so that statements of one organization that wait for a lock do not hold up the others: one
 * organization has at most half of the connections, and the last quarter goes to organizations that have none. Statements
 * that wait get their turns in round robin of the organizations. With fewer than four connections only the round robin
 * holds.
 *
 * @param maxPending statements that may have or wait for a connection; one more is refused, or takes the place of the
 *   organization with most that wait
 */
export function createTurns(connections: number, maxPending: number): Turns {
  const isShared = connections >= SHARED_FROM
  const mostOfOne = isShared ? Math.floor(connections / 2) : connections
  const firstComers = isShared ? Math.ceil(connections / 4) : 0
  const waiting = createFairQueue<Share, Waiter>()
  /** Statements that have a connection, by share. */
  const underWay = new Map<Share, number>()
  let busy = 0

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
    // Two more, so that two organizations do not take places from each other for ever.
    const gives = waiting.shiftLongest(waiting.countOf(share) + 2)
    if (!gives) throw full(maxPending)
    gives.reject(full(maxPending))
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
        resolve(false)
      }, timeoutMs)
      waiting.add(share, waiter)
    })
  }

  return {
    async take(share, timeoutMs) {
      makeRoom(share)
      // No statement that waits is passed over: each of them found no connection that it may have, and finds none now.
      if (!mayBegin(share)) return wait(share, timeoutMs)
      begin(share)
      return true
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
  }
}

function full(maxPending: number): Error {
  return storeUnavailable(`Cannot use PostgreSQL as ${maxPending} statements are waiting already`)
}
