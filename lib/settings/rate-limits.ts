import * as v from 'valibot'
import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit } from '../access/rate-limit.ts'
import { defineCall } from '../base/host-input.ts'
import { findUnknown, isPlain } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Acting, audited, defineAuditedCall, type MakeEntry } from './calls.ts'

const requirement = `must be null or ${RATE_LIMIT_REQUIREMENT}`

/** A limit that an administrator gives to a key or to an organization. */
export const RateLimitSchema: v.GenericSchema<RateLimit> = v.pipe(
  v.custom<RateLimit>(
    (given) => isPlain(given) && findUnknown(given, ['perSecond', 'burst']) === undefined,
    requirement,
  ),
  v.check(isRateLimit, requirement),
)

const readGet = defineCall('Cannot show a rate limit', {})
const readSet = defineAuditedCall('Cannot set a rate limit', { rateLimit: v.nullable(RateLimitSchema) })

/** The limits of organizations. */
export interface RateLimitSettings {
  /** Gives the limit that was set for all API keys of the organization together; null: the API's limit. */
  get(organizationId: string): Promise<RateLimit | null>

  /**
   * Sets the limit for all API keys of the organization together, from the next request on; `null` returns to the API's
   * limit.
   *
   * @param rateLimit within {@link RATE_LIMIT_BOUNDS}
   */
  set(organizationId: string, rateLimit: RateLimit | null, options?: Acting): Promise<void>
}

/** Creates the calls about the limits of organizations. */
export function createRateLimitSettings(
  { apiKeys }: Pick<BusinessApiStore, 'apiKeys'>,
  makeEntry: MakeEntry,
): RateLimitSettings {
  return {
    get: async (organizationId) => apiKeys.getOrganizationLimit(readGet(organizationId).organizationId),

    async set(organizationId, rateLimit, options) {
      const call = readSet(organizationId, options, { rateLimit })
      const request = audited(makeEntry, call, 'rate_limit.set', call.organizationId, call.input)
      await apiKeys.limitOrganization({ ...request, ...call.input })
    },
  }
}
