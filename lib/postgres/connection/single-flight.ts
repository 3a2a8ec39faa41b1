import { withDeadline } from '../../base/time.ts'

/** Runs work by name: while some of a name is under way, more of that name waits. */
export interface SingleFlight {
  /**
   * Runs `work` at once when none of that name is under way, else as soon as the first has ended.
   *
   * @returns null when the first had not ended within `waitMs` or gave null itself; `work` has not been run then
   */
  run<T>(name: string, waitMs: number, work: () => Promise<T | null>): Promise<T | null>
}

/**
 * Work that waits here needs no connection. Otherwise a hundred requests with one idempotency key would hold every
 * connection of the process, each waiting for the lock of the first request, and no other request would be answered.
 */
export function createSingleFlight(): SingleFlight {
  const firsts = new Map<string, Promise<unknown>>()

  async function lead<T>(name: string, work: () => Promise<T>): Promise<T> {
    const first = work()
    firsts.set(name, first)
    try {
      return await first
    } finally {
      firsts.delete(name)
    }
  }

  return {
    async run(name, waitMs, work) {
      const first = firsts.get(name)
      if (first === undefined) return lead(name, work)
      return (await isFreeWithin(first, waitMs)) ? work() : null
    },
  }
}

async function isFreeWithin(first: Promise<unknown>, waitMs: number): Promise<boolean> {
  const ended = first.then(
    (result) => result !== null,
    () => true,
  )
  return withDeadline(ended, waitMs, () => false)
}
