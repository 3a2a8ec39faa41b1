import type { Scope, ScopeOf } from '../access/scopes.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import { readHaving, readWhole, rejectUnknown } from '../base/options.ts'
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

/** Options for `createDeveloperSettings`. Each option is read once. You don't need any to manage API keys. */
export interface DeveloperSettingsOptions extends SecretSealingOptions, DestinationOptions {
  /** Maximum number of active API keys per organization. Rotations can temporarily double it. Defaults to 100. */
  maxApiKeys?: number | undefined
  /** Maximum number of webhook endpoints per organization, including paused and disabled ones. Defaults to 50. */
  maxEndpoints?: number | undefined
  /**
   * Resolves hostnames when an endpoint is registered. Defaults to the lookup of `sender`. Without a sender, defaults
   * to `publicLookup`, or `dns.lookup` if `allowPrivateNetworks` is set.
   */
  lookup?: Lookup | undefined
  /**
   * The sender for `endpoints.sendTest`, for example `createWebhookSender()`. Optional. If you don't set any
   * destination options, the sender also checks URLs at registration. You have to close it yourself.
   */
  sender?: WebhookSender | undefined
  /** Returns the Unix time in milliseconds for creation times. Expiry uses the store's clock. Default `Date.now`. */
  clock?: Clock | undefined
  /**
   * Generates ids for keys, endpoints, audit entries and tests. Ids must be the kind, `_`, then 1 to 59 letters,
   * digits, hyphens or underscores (or a ULID for audit entries). If an id is invalid, the call throws a `TypeError`
   * and nothing is written. Defaults to monotonic ULIDs.
   */
  ids?: Ids | undefined
}

/**
 * Calls for building developer settings into your web application. You must check that the user is an administrator of
 * the organization whose id you pass. Calls that change something take an optional `actor`, and write an audit entry in
 * the same statement unless nothing changes.
 * All calls throw `BusinessApiError` with code `invalid_input` if the input is invalid. They also throw any
 * store errors.
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
  /** The store's service. */
  readonly service: Service
  /** Which calls are available, so pages know what to offer. */
  readonly capabilities: Capabilities
}

/** Which calls are available with the given options. */
export interface Capabilities {
  /** `true` if there is a `sender`, which `endpoints.sendTest` requires. */
  readonly tests: boolean
  /** `true` if signing secrets can be stored because `secretKeys` or `allowPlaintextSecrets` is set. */
  readonly signing: boolean
}

/** Upper bound for per-organization limits, because lists return all records at once. */
const LIMIT_MAX = 1_000_000

/**
 * Creates the calls for an organization's administrators. Doesn't open any connections until the first call.
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
  rejectUnknown(options, {
    ...SEALING_NAMES,
    ...DESTINATION_NAMES,
    maxApiKeys: true,
    maxEndpoints: true,
    lookup: true,
    sender: true,
    clock: true,
    ids: true,
  })
  const { clock = Date.now } = options
  const service = serviceOf(store)
  const ids = readIds(options.ids, clock)
  const context = { ids, clock, makeEntry: createMakeEntry(ids) }
  const { sender } = options
  if (sender !== undefined) readHaving("Option 'sender'", sender, 'send', 'createWebhookSender()')
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

/** Uses the destination options at registration if there are any. Otherwise, the sender decides. */
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
