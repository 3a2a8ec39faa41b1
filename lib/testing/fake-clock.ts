import type { Clock } from '../base/ids.ts'
import { printValue } from '../base/options.ts'

/** A clock that only moves when you tell it to. Works with any `clock` option because it's a function. */
export interface FakeClock extends Clock {
  /**
   * Moves the clock forward.
   *
   * @param ms milliseconds, at least 0
   * @throws `RangeError` for a negative or invalid value
   */
  advance(ms: number): void
  /** Sets the clock, forward or back. @param time a `Date`, ISO 8601, or milliseconds since 1970 (UTC) */
  set(time: Date | string | number): void
}

/**
 * Creates a clock for `createMemoryStore`, `createPlatform`, `createDeveloperSettings` and `verifyWebhook`, so you
 * don't have to wait for expiry, retries or idempotency windows. PostgreSQL stores use the database's clock instead.
 *
 * @param start a `Date`, an ISO 8601 string, or milliseconds since 1970 (UTC). Defaults to the current time
 * @throws `RangeError` for an invalid time
 *
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
          `Cannot advance the clock because the time must be 0 ms or more: current value is ${printValue(ms)}`,
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
  const isTime = typeof time === 'string' || typeof time === 'number' || time instanceof Date
  const ms = isTime ? new Date(time).getTime() : Number.NaN
  if (Number.isFinite(ms)) return ms
  throw new RangeError(
    `Cannot set the clock because the time is invalid: current value is ${printValue(time)}`,
  )
}
