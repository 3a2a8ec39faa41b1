import { isRateLimit, RATE_LIMIT_BOUNDS, type RateLimit } from '../access/rate-limit.ts'
import { UsageError } from './failure.ts'
import { parsed } from './flags.ts'

/** Flags for commands that set a rate limit. */
export const RATE_FLAGS = {
  perSecond: parsed('N', 'average number of requests per second: 10, or 0.5', parseNumber),
  burst: parsed('N', 'requests at once', parseNumber),
}

/** Parses a number with decimals. @throws `UsageError` */
export function parseNumber(given: string, source: string): number {
  if (/^\d{1,10}(\.\d{1,3})?$/.test(given)) return Number(given)
  throw new UsageError(`${source} must be a number like 10 or 0.5`)
}

/**
 * Combines the two rate limit flags.
 *
 * @returns the limit, or `undefined` if neither flag was passed
 * @throws `UsageError` if only one flag was passed, or a number is out of bounds
 */
export function readRate(perSecond: number | undefined, burst: number | undefined): RateLimit | undefined {
  if (perSecond === undefined && burst === undefined) return undefined
  if (perSecond === undefined || burst === undefined) {
    throw new UsageError('Pass both --per-second and --burst')
  }
  const rate = { perSecond, burst }
  if (isRateLimit(rate)) return rate
  const { perSecondMin, perSecondMax, burstMax } = RATE_LIMIT_BOUNDS
  throw new UsageError(
    `Cannot use this rate limit because --per-second must be from ${perSecondMin} to ${perSecondMax}, and --burst a whole number from 1 to ${burstMax}`,
  )
}

/** Formats a rate limit, for example `10/s, burst 100`. */
export function describeRate({ perSecond, burst }: RateLimit): string {
  return `${perSecond}/s, burst ${burst}`
}
