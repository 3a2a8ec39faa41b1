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

/** Options of `createDeveloperSettings`, read once. A host that manages only API keys needs no option. */
export interface DeveloperSettingsOptions extends SecretSealingOptions, DestinationOptions {
  /** API keys active of an organization at most; rotations may double the number for the overlap. Default 100. */
  maxApiKeys?: number | undefined
  /** Webhook endpoints of an organization at most, paused and disabled endpoints included. Default 50. */
  maxEndpoints?: number | undefined
  /**
   * Resolves names when an endpoint is registered. Default: the lookup of the `sender`; without a sender
   * `publicLookup`, or `dns.lookup` with `allowPrivateNetworks`.
   */
  lookup?: Lookup | undefined
  /**
   * Makes the attempts of `endpoints.sendTest`, and judges destinations at registration unless an option about
   * destinations is given: `createWebhookSender()`. The host closes the sender. Default: no sender.
   */
  sender?: WebhookSender | undefined
  /**
   * Returns milliseconds since 1970 in UTC, for the creation time of records; the store's clock decides on expiry.
   * Default `Date.now`.
   */
  clock?: Clock | undefined
  /**
   * Makes the ids of keys, endpoints, audit entries and tests: the kind, `_`, and 1 to 59 letters, digits, hyphens and underscores;
   * for an audit entry a ULID. A call that would make another id throws `TypeError` and writes nothing. Default monotonic ULIDs.
   */
  ids?: Ids | undefined
}

/**
 * The calls for the developer settings in the host's web application. The host checks that the user is an administrator
 * of the organization with that `organizationId`. Every call that changes something takes an `actor` and leaves an
 * audit entry, in the same statement; a call that changes nothing leaves no entry.
 *
 * Every call throws `BusinessApiError` with code `invalid_input` for an input that cannot be used, and the errors of
 * the store.
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
  /** The calls that the options make possible, for pages that offer these calls. */
  readonly capabilities: Capabilities
}

/** The calls that the options of `createDeveloperSettings` make possible. */
export interface Capabilities {
  /** True with a `sender`: `endpoints.sendTest` can send. */
  readonly tests: boolean
  /** True with `secretKeys` or `allowPlaintextSecrets`: signing secrets can be stored. */
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

/** Maximum of the limits per organization, because each list returns all records at once. */
const LIMIT_MAX = 1_000_000

/**
 * Creates the calls for administrators of an organization. Opens nothing until the first call.
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

/**
 * Registration judges by the options about destinations, and without these options as the sender judges each attempt.
 */
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
