import type { ApiKey } from '../access/api-keys.ts'
import type { WebhookEndpoint } from './endpoints.ts'

/** Asks for the state of an organization's settings at a glance. */
export interface OverviewRequest {
  /** Keys that expire within this time are listed; in milliseconds. */
  readonly keysWithinMs: number
  /** Greatest age of the counted deliveries, in milliseconds. */
  readonly failedWithinMs: number
  /** Greatest number of listed keys, and of listed endpoints. */
  readonly limit: number
}

/** The state of an organization's settings at a glance, above all the records that need an administrator. */
export interface Overview {
  /** True if the organization has an API key in force. */
  readonly hasApiKey: boolean
  /** True if a key of the organization was ever used. */
  readonly hasUsedApiKey: boolean
  /** True if the organization has a webhook endpoint. */
  readonly hasEndpoint: boolean
  /** Disabled endpoints and endpoints whose last attempt failed, newest first. */
  readonly troubledEndpoints: readonly WebhookEndpoint[]
  /** Keys in force that will expire soon and have no successor, by expiry. */
  readonly expiringApiKeys: readonly ApiKey[]
  /** Failed deliveries of present endpoints, created in the period, counted to at most {@link OVERVIEW_COUNT_MAX}. */
  readonly failedDeliveries: number
}

/** The greatest count of an overview. */
export const OVERVIEW_COUNT_MAX = 1000

/** The slice of a store for the overview. */
export interface OverviewStore {
  /** Reads the overview of an organization in one round trip. */
  read(organizationId: string, request: OverviewRequest): Promise<Overview>
}
