import * as v from 'valibot'
import { isRateLimit, RATE_LIMIT_REQUIREMENT, type RateLimit } from '../access/rate-limit.ts'
import { defineCall } from '../base/host-input.ts'
import { findUnknown, isPlain } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Acting, audited, defineAuditedCall, type MakeEntry } from './calls.ts'

const requirement = `must be null or ${RATE_LIMIT_REQUIREMENT}`

/** Schema for a key's or organization's rate limit. */
export const RateLimitSchema: v.GenericSchema<RateLimit> = v.pipe(
  v.custom<RateLimit>(
    (given) => isPlain(given) && findUnknown(given, ['perSecond', 'burst']) === undefined,
    requirement,
  ),
  v.check(isRateLimit, requirement),
)

const readGet = defineCall('Cannot show a rate limit', {})
const readSet = defineAuditedCall('Cannot set a rate limit', { rateLimit: v.nullable(RateLimitSchema) })

/** Manages an organization's rate limit. */
export interface RateLimitSettings {
  /** Returns the combined rate limit for an organization's API keys, or `null` if it uses the API's limit. */
  get(organizationId: string): Promise<RateLimit | null>

  /**
   * Returns how long it takes until each API key's full rate limit is available again. For example, 5000 ms for a key
   * with a limit of 10 per second means that 50 requests have been used.
   *
   * @returns milliseconds by key id, excluding unused keys
   */
  resets(organizationId: string): Promise<Readonly<Record<string, number>>>

  /**
   * Sets an organization's rate limit, shared by all of its API keys. Effective with the next request. Pass `null` to
   * return to the API's limit.
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
