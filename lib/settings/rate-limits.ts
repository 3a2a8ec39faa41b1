import * as v from 'valibot'
import { OrganizationIdSchema, read } from '../input.ts'
import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit } from '../rate-limit.ts'
import type { BusinessStore } from '../store.ts'
import { type Acting, ActorSchema, type MakeEntry } from './audit.ts'

const requirement = `must be null or ${RATE_LIMIT_REQUIREMENT}`

/** A limit that an administrator gives to a key or to an organization. */
export const RateLimitSchema: v.GenericSchema<RateLimit> = v.pipe(
  v.object({ perSecond: v.number(requirement), burst: v.number(requirement) }, requirement),
  v.check(isRateLimit, requirement),
)

const SetSchema = v.object({
  organizationId: OrganizationIdSchema,
  rateLimit: v.nullable(RateLimitSchema),
  actor: ActorSchema,
})

/** The limits of organizations. */
export interface RateLimitSettings {
  /**
   * Sets the organization's own limit for all its API keys together, from the next request on; `null` returns it to the
   * API's.
   *
   * @param rateLimit within {@link RATE_LIMIT_BOUNDS}
   */
  set(organizationId: string, rateLimit: RateLimit | null, options?: Acting): Promise<void>
}

/** Rate limits as administrators set them. */
export function createRateLimitSettings(
  store: Pick<BusinessStore, 'apiKeys'>,
  makeEntry: MakeEntry,
): RateLimitSettings {
  return {
    async set(organizationId, rateLimit, { actor } = {}) {
      const input = read(SetSchema, { organizationId, rateLimit, actor }, 'Cannot set a rate limit')
      const { organizationId: owner, rateLimit: limit } = input
      const entry = makeEntry('rate_limit.set', owner, input.actor, { rateLimit: limit })
      await store.apiKeys.limitOrganization(owner, limit, entry)
    },
  }
}
