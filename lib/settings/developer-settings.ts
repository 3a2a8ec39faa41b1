import { DEFAULT_KEY_PREFIX, isApiKeyPrefix } from '../access/api-keys.ts'
import { type Clock, createIds, type Ids } from '../base/ids.ts'
import { readHeaderPrefix, readWhole } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import {
  type DestinationOptions,
  type DestinationVerdict,
  judgeDestination,
  readDestinationOptions,
} from '../webhooks/destination.ts'
import { type Lookup, readLookup } from '../webhooks/dns-lookup.ts'
import { createSecretSealer, type SecretSealingOptions } from '../webhooks/secret-sealing.ts'
import type { WebhookSender } from '../webhooks/webhook-sender.ts'
import { type ApiKeySettings, createApiKeySettings } from './api-keys.ts'
import { type AuditSettings, createAuditSettings, createMakeEntry } from './audit.ts'
import { createDeliverySettings, type DeliverySettings } from './deliveries.ts'
import { createEndpointSettings, type EndpointSettings } from './endpoints.ts'
import { createRateLimitSettings, type RateLimitSettings } from './rate-limits.ts'
import { createSecretSettings, type SecretSettings } from './resealing.ts'

/** Options of `createDeveloperSettings`. Each is read once; API keys alone need none of them. */
export interface DeveloperSettingsOptions extends SecretSealingOptions, DestinationOptions {
  /** What new API keys begin with: `bapi` in `bapi_live_…`. A lower-case letter, then at most 15 letters or digits. Default `bapi`. */
  keyPrefix?: string | undefined
  /** As the delivery loop has it: no endpoint may have headers `X-SERVICE-…` of its own. Default `X-SERVICE`. */
  headerPrefix?: string | undefined
  /** API keys in force of one organization at most; rotations may double their number for their overlap. Default 100. */
  maxApiKeys?: number | undefined
  /** Webhook endpoints of one organization at most, paused and disabled ones included. Default 50. */
  maxEndpoints?: number | undefined
  /**
   * Resolves names when an endpoint is registered. Default that of the `sender`; without one `publicLookup`, and
   * `dns.lookup` with `allowPrivateNetworks`.
   */
  lookup?: Lookup | undefined
  /**
   * Makes the attempts of `endpoints.sendTest`, and judges destinations at registration unless one of the options about
   * destinations is given: `createWebhookSender()`. The host closes it. Default none.
   */
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
  readonly secrets: SecretSettings
  readonly audit: AuditSettings
}

/** Of the bounds per organization: each list gives all records at once. */
const LIMIT_MAX = 1_000_000

/**
 * Opens nothing and writes nothing until a call is made.
 *
 * @throws `TypeError` naming the option that cannot be used
 */
export function createDeveloperSettings(
  store: Pick<BusinessApiStore, 'apiKeys' | 'endpoints' | 'deliveries' | 'audit'>,
  options: DeveloperSettingsOptions = {},
): DeveloperSettings {
  const { clock = Date.now, ids = createIds(clock) } = options
  const context = { ids, clock, makeEntry: createMakeEntry(ids) }
  const sender = readSender(options.sender)
  const sealer = createSecretSealer(options)
  return {
    apiKeys: createApiKeySettings(store, {
      ...context,
      keyPrefix: readKeyPrefix(options.keyPrefix),
      maxApiKeys: readWhole('maxApiKeys', options.maxApiKeys, 100, { max: LIMIT_MAX }),
    }),
    rateLimits: createRateLimitSettings(store, context.makeEntry),
    endpoints: createEndpointSettings(store, {
      ...context,
      sealer,
      judge: createJudge(options, sender),
      headerPrefix: readHeaderPrefix(options.headerPrefix),
      maxEndpoints: readWhole('maxEndpoints', options.maxEndpoints, 50, { max: LIMIT_MAX }),
      sender,
    }),
    deliveries: createDeliverySettings(store, context.makeEntry),
    secrets: createSecretSettings(store, sealer),
    audit: createAuditSettings(store),
  }
}

/** Registration judges by the options, and without any of them as the sender judges each attempt. */
function createJudge(
  options: DeveloperSettingsOptions,
  sender: WebhookSender | undefined,
): (url: string) => Promise<DestinationVerdict> {
  const rules = readDestinationOptions(options)
  const lookup = readLookup(options.lookup, rules.allowPrivateNetworks)
  const hasRules = DESTINATION_OPTIONS.some((name) => options[name] !== undefined)
  return (url) =>
    !hasRules && sender?.judge ? sender.judge(url) : judgeDestination(url, { ...rules, lookup })
}

const DESTINATION_OPTIONS = [
  'allowHttp',
  'allowPrivateNetworks',
  'localDevelopment',
  'lookup',
  'refuseAddresses',
] as const

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
