import { DEFAULT_KEY_PREFIX, isApiKeyPrefix } from '../api-keys.ts'
import { type DestinationOptions, judgeDestination } from '../destination.ts'
import { type Clock, createIds, type Ids } from '../ids.ts'
import { type Lookup, publicLookup, readLookup } from '../lookup.ts'
import { readFlag, readHeaderPrefix } from '../options.ts'
import { createSecretSealer, type SecretSealingOptions } from '../secret-sealing.ts'
import type { BusinessStore } from '../store.ts'
import type { WebhookSender } from '../webhook-sender.ts'
import { type ApiKeySettings, createApiKeySettings } from './api-keys.ts'
import { type AuditSettings, createAuditSettings, createMakeEntry } from './audit.ts'
import { createDeliverySettings, type DeliverySettings } from './deliveries.ts'
import { createEndpointSettings, type EndpointSettings } from './endpoints.ts'
import { createRateLimitSettings, type RateLimitSettings } from './rate-limits.ts'

/** Options of `createDeveloperSettings`. Each is read once; API keys alone need none of them. */
export interface DeveloperSettingsOptions extends SecretSealingOptions, DestinationOptions {
  /** What new API keys begin with: `bapi` in `bapi_live_…`. A lower-case letter, then at most 15 letters or digits. Default `bapi`. */
  keyPrefix?: string | undefined
  /** As the delivery loop has it: no endpoint may have headers `X-SERVICE-…` of its own. Default `X-SERVICE`. */
  headerPrefix?: string | undefined
  /**
   * As the sender has it: resolves names when an endpoint is registered, so that the verdict is that of the attempts.
   * Default `publicLookup`.
   */
  lookup?: Lookup | undefined
  /** Makes the attempts of `endpoints.sendTest`: `createWebhookSender()`. It stays the host's to close. Default none. */
  sender?: WebhookSender | undefined
  /** Milliseconds since 1970 in UTC, for when a record was created; when it expires is the store's to say. Default `Date.now`. */
  clock?: Clock | undefined
  /** Makes the ids of keys, endpoints, audit entries and tests. Default monotonic ULIDs. */
  ids?: Ids | undefined
}

/**
 * What an administrator of an organization does in the developer settings of the host's web application. Who may do it
 * is the host's to check; so is that the `organizationId` is that administrator's. Every call that changes something
 * takes an `actor` and leaves an entry in the audit, in the same statement; one that changes nothing leaves none.
 *
 * Every call throws `BusinessApiError` with code `invalid_input` for an input that cannot be used, and what the store
 * throws.
 */
export interface DeveloperSettings {
  readonly apiKeys: ApiKeySettings
  readonly rateLimits: RateLimitSettings
  readonly endpoints: EndpointSettings
  readonly deliveries: DeliverySettings
  readonly audit: AuditSettings
}

/**
 * Opens nothing and writes nothing until a call is made.
 *
 * @throws `TypeError` naming the option that cannot be used
 */
export function createDeveloperSettings(
  store: Pick<BusinessStore, 'apiKeys' | 'endpoints' | 'deliveries' | 'audit'>,
  options: DeveloperSettingsOptions = {},
): DeveloperSettings {
  const { clock = Date.now, ids = createIds(clock) } = options
  const making = { ids, clock, makeEntry: createMakeEntry(ids) }
  const destinations = {
    allowPrivateNetworks: readFlag('allowPrivateNetworks', options.allowPrivateNetworks),
    allowHttp: readFlag('allowHttp', options.allowHttp),
    lookup: readLookup(options.lookup, publicLookup),
  }
  return {
    apiKeys: createApiKeySettings(store, { ...making, keyPrefix: readKeyPrefix(options.keyPrefix) }),
    rateLimits: createRateLimitSettings(store, making.makeEntry),
    endpoints: createEndpointSettings(store, {
      ...making,
      sealer: createSecretSealer(options),
      judge: (url) => judgeDestination(url, destinations),
      headerPrefix: readHeaderPrefix(options.headerPrefix),
      sender: readSender(options.sender),
    }),
    deliveries: createDeliverySettings(store, making.makeEntry),
    audit: createAuditSettings(store),
  }
}

function readSender(sender: WebhookSender | undefined): WebhookSender | undefined {
  if (sender === undefined || typeof sender?.send === 'function') return sender
  throw new TypeError(
    "Cannot use option 'sender' as it must have the method send, as that of createWebhookSender()",
  )
}

function readKeyPrefix(prefix = DEFAULT_KEY_PREFIX): string {
  if (isApiKeyPrefix(prefix)) return prefix
  throw new TypeError(
    `Cannot use option 'keyPrefix' as it must be a lower-case letter, then at most 15 lower-case letters or digits: ` +
      `current value is '${prefix}'`,
  )
}
