import { type ApiKey, endOfKey } from '../access/api-keys.ts'
import { defineCall } from '../base/host-input.ts'
import type { Clock } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { toTimestamp } from '../writes/write-context.ts'

/** The state of an organization's settings at a glance, above all the records that need an administrator. */
export interface Overview {
  /** True if the organization has an API key active. */
  readonly hasApiKey: boolean
  /** True if a key of the organization was ever used. */
  readonly hasUsedApiKey: boolean
  /** True if the organization has a webhook endpoint. */
  readonly hasEndpoint: boolean
  /** Disabled endpoints and endpoints whose last attempt failed, newest first, at most 20. */
  readonly troubledEndpoints: readonly WebhookEndpoint[]
  /** Keys active that expire within 7 days and have no successor, by expiry, at most 20. */
  readonly expiringApiKeys: readonly ApiKey[]
  /** Failed deliveries of present endpoints, created in the last 24 hours; 1000 stands for more. */
  readonly failedDeliveries: number
}

/** The state of an organization's settings at a glance. */
export interface OverviewSettings {
  /**
   * Gives everything that needs an administrator: endpoints that are disabled or fail, keys that expire soon and have no successor, and
   * the number of deliveries that failed in the last 24 hours.
   */
  get(organizationId: string): Promise<Overview>
}

const DAY_MS = 24 * 60 * 60 * 1000
const LISTED_MAX = 20
const COUNT_MAX = 1000

const readGet = defineCall('Cannot show the overview', {})

/** Creates the call of the overview. */
export function createOverviewSettings(
  store: Pick<BusinessApiStore, 'apiKeys' | 'endpoints' | 'deliveries'>,
  clock: Clock,
): OverviewSettings {
  return {
    async get(organizationId) {
      const { organizationId: owner } = readGet(organizationId)
      const now = clock()
      const failed = { states: ['failed'], since: toTimestamp(now - DAY_MS) } as const
      const [keys, endpoints, failedDeliveries] = await Promise.all([
        store.apiKeys.list(owner),
        store.endpoints.list(owner),
        store.deliveries.countRecoverable(owner, failed, COUNT_MAX),
      ])
      const inForce = keys.filter((key) => endOfKey(key, now) === null)
      const expiryOf = ({ expiresAt }: ApiKey): number => Date.parse(expiresAt ?? '9999-12-31')
      return {
        hasApiKey: inForce.length > 0,
        hasUsedApiKey: keys.some(({ lastUsedAt }) => lastUsedAt !== null),
        hasEndpoint: endpoints.length > 0,
        troubledEndpoints: endpoints
          .filter(({ state, failures }) => state === 'disabled' || failures > 0)
          .slice(0, LISTED_MAX),
        expiringApiKeys: inForce
          .filter((key) => key.successorId === null && expiryOf(key) <= now + 7 * DAY_MS)
          .sort((one, other) => expiryOf(one) - expiryOf(other))
          .slice(0, LISTED_MAX),
        failedDeliveries,
      }
    },
  }
}
