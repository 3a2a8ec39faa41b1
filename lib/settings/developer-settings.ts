import { DEFAULT_KEY_PREFIX, isApiKeyPrefix } from '../api-keys.ts'
import { type DestinationOptions, judgeDestination } from '../destination.ts'
import { type Clock, createIds, type Ids } from '../ids.ts'
import { readHeaderPrefix } from '../options.ts'
import { createSecretSealer, type SecretSealingOptions } from '../secret-sealing.ts'
import type { BusinessStore } from '../store.ts'
import { type ApiKeySettings, createApiKeySettings } from './api-keys.ts'
import { createDeliverySettings, type DeliverySettings } from './deliveries.ts'
import { createEndpointSettings, type EndpointSettings } from './endpoints.ts'
import { createRateLimitSettings, type RateLimitSettings } from './rate-limits.ts'

/** Options of `createDeveloperSettings`. Each is read once; API keys alone need none of them. */
export interface DeveloperSettingsOptions extends SecretSealingOptions, DestinationOptions {
  /** What new API keys begin with: `bapi` in `bapi_live_…`. A lower-case letter, then at most 15 letters or digits. Default `bapi`. */
  keyPrefix?: string | undefined
  /** As the delivery loop has it: no endpoint may have headers `X-SERVICE-…` of its own. Default `X-SERVICE`. */
  headerPrefix?: string | undefined
  /** Milliseconds since 1970 in UTC, for when a record was created; when it expires is the store's to say. Default `Date.now`. */
  clock?: Clock | undefined
  /** Makes the ids of keys and endpoints. Default monotonic ULIDs. */
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
  readonly endpoints: EndpointSettings
  readonly deliveries: DeliverySettings
}

/**
 * Opens nothing and writes nothing until a call is made.
 *
 * @throws `TypeError` naming the option that cannot be used
 */
export function createDeveloperSettings(
  store: Pick<BusinessStore, 'apiKeys' | 'endpoints' | 'deliveries'>,
  options: DeveloperSettingsOptions = {},
): DeveloperSettings {
  const { clock = Date.now, ids = createIds(clock), allowPrivateNetworks, allowHttp } = options
  const sealer = createSecretSealer(options)
  const judge = (url: string) => judgeDestination(url, { allowPrivateNetworks, allowHttp })
  const headerPrefix = readHeaderPrefix(options.headerPrefix)
  return {
    apiKeys: createApiKeySettings(store, readKeyPrefix(options.keyPrefix), { ids, clock }),
    rateLimits: createRateLimitSettings(store),
    endpoints: createEndpointSettings(store, { sealer, judge, headerPrefix, ids, clock }),
    deliveries: createDeliverySettings(store),
  }
}

function readKeyPrefix(prefix = DEFAULT_KEY_PREFIX): string {
  if (isApiKeyPrefix(prefix)) return prefix
  throw new TypeError(
    `Cannot use option 'keyPrefix' as it must be a lower-case letter, then at most 15 lower-case letters or digits: ` +
      `current value is '${prefix}'`,
  )
}
