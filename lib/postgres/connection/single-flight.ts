import { withDeadline } from '../../base/time.ts'

/** Runs work by name: while work of a name is under way, further work of that name waits. */
export interface SingleFlight {
  /**
   * Runs `work` at once if no work of that name is under way, else after the end of the first.
   *
   * @returns null, without running `work`, if the first had not ended within `waitMs` or returned null
   */
  run<T>(name: string, waitMs: number, work: () => Promise<T | null>): Promise<T | null>
}

/**
 * Creates a single flight. Waiting work holds no connection. Without the single flight, a hundred requests with one idempotency
 * key would hold every connection of the process, all waiting for the lock of the first request, and no other request would be
 * answered.
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
