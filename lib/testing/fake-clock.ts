import type { Clock } from '../base/ids.ts'

/** A clock that stands still until the test moves it. Pass it wherever an option `clock` is: it is a function. */
export interface FakeClock extends Clock {
  /**
   * Moves the clock forward.
   *
   * @param ms milliseconds, 0 or more
   * @throws `RangeError` for a time that would move the clock backwards
   */
  advance(ms: number): void
  /** Sets the clock, also to an earlier time. @param time a `Date`, ISO 8601, or milliseconds since 1970 in UTC */
  set(time: Date | string | number): void
}

/**
 * Creates a clock for `createMemoryStore`, `createPlatform`, `createDeveloperSettings` and `verifyWebhook`: expiry, retries and idempotency
 * windows pass without waiting. The PostgreSQL store uses the database's clock, which no test can move.
 *
 * @param start a `Date`, ISO 8601, or milliseconds since 1970, UTC. Default now
 * @throws `RangeError` for an invalid time
 * @example
 * ```ts
 * const clock = createFakeClock('2026-03-14T09:00:00Z')
 * clock.advance(30_000)
 * ```
 */
export function createFakeClock(start: Date | string | number = Date.now()): FakeClock {
  let now = readTime(start)
  return Object.assign(() => now, {
    advance(ms: number): void {
      if (!(Number.isFinite(ms) && ms >= 0)) {
        throw new RangeError(
          `Cannot advance the clock because the time must be 0 ms or more: current value is ${ms}`,
        )
      }
      now += ms
    },
    set(time: Date | string | number): void {
      now = readTime(time)
    },
  })
}

function readTime(time: Date | string | number): number {
  const ms = new Date(time).getTime()
  if (Number.isFinite(ms)) return ms
  throw new RangeError(`Cannot set the clock because the time is invalid: current value is ${time}`)
}
