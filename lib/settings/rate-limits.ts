import * as v from 'valibot'
import type { RateLimit } from '../rate-limit.ts'
import type { BusinessStore } from '../store.ts'
import { OrganizationIdSchema, read } from './input.ts'

/**
 * Bounds within which the arithmetic of the buckets is exact enough: they forgive a hundredth of a millisecond, which
 * from 10 000 per second on is a tenth of the interval between two requests.
 */
const PER_SECOND_MIN = 0.001
const PER_SECOND_MAX = 10_000
const BURST_MAX = 1_000_000

const requirement =
  `must be null or { perSecond, burst } with perSecond from ${PER_SECOND_MIN} to ${PER_SECOND_MAX} ` +
  `and burst a whole number from 1 to ${BURST_MAX}`

/** A limit that an administrator gives to a key or to an organization. */
export const RateLimitSchema: v.GenericSchema<RateLimit> = v.object(
  {
    perSecond: v.pipe(
      v.number(requirement),
      v.minValue(PER_SECOND_MIN, requirement),
      v.maxValue(PER_SECOND_MAX, requirement),
    ),
    burst: v.pipe(
      v.number(requirement),
      v.integer(requirement),
      v.minValue(1, requirement),
      v.maxValue(BURST_MAX, requirement),
    ),
  },
  requirement,
)

const SetSchema = v.object({ organizationId: OrganizationIdSchema, rateLimit: v.nullable(RateLimitSchema) })

/** The limits of organizations. */
export interface RateLimitSettings {
  /**
   * Sets the organization's own limit for all its API keys together, from the next request on; `null` returns it to the
   * API's.
   *
   * @param rateLimit `perSecond` from 0.001 to 10 000, `burst` a whole number from 1 to 1 000 000
   */
  set(organizationId: string, rateLimit: RateLimit | null): Promise<void>
}

/** Rate limits as administrators set them. */
export function createRateLimitSettings(store: Pick<BusinessStore, 'apiKeys'>): RateLimitSettings {
  return {
    async set(organizationId, rateLimit) {
      const input = read(SetSchema, { organizationId, rateLimit }, 'Cannot set a rate limit')
      await store.apiKeys.limitOrganization(input.organizationId, input.rateLimit)
    },
  }
}
