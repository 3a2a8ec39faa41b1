import { DEFAULT_KEY_PREFIX, isApiKeyPrefix } from '../api-keys.ts'
import { type Clock, createIds, type Ids } from '../ids.ts'
import type { BusinessStore } from '../store.ts'
import { type ApiKeySettings, createApiKeySettings } from './api-keys.ts'
import { createRateLimitSettings, type RateLimitSettings } from './rate-limits.ts'

/** Options of `createDeveloperSettings`. Each is read once. */
export interface DeveloperSettingsOptions {
  /** What new API keys begin with: `bapi` in `bapi_live_…`. A lower-case letter, then at most 15 letters or digits. Default `bapi`. */
  keyPrefix?: string | undefined
  /** Milliseconds since 1970 in UTC, for when a key was created; when it expires is the store's to say. Default `Date.now`. */
  clock?: Clock | undefined
  /** Makes the ids of keys. Default monotonic ULIDs. */
  ids?: Ids | undefined
}

/**
 * What an administrator of an organization does in the developer settings of the host's web application. Who may do it
 * is the host's to check; so is that the `organizationId` is that administrator's.
 *
 * Every call throws `BusinessApiError` with code `invalid_input` for an input that cannot be used, and what the store
 * throws.
 */
export interface DeveloperSettings {
  readonly apiKeys: ApiKeySettings
  readonly rateLimits: RateLimitSettings
}

/**
 * Opens nothing and writes nothing until a call is made.
 *
 * @throws `TypeError` naming the option that cannot be used
 */
export function createDeveloperSettings(
  store: Pick<BusinessStore, 'apiKeys'>,
  { keyPrefix = DEFAULT_KEY_PREFIX, clock = Date.now, ids = createIds(clock) }: DeveloperSettingsOptions = {},
): DeveloperSettings {
  if (!isApiKeyPrefix(keyPrefix)) {
    throw new TypeError(
      `Cannot use option 'keyPrefix' as it must be a lower-case letter, then at most 15 lower-case letters or digits: ` +
        `current value is '${keyPrefix}'`,
    )
  }
  return {
    apiKeys: createApiKeySettings(store, keyPrefix, { ids, clock }),
    rateLimits: createRateLimitSettings(store),
  }
}
