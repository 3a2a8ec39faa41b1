import * as v from 'valibot'
import { OrganizationIdSchema, read } from '../input.ts'
import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit } from '../rate-limit.ts'
import type { BusinessStore } from '../store.ts'

const requirement = `must be null or ${RATE_LIMIT_REQUIREMENT}`

/** A limit that an administrator gives to a key or to an organization. */
export const RateLimitSchema: v.GenericSchema<RateLimit> = v.pipe(
  v.object({ perSecond: v.number(requirement), burst: v.number(requirement) }, requirement),
  v.check(isRateLimit, requirement),
)

const SetSchema = v.object({ organizationId: OrganizationIdSchema, rateLimit: v.nullable(RateLimitSchema) })

/** The limits of organizations. */
export interface RateLimitSettings {
  /**
   * Sets the organization's own limit for all its API keys together, from the next request on; `null` returns it to the
   * API's.
   *
   * @param rateLimit within {@link RATE_LIMIT_BOUNDS}
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
