import { withDeadline } from '../../base/time.ts'

/** Runs one task per name at a time, while others with the same name wait. */
export interface SingleFlight {
  /**
   * Runs `work` once no other task under that name is running. Returns `null` without running `work` if the other task
   * returned `null` or didn't end within `waitMs`.
   */
  run<T>(name: string, waitMs: number, work: () => Promise<T | null>): Promise<T | null>
}

/**
 * Creates a single flight. Waiting tasks don't use a connection. Otherwise a hundred requests with the same idempotency
 * key would take up all connections of the process just to wait for the first request's lock.
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
