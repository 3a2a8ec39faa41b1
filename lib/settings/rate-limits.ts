import * as v from 'valibot'
import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit } from '../access/rate-limit.ts'
import { defineCall } from '../base/host-input.ts'
import { findUnknown, isPlain } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Acting, audited, defineAuditedCall, type MakeEntry } from './calls.ts'

const requirement = `must be null or ${RATE_LIMIT_REQUIREMENT}`

/** Schema for the rate limit of a key or organization. */
export const RateLimitSchema: v.GenericSchema<RateLimit> = v.pipe(
  v.custom<RateLimit>(
    (given) => isPlain(given) && findUnknown(given, ['perSecond', 'burst']) === undefined,
    requirement,
  ),
  v.check(isRateLimit, requirement),
)

const readGet = defineCall('Cannot show a rate limit', {})
const readSet = defineAuditedCall('Cannot set a rate limit', { rateLimit: v.nullable(RateLimitSchema) })

/** Manages the rate limits of organizations. */
export interface RateLimitSettings {
  /** Returns the rate limit for all of an organization's API keys together, or `null` if the API's limit is used. */
  get(organizationId: string): Promise<RateLimit | null>

  /**
   * Returns how long each API key's rate limit takes until it is fully available again. For example, a key with a limit
   * of 10 per second and 5000 ms has used 50 requests.
   *
   * @returns milliseconds by key ID, without unused keys
   */
  resets(organizationId: string): Promise<Readonly<Record<string, number>>>

  /**
   * Sets the rate limit of the organization, which applies to all of its API keys together. Takes effect with the next
   * request. Pass `null` to go back to the API's limit.
   *
   * @param rateLimit must be within {@link RATE_LIMIT_BOUNDS}
   */
  set(organizationId: string, rateLimit: RateLimit | null, options?: Acting): Promise<void>
}

/** Creates the rate limit calls. */
export function createRateLimitSettings(
  { apiKeys }: Pick<BusinessApiStore, 'apiKeys'>,
  makeEntry: MakeEntry,
): RateLimitSettings {
  return {
    get: async (organizationId) => apiKeys.getOrganizationLimit(readGet(organizationId).organizationId),

    resets: async (organizationId) => apiKeys.readResets(readGet(organizationId).organizationId),

    async set(organizationId, rateLimit, options) {
      const call = readSet(organizationId, options, { rateLimit })
      const request = audited(makeEntry, call, 'rate_limit.set', call.organizationId, call.input)
      await apiKeys.limitOrganization({ ...request, ...call.input })
    },
  }
}
