import type { Scope, ScopeOf } from '../access/scopes.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import { type Names, readWhole, rejectUnknown } from '../base/options.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EventType } from '../resources/event-catalogue.ts'
import type { EventTypeOf } from '../resources/own-events.ts'
import { type Service, serviceOf } from '../service.ts'
import {
  DESTINATION_NAMES,
  type DestinationOptions,
  type DestinationVerdict,
  judgeDestination,
  readDestinationOptions,
} from '../webhooks/destination.ts'
import { type Lookup, readLookup } from '../webhooks/dns-lookup.ts'
import { createSecretSealer, SEALING_NAMES, type SecretSealingOptions } from '../webhooks/secret-sealing.ts'
import type { WebhookSender } from '../webhooks/webhook-sender.ts'
import { createActivitySettings, type ReadActivity } from './activity.ts'
import { type ApiKeySettings, createApiKeySettings } from './api-keys.ts'
import { type AuditSettings, createAuditSettings } from './audit.ts'
import { createMakeEntry } from './calls.ts'
import { createDeliverySettings, type DeliverySettings } from './deliveries.ts'
import { createEndpointSettings, type EndpointSettings } from './endpoints.ts'
import { createEventSettings, type EventSettings } from './events.ts'
import { createOrganizationSettings, type OrganizationSettings } from './organizations.ts'
import { createRateLimitSettings, type RateLimitSettings } from './rate-limits.ts'
import { createRequestSettings, type RequestSettings } from './requests.ts'
import { createSecretSettings, type SecretSettings } from './resealing.ts'

/** Options of `createDeveloperSettings`. Each option is read once. None are needed if you only manage API keys. */
export interface DeveloperSettingsOptions extends SecretSealingOptions, DestinationOptions {
  /** Maximum number of active API keys per organization. Overlaps of rotations can double it. Defaults to 100. */
  maxApiKeys?: number | undefined
  /** Maximum number of webhook endpoints per organization, including paused and disabled ones. Defaults to 50. */
  maxEndpoints?: number | undefined
  /**
   * Resolves host names when an endpoint is registered. Defaults to the lookup of `sender`. If there is no sender, it
   * defaults to `publicLookup`, or `dns.lookup` if `allowPrivateNetworks` is set.
   */
  lookup?: Lookup | undefined
  /**
   * The sender for `endpoints.sendTest`, for example `createWebhookSender()`. Unless you set any destination options,
   * it also checks destinations when endpoints are registered. It isn't closed for you. Optional.
   */
  sender?: WebhookSender | undefined
  /** Returns milliseconds since 1970 (UTC) for creation times. Expiry uses the store's clock. Default `Date.now`. */
  clock?: Clock | undefined
  /**
   * Generates ids of keys, endpoints, audit entries and tests. An id must consist of the kind, `_`, and 1 to 59
   * letters, digits, hyphens and underscores, or a ULID for audit entries. Otherwise the call throws a `TypeError` and
   * doesn't write anything. Defaults to monotonic ULIDs.
   */
  ids?: Ids | undefined
}

/**
 * Calls for building developer settings into your web application. You have to make sure that the user is an
 * administrator of the organization whose id you pass. All calls that change something accept an `actor` and write an
 * audit entry in the same statement. If nothing changes, no entry is written.
 *
 * All calls throw `BusinessApiError` with code `invalid_input` if the input is invalid, and errors of the store.
 *
 * @typeParam Type the service's event types
 * @typeParam Scopes the service's scopes
 */
export interface DeveloperSettings<Type extends string = EventType, Scopes extends string = Scope> {
  readonly apiKeys: ApiKeySettings<Scopes>
  readonly rateLimits: RateLimitSettings
  readonly endpoints: EndpointSettings<Type>
  readonly deliveries: DeliverySettings<Type>
  readonly events: EventSettings<Type>
  readonly secrets: SecretSettings
  readonly audit: AuditSettings
  readonly requests: RequestSettings
  readonly activity: ReadActivity
  readonly organizations: OrganizationSettings
  /** The service of the store. */
  readonly service: Service
  /** Which calls are possible with the given options, so that pages can offer them. */
  readonly capabilities: Capabilities
}

/** Which calls are possible with the options of `createDeveloperSettings`. */
export interface Capabilities {
  /** `true` if there is a `sender`, so `endpoints.sendTest` works. */
  readonly tests: boolean
  /** `true` if signing secrets can be stored, because `secretKeys` or `allowPlaintextSecrets` is set. */
  readonly signing: boolean
}

const NAMES: Names<DeveloperSettingsOptions> = {
  ...SEALING_NAMES,
  ...DESTINATION_NAMES,
  maxApiKeys: true,
  maxEndpoints: true,
  lookup: true,
  sender: true,
  clock: true,
  ids: true,
}

/** Upper bound for the limits per organization. Needed because lists return all records at once. */
const LIMIT_MAX = 1_000_000

/**
 * Creates the calls for an organization's administrators. Nothing is opened before the first call.
 *
 * @throws `TypeError` naming the invalid option
 * @example
 * ```ts
 * const settings = createDeveloperSettings(store, { secretKeys, sender: createWebhookSender() })
 * const { key } = await settings.apiKeys.create('org_42', { name: 'Website', scopes: ['leads:write'] })
 * ```
 */
export function createDeveloperSettings<Own extends Service = Service>(
  store: Pick<
    BusinessApiStore,
    'apiKeys' | 'endpoints' | 'deliveries' | 'audit' | 'requests' | 'backfills' | 'eventLog' | 'organizations'
  > & { readonly service: Own },
  options: DeveloperSettingsOptions = {},
): DeveloperSettings<EventTypeOf<Own>, ScopeOf<Own>> {
  rejectUnknown(options, NAMES)
  const { clock = Date.now } = options
  const service = serviceOf(store)
  const ids = readIds(options.ids, clock)
  const context = { ids, clock, makeEntry: createMakeEntry(ids) }
  const sender = readSender(options.sender)
  const sealer = createSecretSealer(options)
  return {
    apiKeys: createApiKeySettings(store, {
      ...context,
      ...service,
      maxApiKeys: readWhole('maxApiKeys', options.maxApiKeys, 100, { max: LIMIT_MAX }),
    }),
    rateLimits: createRateLimitSettings(store, context.makeEntry),
    endpoints: createEndpointSettings(store, {
      ...context,
      ...service,
      sealer,
      judge: createJudge(options, sender),
      maxEndpoints: readWhole('maxEndpoints', options.maxEndpoints, 50, { max: LIMIT_MAX }),
      sender,
    }),
    deliveries: createDeliverySettings(store, service, context.makeEntry),
    events: createEventSettings(store, service, context.makeEntry),
    secrets: createSecretSettings(store, sealer),
    audit: createAuditSettings(store),
    requests: createRequestSettings(store),
    activity: createActivitySettings(store, clock),
    organizations: createOrganizationSettings(store),
    service,
    capabilities: {
      tests: sender !== undefined,
      signing: sealer.hasKeys || options.allowPlaintextSecrets === true,
    },
  }
}

/** Registration uses the destination options if there are any. Otherwise the sender decides, as for each attempt. */
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

const DESTINATION_OPTIONS = Object.keys({ ...DESTINATION_NAMES, lookup: true }) as readonly (
  | keyof DestinationOptions
  | 'lookup'
)[]

function readSender(sender: WebhookSender | undefined): WebhookSender | undefined {
  if (sender === undefined || typeof sender?.send === 'function') return sender
  throw new TypeError(
    "Cannot use option 'sender' because it must have the method send, as that of createWebhookSender()",
  )
}
